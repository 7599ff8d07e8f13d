"""Parallel expectation propagation: a site for every shard of the data (Xu et al. 2014; Gelman et al. 2014).

Shard k sees the others through its cavity, q without the shard's own site (T_k, H_k); moments of the cavity
times its rows' likelihoods make the site anew, T_k = S_k⁻¹ − P_cavity. Angelino, Johnson & Adams (2016),
Algorithm 21. Moments are by EP within the shard, by draws that correct these, or by draws alone. The last are
noisy, so that precisions are shrunk towards cavities' and steps fall from round to round (after Vehtari et
al. 2020). Where sites make no Gaussian a round is tried again with half of the step, and a shard whose
moments are of none keeps its site.
"""

import contextlib
import time
from typing import Any

import numpy as np

from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.ep import Ep
from flyrun.experiments.samplers.approximations.method import StreamedGaussian
from flyrun.experiments.samplers.approximations.rows_under_gaussian import Fitted, Natural, Shard
from flyrun.experiments.samplers.approximations.sites import Sites
from flyrun.experiments.samplers.approximations.tilted_draws import corrected, drawn, raw, shrunk
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.numerics.batches import Parts
from flyrun.ground.numerics.state import generator

_ENOUGH = 400  # draws over shards times parameters, at which raw moments are noisy by a tenth
_DECAY = 0.7  # of steps by draws alone, (round)^−decay: their noise averages out
_HALVINGS = 6


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    if arm.sampler.shards > (n_data := len(problem.features.rows)):
        raise ConfigError(
            f"sampler.shards={arm.sampler.shards}: the data have {n_data:,} rows; take at most as many"
        )
    return ParallelEp(arm, problem)


class ParallelEp(StreamedGaussian):
    """A step is a round: every shard whose turn it is hands in a new site.

    Shard k takes a + 1 rounds for one, a = k modulo (stale + 1), from what q was when it began. The state has
    every shard's site, every row's local one and the q of the last `stale` rounds: round j's at j modulo
    `stale`, and the queries on the longest path to it.
    """

    unit = "round"
    shown = ("{queries} queries/round",)

    def __init__(self, arm: Arm, problem: Problem):
        config, n_data = arm.sampler, len(problem.features.rows)
        size = -(-n_data // config.shards)
        super().__init__(arm, problem, Parts(n_data, size, "epochs", count=config.shards))
        self.label = f"Parallel EP, moments by {config.moments}"
        self.rule = Ep(config.points)
        self.ages = np.arange(config.shards) % (config.stale + 1)
        Shard(arm, problem, np.arange(0))  # refuses what it cannot do

    def warm_up(self) -> float:
        """A first round that leads to no Gaussian is an error of its cell, not of all."""
        started = time.perf_counter()
        with contextlib.suppress(FlyrunError):
            super().warm_up()
        return time.perf_counter() - started

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior, and no sites yet."""
        state, stale, shards = super().init(seed, needed), self.config.stale, self.config.shards
        return state | {
            "site_precision": np.zeros((shards, *state["precision"].shape)),
            "site_linear": np.zeros((shards, *state["linear"].shape)),
            "row_precision": np.zeros((self.n_data, 1, 1)), "row_linear": np.zeros((self.n_data, 1)),
            "seen_precision": np.repeat(state["precision"][None], stale, axis=0),
            "seen_linear": np.repeat(state["linear"][None], stale, axis=0),
            "seen_span": np.zeros(stale), "span": np.zeros(1),
            "kept": np.zeros(1, np.int64), "share": np.full(1, float(self.config.damping)),
        }  # fmt: skip

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more rounds. FlyrunError where they lead to no Gaussian."""
        records = {name: np.zeros(n) for name in ("queries", "visits", "span")}
        for i in range(n):
            state, records["queries"][i], records["visits"][i], records["span"][i] = self._round(state)
        return state, records

    def _share(self, step: int) -> float:
        """Of the way that a shard's site moves in a round."""
        fall = (step + 1.0) ** -_DECAY if self.config.moments == "mcmc" else 1.0
        return float(self.config.damping * fall)

    def _round(self, state: State) -> tuple[State, int, int, float]:
        step, span = int(state["step"][0]), float(state["span"][0])
        rng, key = generator(state["rng"]), int(state["key"][0])
        new = {name: values.copy() for name, values in state.items()}
        queries, visits, longest = 0, 0, span
        turns = np.flatnonzero((step + 1) % (self.ages + 1) == 0).tolist()
        for k in turns:
            view, begun = Natural(state["precision"], state["linear"]), span
            if self.ages[k]:
                place = (step - self.ages[k]) % self.config.stale
                view = Natural(state["seen_precision"][place], state["seen_linear"][place])
                begun = float(state["seen_span"][place])
            old = Natural(state["site_precision"][k], state["site_linear"][k])
            index = self.batches.rows(k, rng, key)
            first = step == self.ages[k]
            rows = None if first else Sites(state["row_precision"][index], state["row_linear"][index])
            cavity = view.plus(old, -1.0)
            luck = np.random.Generator(np.random.PCG64([key, step, k]))
            shard = Shard(self.arm, self.problem, index)
            tilted, local = self._tilted(step, k, shard, cavity, rows, luck)
            if tilted is None:
                new["kept"] = new["kept"] + 1
            else:
                site = tilted.plus(cavity, -1.0)
                new["site_precision"][k], new["site_linear"][k] = site
            new["row_precision"][index], new["row_linear"][index] = local.sites
            queries, visits = queries + local.queries, visits + local.visits
            longest = max(longest, begun + local.queries)
        if self.config.stale:
            place = step % self.config.stale
            new["seen_precision"][place], new["seen_linear"][place] = state["precision"], state["linear"]
            new["seen_span"][place] = span
        if new["kept"][0] - state["kept"][0] == len(turns):
            raise self._lost(step, "what every shard makes of its draws")
        new |= self._summed(state, new, step)
        new["span"], new["step"] = np.array([longest]), state["step"] + 1
        return new, queries, visits, longest - span

    def _summed(self, old: State, new: State, step: int) -> State:
        """The sites a share of the way to the new ones, and q; half of the share where it is no Gaussian."""
        share = self._share(step)
        for _ in range(_HALVINGS + 1):
            sites = {
                name: (1 - share) * old[name] + share * new[name] if share < 1 else new[name]
                for name in ("site_precision", "site_linear")
            }
            q = Natural(
                self.prior_precision + sites["site_precision"].sum(axis=0), sites["site_linear"].sum(axis=0)
            )
            with contextlib.suppress(np.linalg.LinAlgError):
                q.moments()
                return {**sites, "precision": q.precision, "linear": q.linear, "share": np.full(1, share)}
            share /= 2
        raise self._lost(step, "the shards' product")

    def _tilted(
        self, step: int, k: int, shard: Shard, cavity: Natural, rows: Sites | None, rng: np.random.Generator
    ) -> tuple[Natural | None, Fitted]:
        """The Gaussian of a cavity × likelihoods, None where draws have made none, and the rows' local sites
        with what it all took.
        """
        try:
            cavity.moments()
            local = shard.fitted(cavity, self.rule, self.config.inner, rows)
        except np.linalg.LinAlgError:
            if rows is None or self.config.moments != "mcmc":
                raise self._lost(step, f"the cavity of shard {k + 1}") from None
            return None, Fitted(cavity, rows, 0, 0)
        draws = 0 if self.config.moments == "sites" else self.config.draws
        asked, read = draws * len(shard), min(draws, 1) * len(shard)
        local = local._replace(queries=local.queries + asked, visits=local.visits + read)
        try:
            tilted = self.moments(shard, cavity, local.gaussian, rng)
            tilted.moments()
        except np.linalg.LinAlgError:
            return None, local
        return tilted, local

    def moments(self, shard: Shard, cavity: Natural, local: Natural, rng: np.random.Generator) -> Natural:
        """The Gaussian with the moments of cavity × likelihoods.

        local: the one by local EP, that they are drawn from. LinAlgError where there is none.
        """
        kind, n = self.config.moments, self.config.draws
        if kind == "sites":
            return local
        draws = drawn(shard, cavity, local, rng, n, paired=kind == "control")
        return corrected(draws) if kind == "control" else shrunk(*raw(draws, rng), cavity.precision)

    @property
    def _enough(self) -> int:
        return _ENOUGH * self.config.shards * len(self.prior_precision)

    def _lost(self, step: int, what: str) -> FlyrunError:
        if self.config.moments == "mcmc":
            remedy = f"sampler.moments=control, or sampler.draws={self._enough}, for which raw moments do"
        elif self.config.moments == "control":
            remedy = "more sampler.draws or sampler.moments=sites"
        else:
            remedy = "fewer sampler.shards" + (" or sampler.damping=0.5" if self.config.damping > 0.5 else "")
        return FlyrunError(f"round {step + 1}: {what} is not positive definite; try {remedy}")

    def notes(self) -> list[str]:
        """That raw moments are noisy, where they are."""
        if self.config.moments != "mcmc" or self.config.draws >= self._enough:
            return []
        noise = 2 * np.sqrt(self.config.shards * len(self.prior_precision) / self.config.draws)
        return [
            f"sampler.moments=mcmc: with {self.config.draws:,} draws the precision has noise of {noise:.2g} "
            f"of itself; a tenth takes {self._enough:,}, or sampler.moments=control"
        ]

    def more(self, state: State | None) -> dict[str, Any]:
        """The schedule, rounds that every shard takes; sites that stayed as they were, the share of the way
        that the last round went; and the certificate.
        """
        facts = {"shards": self.config.shards, "rounds_by_shard": (self.ages + 1).tolist()}
        if state is not None:
            facts |= {"kept_sites": int(state["kept"][0]), "damping": float(state["share"][0])}
        return facts | super().more(state)
