"""Streaming variational Bayes (Broderick, Boyd, Wibisono, Wilson & Jordan 2013), with stale workers.

η ← η + (A(y_k, η_τ) − η_τ) in natural parameters: A fits batch k under the Gaussian η_τ, which the batches
before k − stale have made, as if `stale` others were still being worked on. Angelino, Johnson & Adams (2016),
Algorithms 19 and 20; their equation (5.49) lacks −η_τ. Every row is read once.

A is exact where the likelihood is Gaussian; elsewhere errors grow with the number of batches and with their
age, and where the rows come sorted they know no bounds.
"""

from typing import Any

import numpy as np
from scipy.stats import chi2

from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.ep import Ep
from flyrun.experiments.samplers.approximations.jaakkola_jordan import JaakkolaJordan
from flyrun.experiments.samplers.approximations.kl_gaussian import KlGaussian
from flyrun.experiments.samplers.approximations.method import StreamedGaussian
from flyrun.experiments.samplers.approximations.rows_under_gaussian import Natural, Shard, log_concave
from flyrun.experiments.samplers.approximations.sites import Rule
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.numerics.batches import Parts
from flyrun.ground.numerics.state import generator

_LEVEL = 1e-6  # of the test whether the order is by the targets
_PIECES = 16  # of the rows, that it compares


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    config, n_data = arm.sampler, len(problem.features.rows)
    if config.rule == "laplace":
        log_concave(arm, "sampler.rule=laplace", "sampler.rule=ep")
    if config.batches > n_data:
        raise ConfigError(
            f"sampler.batches={config.batches}: the data have {n_data:,} rows; take at most as many"
        )
    return StreamingVb(arm, problem)


class StreamingVb(StreamedGaussian):
    """A step is a batch; after the last, steps do nothing.

    Its state has the Gaussians of the last `stale` steps: version j, which j batches have made, at j modulo
    `stale`, and the queries on the longest path to it.
    """

    shown = ("{queries} queries/batch",)

    def __init__(self, arm: Arm, problem: Problem):
        config, n_data = arm.sampler, len(problem.features.rows)
        size = -(-n_data // config.batches)
        shuffled = config.order == "shuffled"
        super().__init__(arm, problem, Parts(n_data, size, "epochs", count=config.batches, shuffled=shuffled))
        self.stale = config.stale
        self.label = f"Streaming variational Bayes, {config.rule.replace('_', ' ')}"
        rules: dict[str, Rule] = {
            "kl_gaussian": KlGaussian(config.points),
            "ep": Ep(config.points),
            "jaakkola_jordan": JaakkolaJordan(),
        }
        self.rule = rules.get(config.rule)  # none: Laplace's approximation
        Shard(arm, problem, np.arange(0))  # refuses what it cannot do
        self.chance = 1.0 if shuffled else by_chance(problem.dataset.target)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior is what all workers have seen."""
        state = super().init(seed, needed)
        return state | {
            "seen_precision": np.repeat(state["precision"][None], self.stale, axis=0),
            "seen_linear": np.repeat(state["linear"][None], self.stale, axis=0),
            "seen_span": np.zeros(self.stale), "span": np.zeros(1),
        }  # fmt: skip

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more batches, until all are read. FlyrunError where they lead to no Gaussian."""
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        now, span = Natural(state["precision"], state["linear"]), float(state["span"][0])
        seen = {name: state[f"seen_{name}"].copy() for name in ("precision", "linear", "span")}
        spent = {name: np.zeros(n) for name in ("queries", "visits", "span")}
        for i in range(min(n, max(0, self.batches.in_epoch - first))):
            step, view, begun = first + i, now, span
            if self.stale:
                place = max(0, step - self.stale) % self.stale
                view, begun = Natural(seen["precision"][place], seen["linear"][place]), seen["span"][place]
            index = self.batches.rows(step, rng, key)
            try:
                solved, queries = self.solved(view, index)
                new = self.combined(now, view, solved)
                new.moments()
            except np.linalg.LinAlgError:
                raise FlyrunError(
                    f"batch {step + 1} of {self.batches.in_epoch}: the precision is not positive definite; "
                    "try fewer sampler.batches" + (" or sampler.stale=0" if self.stale else "")
                ) from None
            if self.stale:
                place = step % self.stale
                seen["precision"][place], seen["linear"][place], seen["span"][place] = *now, span
            longest = max(span, begun + queries)
            spent["queries"][i], spent["visits"][i], spent["span"][i] = queries, len(index), longest - span
            now, span = new, longest
        new_state = {"precision": now.precision, "linear": now.linear, "span": np.array([span])}
        kept = {f"seen_{name}": values for name, values in seen.items()}
        return {**state, **new_state, **kept, "step": state["step"] + n}, spent

    def solved(self, prior: Natural, index: np.ndarray) -> tuple[Natural, int]:
        """A: the Gaussian of rows, index (n,), under a prior, and the queries that it took."""
        shard = Shard(self.arm, self.problem, index)
        if self.rule is None:
            answer = shard.laplace(prior)
        else:
            answer = shard.fitted(prior, self.rule, self.arm.sampler.inner)
        return answer.gaussian, answer.queries

    def combined(self, now: Natural, view: Natural, solved: Natural) -> Natural:
        """What it comes to that a batch led from `view` to `solved`."""
        return now.plus(solved).plus(view, -1.0)

    def notes(self) -> list[str]:
        """That the rows are sorted, where they are."""
        if self.chance > _LEVEL:
            return []
        return [
            "sampler.order=as_given: the targets' means change along the rows by far more than chance "
            f"(chi-square, p = {self.chance:.1g}): sorted data lead a stream astray; take "
            "sampler.order=shuffled"
        ]

    def more(self, state: State | None) -> dict[str, Any]:
        """The schedule, whether the rows come sorted by their targets, and the certificate."""
        schedule = {"batches": self.batches.in_epoch, "stale": self.stale, "sorted": self.chance <= _LEVEL}
        return schedule | super().more(state)


def by_chance(target: np.ndarray) -> float:
    """How likely targets, (N,), of the same law all along have piece means as far apart as these; about.

    χ² of the means of 16 pieces of the rows: Pearson's where there are two labels.
    """
    pieces = np.array_split(target, min(_PIECES, len(target)))
    variance = float(np.var(target))
    if variance == 0.0 or len(pieces) < 2:
        return 1.0
    apart = sum(len(piece) * (piece.mean() - target.mean()) ** 2 for piece in pieces)
    return float(chi2.sf(apart / variance, len(pieces) - 1))
