"""The sites' loop one row after the other: each sees what the last left, by rank-one changes of S.

Rows in an order drawn for each pass; O(D²) a row. A pass from the prior is assumed-density filtering (Opper
1998; Minka 2001, §3.2.1), whose answer depends on the order.
"""

from typing import Any

import numpy as np

from flyrun.experiments.models.factors import Factors, Gaussians, Sites
from flyrun.experiments.samplers.approximations.sites import Pass, SiteMethod
from flyrun.experiments.samplers.method import Arm, State
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.numerics.state import generator, generator_state, seeded


class SerialSites(SiteMethod):
    """A step is a pass."""

    recorded = SiteMethod.recorded[:-1]  # q changes within a pass, so that nothing is known of the evidence

    def __init__(self, arm: Arm, *rest: Any):
        super().__init__(arm, *rest)
        if self.problem.model.n_predictors > 1 or not self.penalty.gaussian:
            raise ConfigError(
                f"sampler.schedule=serial: goes with one predictor and a Gaussian prior; choose "
                f"sampler.schedule=parallel for model={arm.model.name}, prior={arm.prior.name}"
            )

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The orders' generator besides."""
        return super().init(seed) | {"rng": generator_state(seeded(seed, self.arm.method()))}

    def _pass(self, state: State) -> tuple[State, Pass, float]:
        rng, step = generator(state["rng"]), int(state["step"][0]) + 1
        covariance, mean = self.spread(state), state["mean"].copy()
        precision, linear = state["site_precision"].copy(), state["site_linear"].copy()
        sd, share, queries, kept = np.sqrt(np.diag(covariance)), float(state["share"][0]), 0, 0
        whole = Factors(self.arm.model.code, self.problem.model)
        for n in rng.permutation(self.n_data):
            row = self.problem.features.rows[n].astype(np.float64)
            pulled = covariance @ row
            at = Gaussians(np.array([[row @ mean]]), np.array([[[row @ pulled]]]))
            old = Sites(precision[n : n + 1], linear[n : n + 1])
            update = self.rule.of_rows(whole.of(np.array([n])), at, old)
            queries, kept = queries + update.queries, kept + int(update.kept[0])
            change, push = (share * (new - was).item() for new, was in zip(update.sites, old, strict=True))
            left = 1 + change * at.variance.item()
            if not left > 0 or not np.isfinite(push):
                kept += 1
                continue
            mean += (push - change * at.mean.item()) / left * pulled
            covariance -= (change / left * pulled)[:, None] * pulled
            precision[n] += change
            linear[n] += push
        sites = Sites(precision, linear)
        summed = Pass(*self._sums(sites), evidence=np.nan, kept=kept, queries=queries)
        try:
            settled = self._settled(summed, Sites(state["prior_precision"], state["prior_linear"]))
        except np.linalg.LinAlgError:
            raise FlyrunError(str(self._lost(step, "the precision is not positive definite"))) from None
        moved = float(np.sqrt(np.mean(((settled["mean"] - state["mean"]) / sd) ** 2)))
        new = {
            "site_precision": precision, "site_linear": linear, "kept": state["kept"] + kept,
            "step": state["step"] + 1, "rng": generator_state(rng),
        }  # fmt: skip
        return {**state, **settled, **new}, summed, moved
