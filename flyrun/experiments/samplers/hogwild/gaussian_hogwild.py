"""Hogwild Gibbs of a Gaussian, and beside it what theory says of its covariance, its correction, its end."""

import time
from typing import Any

import numpy as np

from flyrun.experiments.models.graphs.gaussian_field import GaussianField
from flyrun.experiments.samplers.hogwild import loop, theory
from flyrun.experiments.samplers.hogwild.loop import redraw, run_rounds, team
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State, first_step
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.state import arrays_of, generator, generator_state, seeded, with_arrays

FAR = 1e6
"""A chain so many conditional sds from the mean diverges, long before it overflows."""


@implements(redraw, GaussianField)
def _redraw(field, rng, x, i):
    row, total = field.precision[i], field.potential[i]
    for j in range(x.shape[0]):
        total -= row[j] * x[j]
    x[i] += total / row[i] + rng.standard_normal() / np.sqrt(row[i])


class HogwildGaussian(Method):
    """A step is a round; draws are what the owners hold after it. The chain begins at 0."""

    unit = "round"
    shown = ("{queries} updates/round",)

    def __init__(self, arm: Arm):
        started = time.perf_counter()
        self.arm, self.options = arm, arm.sampler
        self.field = arm.model.code.bind(arm.model, arm.dataset.code.load(arm.dataset))
        self.n = len(self.field.potential)
        self.owner = loop.owners(self.options, self.n)
        self.exact = np.linalg.inv(self.field.precision)
        self.mean = self.exact @ self.field.potential
        self.round = theory.round_of(self.field.precision, self.owner, self.options.sweeps)
        self.radius = theory.radius(self.round.step)
        self._plan, self._lockstep = loop.schedule(self.options), loop.lockstep(self.options)
        self._team = team(self.owner, np.zeros(self.n), self._plan.late, self.options.most_late)
        self._setup_s = time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.field, self.owner

    def warm_up(self) -> float:
        return first_step(self) if self.radius < 1.0 else 0.0

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """All variables 0. DensityError where a chain in lockstep would diverge."""
        if self._lockstep and self.radius >= 1.0:
            raise DensityError(self._diverges())
        rng, n = seeded(seed, self.arm.method()), self.n
        sums = {"theta": np.zeros(n), "sum": np.zeros(n), "outer": np.zeros((n, n))}
        return {"rng": generator_state(rng), **sums, **arrays_of(self._team, "team")}

    def _diverges(self) -> str:
        return (
            f"diverges: rho = {self.radius:.2f}, which must be below 1; take fewer sampler.processors than "
            f"{self.options.processors}, or a smaller dataset.coupling"
        )

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more rounds. DensityError where a chain is beyond FAR."""
        rng, members = generator(state["rng"]), with_arrays(self._team, state, "team")
        states, counts = np.empty((n, self.n)), np.empty((n, 3))
        first = int(members.clock[0])
        run_rounds(rng, self.field, members, self._plan, states, counts)
        sds = np.abs(states - self.mean) * np.sqrt(np.diag(self.field.precision))
        if not sds.max() < FAR:
            raise DensityError(self._diverges())
        total, outer = state["sum"].copy(), state["outer"].copy()
        for x in states[max(self.arm.protocol.burn_in - first, 0) :]:  # one by one: the same bits for any n
            centred = x - self.mean
            total += centred
            outer += np.multiply.outer(centred, centred)
        kept = states[(np.arange(first, first + n) + 1) % self.arm.protocol.thin == 0]
        after = {"theta": states[-1].copy(), "sum": total, "outer": outer, "rng": generator_state(rng)}
        return after | arrays_of(members, "team"), {"theta": kept, **loop.records(counts)}

    def facts(self, state: State | None = None) -> Facts:
        """Theory, and with the last state what was measured. Errors of covariances: ‖S − Σ‖/‖Σ‖."""
        more: dict[str, Any] = loop.counts(self.options, self.owner, 8) | {
            "rho": self.radius,
            "dominance": theory.dominance(self.field.precision),
        }
        if self.radius < 1.0:
            more |= self._expected()
        if state is not None:
            more |= self._measured(state)
        return Facts(
            update=f"{loop.LABEL}, {self.options.schedule}",
            exact=self.options.processors == 1,
            coordinates=tuple(f"x{i}" for i in range(self.n)),
            n_params=self.n,
            setup_s=self._setup_s,
            more=more,
        )

    def _expected(self) -> dict[str, float]:
        """Of a round in lockstep."""
        expected = theory.covariance(self.round)
        facts = {
            "expected_covariance_off": theory.off(expected, self.exact),
            "expected_corrected_off": theory.off(theory.corrected(self.round, expected), self.exact),
        }
        return facts | _named("expected_sd", self._sds(expected))

    def _measured(self, state: State) -> dict[str, float]:
        rounds = int(state["team.clock"][0]) - self.arm.protocol.burn_in
        if rounds < 2:
            return {}
        centre = state["sum"] / rounds
        covariance = state["outer"] / rounds - np.multiply.outer(centre, centre)
        more = {
            "covariance_off": theory.off(covariance, self.exact),
            "corrected_off": theory.off(theory.corrected(self.round, covariance), self.exact),
            "mean_off": float(np.abs(centre / np.sqrt(np.diag(self.exact))).max()),
        }
        if self._lockstep:
            error = theory.mean_error(self.round, theory.covariance(self.round), rounds)
            more["mean_z"] = float(np.abs(centre / error).max())
        return more | _named("measured_sd", self._sds(covariance))

    def _sds(self, covariance: np.ndarray) -> np.ndarray:
        return np.sqrt(np.diag(covariance) / np.diag(self.exact))


def _named(name: str, ratios: np.ndarray) -> dict[str, float]:
    return {f"{name}_min": float(ratios.min()), f"{name}_max": float(ratios.max())}
