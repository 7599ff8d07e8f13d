"""One stochastic loop for Gaussians in natural parameters, with any rule of the sites' loop.

P ← (1−ρ)P + ρ(P₀ + (N/b) Σ T_n ⊗ x_n x_nᵀ) over a batch of b rows, h = Pμ likewise: Hoffman, Blei, Wang &
Paisley (2013) by the bounds of Jaakkola & Jordan, natural gradients of KL(q‖p) (Khan & Lin 2017) by Gaussian
variational inference, and stochastic expectation propagation (Li, Hernández-Lobato & Turner 2015) by EP. The
bounds are too narrow, and so is the Gaussian that they end in.

Of rows drawn with replacement a step ρ leaves an error of about √(ρN/2b) posterior sds, an average over p
passes one of 1/√p, whatever N and b; of epochs less is left, as every row counts once. Control variates take
it away: the sites of all rows at the MAP, summed once, and of a batch how much its sites differ from those.
"""

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler.streamed import ByBatches
from flyrun.experiments.models import mixture, passes
from flyrun.experiments.models.factors import Factors, Gaussians, Projection, touching
from flyrun.experiments.models.features import Features, gram, pulled
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.ep import Ep
from flyrun.experiments.samplers.approximations.jaakkola_jordan import JaakkolaJordan
from flyrun.experiments.samplers.approximations.kl_gaussian import KlGaussian
from flyrun.experiments.samplers.approximations.method import StreamedGaussian
from flyrun.experiments.samplers.approximations.sites import Rule, Sites
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.batches import Batches
from flyrun.ground.numerics.state import generator, generator_state


def size_of(options: ByBatches, batches: Batches, step: int) -> float:
    """rate·(delay + t)^−decay of step t, counted from 0; a rate of None is a batch's share of the rows."""
    rate = batches.size / batches.n_data if options.rate is None else options.rate
    return rate * (options.delay + step) ** -options.decay


def averaged(before: np.ndarray, value: np.ndarray, step: int, share: float) -> np.ndarray:
    """The average of t values, t counted from 1, given that of those before: weights are ∝ t^(1/share − 1).

    So it needs neither their number nor the values themselves; most of the weight is on the last share.
    Shamir & Zhang (2013).
    """
    return before + min(1.0, 1.0 / (share * step)) * (value - before)


_HALVINGS = 6


class Sums(NamedTuple):
    """What a batch's rows add to P and to h, over what is known of all rows; the queries it took."""

    precision: np.ndarray  # (P, P), symmetric
    linear: np.ndarray  # (P,)
    queries: int


class StochasticVariational(StreamedGaussian):
    """A step is a batch. Derive from it: `of_batch`."""

    remedy = "a larger sampler.batch"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem, batches_of(arm, len(problem.features.rows)))
        self.base = self.prior_precision, np.zeros(len(self.prior_precision))  # before any batch

    @abstractmethod
    def of_batch(self, precision: np.ndarray, linear: np.ndarray, index: np.ndarray) -> Sums:
        """From the rows index, (b,), at the Gaussian of natural parameters (P, P), (P,)."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The average is where the Gaussian is."""
        state = super().init(seed, needed) | {"halved": np.zeros(1, np.int64)}
        return state | {f"{name}_average": state[name] for name in self._averaged}

    @property
    def _averaged(self) -> tuple[str, ...]:
        return ("precision", "linear") if self.arm.sampler.average else ()

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more batches. FlyrunError where they lead to no Gaussian."""
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        state, records = dict(state), {name: np.zeros(n) for name in ("queries", "visits")}
        for k in range(n):
            index = self.batches.rows(first + k, rng, key)
            sums = self.of_batch(state["precision"], state["linear"], index)
            records["queries"][k], records["visits"][k] = sums.queries, len(index)
            state |= self._moved(state, sums, first + k)
            for name in self._averaged:
                mean = state[f"{name}_average"]
                state[f"{name}_average"] = averaged(
                    mean, state[name], first + k + 1, self.arm.sampler.average
                )
        return state | {"rng": generator_state(rng), "step": state["step"] + n}, records

    def _moved(self, state: State, sums: Sums, step: int) -> State:
        """The next Gaussian; less of the step where it would be none."""
        rate, factor = size_of(self.arm.sampler, self.batches, step), self.batches.factor
        base, base_linear = self.base
        for halvings in range(_HALVINGS + 1):
            precision = (1 - rate) * state["precision"] + rate * (base + factor * sums.precision)
            linear = (1 - rate) * state["linear"] + rate * base_linear + rate * factor * sums.linear
            if _proper(precision, linear):
                halved = state["halved"] + (halvings > 0)
                return {"precision": precision, "linear": linear, "halved": halved}
            rate /= 2
        raise FlyrunError(
            f"sampler={self.arm.sampler.name}: after step {step + 1} the precision is not positive definite, "
            f"nor after {2**-_HALVINGS:g} of that step; try {self.remedy}"
        )

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Of the average where one is kept."""
        return super().result(state | {name: state[f"{name}_average"] for name in self._averaged})

    def more(self, state: State | None) -> dict[str, Any]:
        """Steps that were made smaller; and the certificate."""
        return ({} if state is None else {"halved_steps": int(state["halved"][0])}) | super().more(state)


def _proper(precision: np.ndarray, linear: np.ndarray) -> bool:
    if not (np.isfinite(precision).all() and np.isfinite(linear).all()):
        return False
    try:
        np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return False
    return True


class Reference(NamedTuple):
    """Sites of all rows at the MAP, and what they add up to in P and h."""

    sites: Sites
    precision: np.ndarray  # (P, P)
    linear: np.ndarray  # (P,)
    queries: int


class StochasticSites(StochasticVariational):
    """New sites of a batch's rows by a rule that is given none of their old ones.

    at_point(factors, u) -> sites of rows seen at u, a query each, for the reference at the MAP.
    """

    def __init__(
        self,
        arm: Arm,
        problem: Problem,
        label: str,
        rule: Rule,
        at_point: Callable[[Factors, np.ndarray], Sites],
    ):
        super().__init__(arm, problem)
        self.label, self.rule, self.at_point = label, rule, at_point
        if not arm.sampler.control:
            self.remedy += ", or sampler.control=true with sampler.start=map"
        basis = Factors(arm.model.code, problem.model).basis
        self.projection = Projection(problem.features, basis)
        started = time.perf_counter()
        self.reference = self._reference() if arm.sampler.at_map else self._nothing()
        self.own_queries, self.own_seconds = self.reference.queries, time.perf_counter() - started
        if arm.sampler.control:
            self.base = self.prior_precision + self.reference.precision, self.reference.linear

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.reference[1:3] if self.arm.sampler.at_map else ()

    def _nothing(self) -> Reference:
        size, k = len(self.prior_precision), self.projection.k
        return Reference(
            Sites(np.empty((0, k, k)), np.empty((0, k))), np.zeros((size, size)), np.zeros(size), 0
        )

    def _reference(self) -> Reference:
        model, features, theta = self.problem.model, self.problem.features, self.problem.fit.theta_map
        size, k, n_data = features.rows.shape[1], self.projection.k, len(features.rows)
        little = theta.reshape(-1, size).T @ self.projection.basis
        sites = Sites(np.empty((n_data, k, k)), np.empty((n_data, k)))

        def work(block: slice) -> tuple[np.ndarray, np.ndarray]:
            rows = features.rows[block].astype(np.float64)
            factors = Factors(self.arm.model.code, self.arm.model.code.part(model, block))
            point = self.at_point(factors, rows @ little)
            sites.precision[block], sites.linear[block] = point
            return summed(features, rows, point)

        total = passes.added(passes.over_blocks(n_data, work))
        return Reference(sites, *self._back(*total), n_data)

    def _back(self, gram: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        precision, linear = self.projection.back(gram, linear)
        return (precision + precision.T) / 2, linear

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior, or the Gaussian of the sites at the MAP."""
        state = super().init(seed, needed)
        if self.arm.sampler.start == "prior":
            return state
        precision = self.prior_precision + self.reference.precision
        first = {"precision": precision, "linear": self.reference.linear}
        return state | first | {f"{name}_average": first[name] for name in self._averaged}

    def seen_under(self, precision: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The Gaussian, (P, P) and (P,) natural parameters, that the rule has marginals of: by default q."""
        return precision, linear

    def of_batch(self, precision: np.ndarray, linear: np.ndarray, index: np.ndarray) -> Sums:
        precision, linear = self.seen_under(precision, linear)
        covariance = np.linalg.inv(precision)
        rows = self.problem.features.rows[index].astype(np.float64)
        factors = Factors(self.arm.model.code, self.arm.model.code.part(self.problem.model, index))
        reduced = self.projection.reduced(covariance @ linear, covariance)
        at = self.projection.marginals(rows, *reduced)
        update = self.rule.of_rows(factors, at, Sites(np.zeros_like(at.variance), np.zeros_like(at.mean)))
        sites = update.sites
        if self.arm.sampler.control:
            of_all = self.reference.sites
            sites = Sites(*(new - known[index] for new, known in zip(sites, of_all, strict=True)))
        return Sums(*self._back(*summed(self.problem.features, rows, sites)), update.queries)


def summed(features: Features, rows: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Σ T_n ⊗ x_n x_nᵀ, (k·D, k·D), and Σ ν_n ⊗ x_n, (k·D,), of rows (n, D)."""
    return gram(features, rows, sites.precision), pulled(features, rows, sites.linear)


class Sep(StochasticSites):
    """Sites that have the moments right, given N − 1 others that are all alike.

    q = p₀ f^N with one site f for all rows. A row's cavity is q/f, P − (P − P₀)/N: what Algorithm 22 of
    Angelino, Johnson & Adams (2016) prints, p₀ f^(1 − 1/N), has next to nothing of the other rows but for
    N = 1. A step of b/N gives each row the share 1/N of f, the authors' choice; such constant steps do not
    converge.
    """

    def seen_under(self, precision: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cavity, (P, P) and (P,), positive definite as q and the prior are, which has no linear term."""
        n_data = self.batches.n_data
        return precision - (precision - self.prior_precision) / n_data, linear - linear / n_data


class MixtureSvi(StochasticVariational):
    """One Gaussian for both means of the mixture of two normals, whose data have a hidden label each.

    q(z_n = 2) = r_n ∝ exp E log N(x_n; θ1 + θ2, σ²): S = σ⁻² Σ [[1, r], [r, r]], l = σ⁻² Σ (x, r x). With all
    rows a step and steps of 1 (decay 0) it is coordinate ascent, as sampler=cavi.
    """

    label = "SVI"

    def of_batch(self, precision: np.ndarray, linear: np.ndarray, index: np.ndarray) -> Sums:
        model = mixture.part(self.problem.model, index)
        x, tau, covariance = model.target, model.scale**-2, np.linalg.inv(precision)
        share = mixture.responsibility(model, (covariance @ linear)[None], covariance[None])
        counts = np.array([[len(x), share.sum()], [share.sum(), share.sum()]])
        return Sums(tau * counts, tau * np.array([x.sum(), share @ x]), len(x))


def bounds_at(factors: Factors, u: np.ndarray) -> Sites:
    """The bounds of Jaakkola & Jordan tight at u, (n, 1). A query of each row."""
    known = Gaussians(u, np.zeros((len(u), 1, 1)))
    return JaakkolaJordan().of_rows(factors, known, Sites(known.variance, u)).sites


def _by_bounds(arm: Arm, problem: Problem) -> Method:
    return StochasticSites(arm, problem, "SVI, Jaakkola-Jordan", JaakkolaJordan(), bounds_at)


def _by_gradients(arm: Arm, problem: Problem) -> Method:
    label = "Stochastic Gaussian variational inference"
    return StochasticSites(arm, problem, label, KlGaussian(arm.sampler.points), touching)


def _by_moments(arm: Arm, problem: Problem) -> Method:
    return Sep(arm, problem, "Stochastic expectation propagation", Ep(arm.sampler.points), touching)


build = {
    "svi_jaakkola_jordan": _by_bounds,
    "stochastic_kl": _by_gradients,
    "sep": _by_moments,
    "mixture_svi": MixtureSvi,
}
