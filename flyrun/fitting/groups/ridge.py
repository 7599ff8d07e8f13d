"""A proposal for (log σ, log sd) on a bent ridge: groups of a row each tell σ² + sd² alone.

Along ρ = ½ log(σ² + sd²) and φ = log sd − log σ the ridge is straight, and the map's determinant is 1. Each
cell of a grid there has the largest density of those about it.
"""

from collections.abc import Callable

import numpy as np

_FIRST, _THEN = (401, 57), (200, 100)  # cells along ρ and φ, at first and in the box that has the mass
_ROUNDS = 3
_SPREAD, _FAR, _RANGE = 40.0, 8.0, 14.0  # half widths: of ρ by √rows and at most, of φ
_ROUNDED = 1e-3  # nats that rounding may add
_DEPTH = 18.0  # nats below the top, from where on nothing counts


def _bent(rho: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """(S, 2) of (log σ, log sd)."""
    log_sigma = rho - 0.5 * np.logaddexp(0.0, 2.0 * phi)
    return np.stack([log_sigma, log_sigma + phi], axis=-1)


class Ridge:
    """As of proposal.Mixture. log_density: of (S, 2) points; at: the mode, (2,)."""

    def __init__(self, log_density: Callable[[np.ndarray], np.ndarray], at: np.ndarray, rows: float) -> None:
        from scipy.ndimage import maximum_filter  # late: 50 ms that few fits need

        wide = min(_FAR, _SPREAD / np.sqrt(rows))
        centre = np.array([0.5 * np.logaddexp(2.0 * at[0], 2.0 * at[1]), at[1] - at[0]])
        half = np.array([wide, _RANGE])
        self.low, self.high = centre - half, centre + half
        # beyond, where sd² is so many times σ², differences of sums have no digits left, and there is no mass
        self.high[1] = max(centre[1] + 2.0, 0.5 * np.log(_ROUNDED / (np.finfo(float).eps * rows)))
        for cells in (_FIRST, *(_THEN,) * _ROUNDS):
            step = (self.high - self.low) / cells
            middles = [
                low + each * (0.5 + np.arange(n)) for low, each, n in zip(self.low, step, cells, strict=True)
            ]
            rho, phi = np.meshgrid(*middles, indexing="ij")
            log_p = log_density(_bent(rho.ravel(), phi.ravel())).reshape(cells)
            self.level = maximum_filter(log_p, 3, mode="nearest")
            kept = np.argwhere(~(self.level < log_p.max() - _DEPTH))
            first, last = self.low + kept.min(axis=0) * step, self.low + (kept.max(axis=0) + 1) * step
            self.step, self.cells, corner = step, cells, self.low
            self.low, self.high = first, last
        self.low = corner
        mass = np.exp(self.level - self.level.max())
        self.share = (mass / mass.sum()).ravel()
        with np.errstate(divide="ignore"):
            self.level = np.log(self.share / step.prod())

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws, (n, 2), none of them of a wide part."""
        which = np.searchsorted(np.cumsum(self.share), rng.random(n)).clip(max=len(self.share) - 1)
        place = np.stack(np.unravel_index(which, self.cells), axis=-1)
        return _bent(*(self.low + (place + rng.random((n, 2))) * self.step).T), np.zeros(n, bool)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) of x (n, 2)."""
        along = np.stack([0.5 * np.logaddexp(2.0 * x[:, 0], 2.0 * x[:, 1]), x[:, 1] - x[:, 0]], axis=-1)
        place = np.floor((along - self.low) / self.step).astype(np.int64)
        inside = ((place >= 0) & (place < self.cells)).all(axis=1)
        which = np.ravel_multi_index(tuple(place.clip(0, np.array(self.cells) - 1).T), self.cells)
        return np.where(inside, self.level[which], -np.inf)
