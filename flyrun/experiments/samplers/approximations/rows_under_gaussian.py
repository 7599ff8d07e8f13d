"""Some rows' likelihoods under a Gaussian in place of the prior: what filters, streams and shards share.

Newton's method climbs to the top of their product; Laplace's sites there are where passes of the sites' loop
(see `sites`) by a rule begin. A Gaussian is known by P = S⁻¹ and h = Pμ.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.factors import Factors, Projection
from flyrun.experiments.models.features import gram
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.sites import Rule, Sites
from flyrun.experiments.samplers.batches import rows_of
from flyrun.ground.errors import ConfigError

CLOSE = 1e-6  # nats below the top, where an answer is wanted
_NEAR = 1e-2  # where passes begin
_MOST = 50


class Natural(NamedTuple):
    """A Gaussian, or a factor like one."""

    precision: np.ndarray  # P, (P, P)
    linear: np.ndarray  # h, (P,)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean, (P,), and covariance, (P, P). LinAlgError where it is no Gaussian."""
        if not (np.isfinite(self.precision).all() and np.isfinite(self.linear).all()):
            raise np.linalg.LinAlgError
        np.linalg.cholesky(self.precision)
        covariance = np.linalg.inv(self.precision)
        covariance = (covariance + covariance.T) / 2
        return covariance @ self.linear, covariance

    def plus(self, other: "Natural", share: float = 1.0) -> "Natural":
        """Their product, with a power of the other."""
        return Natural(self.precision + share * other.precision, self.linear + share * other.linear)


class Fitted(NamedTuple):
    """The Gaussian of a prior and the sites of some rows, and what it took."""

    gaussian: Natural
    sites: Sites
    queries: int
    visits: int


def climbed(
    look: Callable[[np.ndarray], passes.Look], mean: np.ndarray, precision: np.ndarray, close: float = CLOSE
) -> tuple[np.ndarray, np.ndarray, int]:
    """Mean, (P,), precision, (P, P), and evaluations of Laplace's approximation of likelihoods × a Gaussian.

    Steps down are halved. Stops once the predicted gain is below `close` nats; precision: of the last one.
    """
    theta, step, before = mean, np.zeros(len(mean)), -np.inf
    looks = 0
    for _ in range(_MOST):
        looks += 1
        at = look(theta)
        pulled = precision @ (theta - mean)
        height = at.value - 0.5 * (theta - mean) @ pulled
        if height < before - CLOSE:
            step = step / 2
            theta = theta - step
            continue
        before, curved = height, precision + at.curvature
        step = np.linalg.solve(curved, at.gradient - pulled)
        if 0.5 * step @ curved @ step < close:
            break
        theta = theta + step
    return theta + step, curved, looks


def log_concave(arm: Arm, what: str, instead: str) -> None:
    """ConfigError that begins with `what` where Laplace's approximation of few rows may be no Gaussian."""
    if not arm.model.code.LOG_CONCAVE:
        raise ConfigError(
            f"{what}: the likelihood of model={arm.model.name} is not log-concave, so a block's curvature "
            f"may be negative; choose {instead}"
        )


class Shard:
    """Copies of some rows, and their likelihoods of one predictor each. index: (n,)."""

    def __init__(self, arm: Arm, problem: Problem, index: np.ndarray):
        if problem.model.n_predictors > 1:
            raise ConfigError(
                f"sampler={arm.sampler.name}: goes with one predictor a row, model={arm.model.name} has "
                f"{problem.model.n_predictors}; choose sampler=ep or kl_gaussian for it"
            )
        self.module, (self.model, self.features) = arm.model.code, rows_of(arm, problem, index)
        self.projection = Projection(self.features, np.eye(1))

    def __len__(self) -> int:
        """How many rows."""
        return len(self.features.rows)

    def _part(self, block: slice) -> tuple[np.ndarray, Factors]:
        rows = self.features.rows[block].astype(np.float64)
        return rows, Factors(self.module, self.module.part(self.model, block))

    def touched(self, theta: np.ndarray, sites: Sites) -> passes.Look:
        """Log likelihoods about θ, (P,), and into `sites` those of their slopes and curvatures there.

        A query of each row. A curvature below 0 is taken for 0.
        """

        def work(block: slice) -> tuple[Any, ...]:
            rows, factors = self._part(block)
            u = (rows @ theta)[:, None]
            value, slope, bend = factors.look(u)
            sites.precision[block] = np.maximum(bend, 0.0)
            sites.linear[block] = slope + sites.precision[block][:, 0] * u
            return value.sum(), (slope.T @ rows)[0], gram(self.features, rows, sites.precision[block])

        return passes.Look(*passes.added(passes.over_blocks(len(self), work)))

    def added(self, sites: Sites) -> Natural:
        """The product of sites, as a function of θ."""

        def work(block: slice) -> tuple[Any, ...]:
            rows = self.features.rows[block].astype(np.float64)
            return gram(self.features, rows, sites.precision[block]), (sites.linear[block].T @ rows)[0]

        return Natural(*passes.added(passes.over_blocks(len(self), work)))

    def renewed(self, rule: Rule, gaussian: Natural, old: Sites) -> tuple[Sites, int]:
        """Sites by the rule where the Gaussian has the rows, and queries taken."""
        mean, covariance = gaussian.moments()
        new = Sites(np.empty_like(old.precision), np.empty_like(old.linear))

        def work(block: slice) -> tuple[int]:
            rows, factors = self._part(block)
            at = self.projection.marginals(rows, mean, covariance)
            update = rule.of_rows(factors, at, Sites(old.precision[block], old.linear[block]))
            new.precision[block], new.linear[block] = update.sites
            return (update.queries,)

        (queries,) = passes.added(passes.over_blocks(len(self), work))
        return new, int(queries)

    def laplace(self, prior: Natural, close: float = CLOSE) -> Fitted:
        """Laplace's approximation of the prior times the likelihoods."""
        sites = Sites(np.empty((len(self), 1, 1)), np.empty((len(self), 1)))
        mean, precision, looks = climbed(
            lambda theta: self.touched(theta, sites), prior.moments()[0], prior.precision, close
        )
        return Fitted(Natural(precision, precision @ mean), sites, looks * len(self), looks * len(self))

    def fitted(self, prior: Natural, rule: Rule, n_passes: int, sites: Sites | None = None) -> Fitted:
        """So many passes by the rule, from sites or from Laplace's. LinAlgError where they lead away."""
        if sites is None:
            begun = self.laplace(prior, _NEAR)
        else:
            begun = Fitted(prior.plus(self.added(sites)), sites, 0, 0)
        gaussian, sites, queries, visits = begun
        for _ in range(n_passes):
            sites, asked = self.renewed(rule, gaussian, sites)
            gaussian = prior.plus(self.added(sites))
            queries, visits = queries + asked, visits + len(self)
        gaussian.moments()
        return Fitted(gaussian, sites, queries, visits)
