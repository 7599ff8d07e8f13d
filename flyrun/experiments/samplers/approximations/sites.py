"""One loop for Gaussian variational inference, expectation propagation and the bounds of Jaakkola & Jordan.

q(θ) ∝ prior × Π_n exp(−½ u_nᵀT_n u_n + ν_nᵀu_n), u_n the little that datum n sees of θ: a *site* stands in
for its likelihood. A pass looks at every row where q has it, takes new sites by the method's rule, moves a
share of the way (damping) and builds q anew: P = P₀ + Σ T_n ⊗ x_n x_nᵀ. A prior that is no Gaussian has a
site for every coordinate. Where no bound rises, passes may go round for ever: then they damp themselves, if
they may (`adapt`).
Minka (2001); Opper & Archambeau (2009); Khan & Lin (2017).
"""

import time
from typing import Any, NamedTuple, Protocol

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.factors import Factors, Gaussian, Gaussians, Projection, Sites, touching
from flyrun.experiments.models.features import gram, n_params, pulled
from flyrun.experiments.models.problem import Problem, log_priors
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations.method import GaussianAnswer, Stand, refuse_without_digits
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.ground.errors import FlyrunError

_HALVINGS = 6
_SLOWEST = 0.95  # what passes that settle move, over what the one before did, at the most
_LEAST, _UNSETTLED = 1 / 16, 0.03  # share of the way that damping leaves; sds moved that need it
_FAR = 1e3  # posterior sds that a pass may move the mean, from the second on


class Update(NamedTuple):
    """What a rule makes of some rows."""

    sites: Sites
    evidence: np.ndarray  # (n,): what they add to the bound on, or estimate of, the log evidence
    kept: np.ndarray  # (n,): whether a site had to stay as it was
    queries: int


class Rule(Protocol):
    """New sites from old ones and q's Gaussians of what they see.

    bound: whether evidence is a lower bound, Σ E log L_n and so on, or EP's estimate.
    """

    bound: bool

    def of_rows(self, factors: Factors, at: Gaussians, old: Sites) -> Update:
        """Of some rows."""

    def of_prior(self, penalty: Penalty, at: Gaussians, old: Sites) -> Update:
        """Of the coordinates of a prior e^{−rate·|θ_d|}, k = 1; its normaliser is left out."""


class Pass(NamedTuple):
    """What a pass over the rows comes to."""

    precision: np.ndarray  # Σ T_n ⊗ x_n x_nᵀ in CᵀΘ, (k·D, k·D)
    linear: np.ndarray  # (k·D,)
    evidence: float
    kept: int
    queries: int


class SiteMethod(GaussianAnswer):
    """A step is a pass: N visits, and as many queries of each as the rule's quadrature has nodes.

    Its state is the sites and the Gaussian that they make.
    """

    unit = "pass"
    shown = ("moved {moved:.2g} sds", "{queries} queries/pass")
    recorded: tuple[str, ...] = ("queries", "visits", "moved", "kept", "evidence")

    def __init__(self, arm: Arm, problem: Problem, label: str, rule: Rule):
        super().__init__(arm, problem)
        self.label, self.rule = label, rule
        self.penalty = priors_of(arm).penalty(problem.prior)
        self.ridges = self.penalty.gaussian_ridges(self.n_params)
        whole = Factors(arm.model.code, problem.model)
        self.projection = Projection(problem.features, whole.basis)
        self.k = whole.basis.shape[1]
        self.from_map = arm.sampler.start == "map"
        self.adapts = not rule.bound and arm.sampler.adapt
        self.first = self._first()

    # -- the Gaussian of sites ------------------------------------------------------------------------------

    def _first(self) -> State:
        """Laplace's Gaussian at the MAP, a pass; or the prior."""
        started = time.perf_counter()
        size = self.n_params
        prior = Sites(*self.penalty.sites(size))
        sites = Sites(np.zeros((self.n_data, self.k, self.k)), np.zeros((self.n_data, self.k)))
        seen = n_params(self.problem.features, self.k)
        summed = Pass(np.zeros((seen, seen)), np.zeros(seen), 0.0, 0, 0)
        if self.from_map:
            at = self.problem.fit.theta_map

            def touch(factors: Factors, rows: np.ndarray, block: slice) -> Update:
                u = self.projection.seen(rows, at)
                return Update(touching(factors, u), np.zeros(len(rows)), np.zeros(len(rows), bool), len(rows))

            sites, summed = self._over_rows(touch, sites, 1.0)
            self.own_queries = summed.queries
        state = self._settled(summed, prior)
        self.own_seconds = time.perf_counter() - started
        return {
            **state,
            "site_precision": sites.precision, "site_linear": sites.linear,
            "prior_precision": prior.precision, "prior_linear": prior.linear,
            "evidence": np.full(1, np.nan), "kept": np.zeros(1, np.int64), "step": np.zeros(1, np.int64),
            "share": np.full(1, float(self.arm.sampler.damping)), "peak": np.full(1, np.inf),
        }  # fmt: skip

    def _over_rows(self, of_block: Any, old: Sites, share: float) -> tuple[Sites, Pass]:
        """New sites by of_block(factors, rows, block) -> Update, a share of the way there; their sums."""
        new = Sites(np.empty_like(old.precision), np.empty_like(old.linear))
        module, model, features = self.arm.model.code, self.problem.model, self.problem.features

        def work(block: slice) -> tuple[Any, ...]:
            rows = features.rows[block].astype(np.float64)
            update = of_block(Factors(module, module.part(model, block)), rows, block)
            for into, have, site in zip(new, old, update.sites, strict=True):
                into[block] = (1 - share) * have[block] + share * site if share < 1 else site
            product = gram(features, rows, new.precision[block])
            slope = pulled(features, rows, new.linear[block])
            return product, slope, update.evidence.sum(), int(update.kept.sum()), update.queries

        return new, Pass(*passes.added(passes.over_blocks(self.n_data, work)))

    def _settled(self, summed: Pass, prior: Sites) -> State:
        """The Gaussian of the prior and all sites. LinAlgError where it is none."""
        precision, linear = self.projection.back(summed.precision, summed.linear)
        precision = (precision + precision.T) / 2
        precision[np.diag_indices(self.n_params)] += self.ridges + prior.precision[:, 0, 0]
        linear = linear + prior.linear[:, 0]
        if not (np.isfinite(precision).all() and np.isfinite(linear).all()):
            raise np.linalg.LinAlgError
        np.linalg.cholesky(precision)
        return {"precision": precision, "mean": np.linalg.solve(precision, linear)}

    def spread(self, state: State) -> np.ndarray:
        """Covariance, (P, P), under which expectations are taken."""
        covariance = np.linalg.inv(state["precision"])
        return (covariance + covariance.T) / 2

    # -- steps ----------------------------------------------------------------------------------------------

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The same for every seed."""
        return dict(self.first)

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more passes. FlyrunError where they lead away."""
        records = {name: np.zeros(n) for name in self.recorded}
        for i in range(n):
            state, summed, moved = self._pass(state)
            state |= self._damped(state, moved)
            values = summed.queries, self.n_data, moved, summed.kept, state["evidence"][0]
            for name, value in zip(self.recorded, values, strict=False):
                records[name][i] = value
        return state, records

    def _damped(self, state: State, moved: float) -> State:
        """The share of the way that the next pass goes: half of it where this one moved the mean as far as
        any before, but for _SLOWEST a pass.
        """
        share, peak = float(state["share"][0]), _SLOWEST * float(state["peak"][0])
        if state["step"][0] < 2:  # in sds of the start, which may be the prior's
            return {}
        if moved > max(peak, _UNSETTLED) and self.adapts:
            share = min(share, max(share / 2, _LEAST))
        return {"share": np.full(1, share), "peak": np.full(1, moved if np.isinf(peak) else max(peak, moved))}

    def _pass(self, state: State) -> tuple[State, Pass, float]:
        covariance, step = self.spread(state), int(state["step"][0]) + 1
        mean, little = self.projection.reduced(state["mean"], covariance)
        sd = np.sqrt(np.diag(covariance))
        old = Sites(state["site_precision"], state["site_linear"])
        old_prior = Sites(state["prior_precision"], state["prior_linear"])

        def rule(factors: Factors, rows: np.ndarray, block: slice) -> Update:
            at = self.projection.marginals(rows, mean, little)
            have = Sites(old.precision[block], old.linear[block])
            return self.rule.of_rows(factors, at, have)

        share = float(state["share"][0])
        try:
            sites, summed = self._over_rows(rule, old, share)
        except np.linalg.LinAlgError:
            raise self._lost(step, "a datum's Gaussian is none") from None
        update = self._prior_update(state["mean"], sd, old_prior)
        prior = _between(old_prior, update.sites, share)
        for _ in range(_HALVINGS):
            try:
                settled = self._settled(summed, prior)
                break
            except np.linalg.LinAlgError:  # half of the way there; the rows need no second look
                sites, prior = _between(old, sites, 0.5), _between(old_prior, prior, 0.5)
                precision, linear = self._sums(sites)
                summed = summed._replace(precision=precision, linear=linear)
        else:
            raise self._lost(step, "the precision is not positive definite")
        moved = float(np.sqrt(np.mean(((settled["mean"] - state["mean"]) / sd) ** 2)))
        if not np.isfinite(moved) or (step > 1 and moved > _FAR):
            raise self._lost(step, f"the mean moved by {moved:.2g} posterior sds")
        refuse_without_digits(self.arm, settled["mean"], settled["precision"])
        evidence = summed.evidence + update.evidence.sum() + self._of_gaussian(state, covariance)
        new = {
            "site_precision": sites.precision, "site_linear": sites.linear,
            "prior_precision": prior.precision, "prior_linear": prior.linear,
            "evidence": np.full(1, evidence), "kept": state["kept"] + summed.kept, "step": state["step"] + 1,
        }  # fmt: skip
        return {**state, **settled, **new}, summed, moved

    def _prior_update(self, mean: np.ndarray, sd: np.ndarray, prior: Sites) -> Update:
        none, size, aux = np.zeros(len(mean)), self.penalty.size, self.penalty.aux
        update = Update(prior, none, none.astype(bool), 0)
        at = Gaussians(mean[:, None], (sd**2)[:, None, None])
        if self.penalty.rate:
            parts = (Gaussians(*(part[:size] for part in at)), Sites(*(part[:size] for part in prior)))
            update = self.rule.of_prior(self.penalty, *parts)
        if aux is None:
            return update
        of_aux = self.rule.of_rows(
            aux, Gaussians(*(values[size:] for values in at)), Sites(*(values[size:] for values in prior))
        )
        sites = Sites(
            *(np.concatenate([a[:size], b]) for a, b in zip(update.sites, of_aux.sites, strict=True))
        )
        evidence, kept = (
            np.concatenate([getattr(update, name)[:size], getattr(of_aux, name)])
            for name in ("evidence", "kept")
        )
        return Update(sites, evidence, kept, 0)

    def _sums(self, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
        def keep(factors: Factors, rows: np.ndarray, block: slice) -> Update:
            part = Sites(sites.precision[block], sites.linear[block])
            return Update(part, np.zeros(1), np.zeros(1, bool), 0)

        _, summed = self._over_rows(keep, sites, 1.0)
        return summed.precision, summed.linear

    def _of_gaussian(self, state: State, covariance: np.ndarray) -> float:
        """What the prior, but for its sites, and q, of covariance (P, P), add to the log evidence."""
        mean, size, first = state["mean"], self.n_params, self.penalty.size
        nowhere = np.zeros((1, size))
        constant = float(log_priors(self.problem.prior, nowhere)[0]) - float(
            self.penalty.beyond_ridge(nowhere)[0]
        )
        constant += 0.5 * size * np.log(2 * np.pi)
        half = 0.5 * np.linalg.slogdet(covariance)[1]
        if self.rule.bound:
            square = mean[:first] @ mean[:first] + np.trace(covariance[:first, :first])
            return constant + half + 0.5 * size - 0.5 * self.penalty.ridge * square
        return constant + half + 0.5 * mean @ state["precision"] @ mean

    def _lost(self, step: int, what: str) -> FlyrunError:
        ways = [] if self.from_map else ["sampler.start=map"]
        ways += ["sampler.damping=0.5"] if self.arm.sampler.damping > 0.5 else ["a smaller sampler.damping"]
        return FlyrunError(f"pass {step}: {self.label} leads away, {what}; try {' or '.join(ways)}")

    # -- answers --------------------------------------------------------------------------------------------

    def result(self, state: State) -> dict[str, np.ndarray]:
        return {"mean": state["mean"], "covariance": self.spread(state)}

    def stand(self, state: State) -> Stand:
        """Its own sites."""
        whole = Gaussian(state["mean"], SiteMethod.spread(self, state))
        prior = Sites(state["prior_precision"], state["prior_linear"])
        return Stand(whole, Sites(state["site_precision"], state["site_linear"]), prior, 0)

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Log evidence, or the bound on it, of where the last pass began."""
        name = "evidence_bound" if self.rule.bound else "log_evidence"
        known = np.isfinite(state["evidence"][0])
        return super().estimates(state) | ({name: state["evidence"][0]} if known else {})

    def more(self, state: State | None) -> dict[str, Any]:
        """Sites that had to stay as they were, counted over passes, and the damping at the end; and the
        certificate.
        """
        if state is None:
            return super().more(state)
        facts = {"kept_sites": int(state["kept"][0]), "damping": float(state["share"][0])}
        return facts | super().more(state)


def _between(old: Sites, new: Sites, share: float) -> Sites:
    return Sites(*((1 - share) * have + share * site for have, site in zip(old, new, strict=True)))
