"""Hamiltonian Monte Carlo on all rows, several chains at a time, in NumPy (Neal 2011).

For tables whose weighted draws are in doubt, as a check beside them and as the answer where they fail, and
for the surrogate of a scan.
Positions are whitened by a Gaussian near the posterior, so that one step size serves all directions.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from flyrun.fitting.proposal import Several
from flyrun.fitting.rows_posterior import Posterior

CHAINS = 4
_WARM_UP = 300
_ACCEPTED = 0.85
_LENGTH = 1.6  # of a trajectory in whitened units: about a quarter turn of a Gaussian
_MOST_STEPS = 64
_LOST = 20.0  # nats below its centre from where a chain might not find back, as no step leads out


class Sampler:
    """Chains of one posterior.

    centres (m, P): about which they begin in turn; root (P, P): of the Gaussian shape there, which whitens;
    several: mixtures about several modes, between which chains then jump by Metropolis-Hastings.
    warm_up: iterations that tune the step, fewer where many chains do so together. wide: sds of where they
    begin, by that shape. spent: whether the time is up, from when on no further iteration is made.
    """

    def __init__(
        self,
        posterior: Posterior,
        centres: np.ndarray,
        root: np.ndarray,
        rng: np.random.Generator,
        chains: int = CHAINS,
        warm_up: int = _WARM_UP,
        wide: float = 1.0,
        spent: Callable[[], bool] = lambda: False,
        several: Several | None = None,
    ):
        self.posterior, self.centre, self.root, self.rng = posterior, centres[0], root, rng
        self.spent, self.several = spent, several
        begun = centres[np.arange(chains) % len(centres)] - self.centre
        begun = solve_triangular(root, begun.T, lower=True).T
        self.z = begun + wide * rng.standard_normal(begun.shape)
        self.log_step = math.log(0.8 / begun.shape[1] ** 0.25)
        self.value, self.slope = self._look(self.z)
        deep = _LOST + 0.5 * (wide**2 - 1.0) * begun.shape[1]
        lost = ~(self.value > self._look(begun)[0] - deep)
        self.z[lost] = begun[lost]
        self.value, self.slope = self._look(self.z)
        for number in range(warm_up):
            if spent():
                break
            chance = self._step()
            self.log_step += (1.0 + number) ** -0.5 * (chance - _ACCEPTED)
            if several is not None:
                self._jump(several)

    def draw(self, n: int) -> np.ndarray:
        """n more draws of each chain, (chains, n, P); fewer where the time is spent."""
        draws = np.empty((len(self.z), n, len(self.centre)))
        for i in range(n):
            if self.spent():
                return draws[:, :i]
            self._step()
            if self.several is not None:
                self._jump(self.several)
            draws[:, i] = self.centre + self.z @ self.root.T
        return draws

    def _look(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = self.posterior.value_and_slope(self.centre + z @ self.root.T)
        return value, slope @ self.root

    def _step(self) -> float:
        """One proposal for every chain; their mean chance of acceptance."""
        step = math.exp(self.log_step) * self.rng.uniform(0.6, 1.2)
        momentum = self.rng.standard_normal(self.z.shape)
        before = self.value - 0.5 * (momentum**2).sum(axis=1)
        z, value, slope = self.z, self.value, self.slope
        with np.errstate(all="ignore"):
            for _ in range(min(max(1, math.ceil(_LENGTH / step)), _MOST_STEPS)):
                momentum = momentum + 0.5 * step * slope
                z = z + step * momentum
                value, slope = self._look(z)
                momentum = momentum + 0.5 * step * slope
            change = value - 0.5 * (momentum**2).sum(axis=1) - before
        change = np.where(np.isfinite(change), np.minimum(change, 0.0), -np.inf)
        taken = np.log(self.rng.random(len(self.z))) < change
        self.z = np.where(taken[:, None], z, self.z)
        self.value = np.where(taken, value, self.value)
        self.slope = np.where(taken[:, None], slope, self.slope)
        return float(np.exp(change).mean())

    def _jump(self, several: Several) -> None:
        """Two proposals for every chain: of the mixtures, wherever it is; then as far from another mode as it
        is from its own, which suits modes of one shape, whatever that is.
        """
        here = self.centre + self.z @ self.root.T
        there = several.draw(self.rng, len(here))
        self._propose(there, several.log_density(here) - several.log_density(there))
        here, centres = self.centre + self.z @ self.root.T, several.centres
        nearest = several.nearest(here)
        other = (nearest + self.rng.integers(1, len(centres), len(here))) % len(centres)
        there = here + centres[other] - centres[nearest]
        self._propose(
            there, np.where(several.nearest(there) == other, 0.0, -np.inf)
        )  # else there is no way back

    def _propose(self, there: np.ndarray, log_ratio: np.ndarray) -> None:
        """Metropolis-Hastings; log_ratio: of proposing here from there by there from here, (C,)."""
        z = solve_triangular(self.root, (there - self.centre).T, lower=True).T
        value, slope = self._look(z)
        change = value - self.value + log_ratio
        taken = np.log(self.rng.random(len(z))) < np.where(np.isfinite(change), change, -np.inf)
        self.z = np.where(taken[:, None], z, self.z)
        self.value = np.where(taken, value, self.value)
        self.slope = np.where(taken[:, None], slope, self.slope)
