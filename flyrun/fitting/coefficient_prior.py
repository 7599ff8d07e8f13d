"""The prior of a table's coefficients."""

from dataclasses import dataclass

import numpy as np

from flyrun.families.prior_densities import Prior


@dataclass(frozen=True)
class CoefficientPrior:
    """Of the coefficients, (P,) each without the auxiliary numbers': normal, or Laplace of the same sd.

    others: the priors of those of infinite sd, by place.
    """

    mean: np.ndarray
    sd: np.ndarray
    kind: str = "gaussian"
    others: tuple[tuple[int, Prior], ...] = ()

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """(S,) of theta (S, P)."""
        if self.others:
            kept = np.isfinite(self.sd)
            log_p = CoefficientPrior(self.mean[kept], self.sd[kept]).log_density(theta[:, kept])
            return log_p + sum(prior.log_density(theta[:, place]) for place, prior in self.others)
        z = (theta - self.mean) / self.sd
        level = -np.log(self.sd).sum()
        if self.kind == "laplace":
            return level - (np.sqrt(2.0) * np.abs(z) + 0.5 * np.log(2.0)).sum(axis=1)
        return level - 0.5 * ((z * z).sum(axis=1) + z.shape[1] * np.log(2 * np.pi))

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope and minus the second derivative, (P,) each; a Laplace prior's corner is rounded for it."""
        z = (theta - self.mean) / self.sd
        if self.kind == "laplace":
            reach = np.sqrt(z * z + 0.01)
            return -np.sqrt(2.0) * z / reach / self.sd, np.sqrt(2.0) * 0.01 / reach**3 / self.sd**2
        slope, curvature = -z / self.sd, 1.0 / self.sd**2
        if self.others:
            curvature = np.broadcast_to(curvature, slope.shape).copy()
        for place, prior in self.others:
            slope[..., place], curvature[..., place] = prior.derivatives(theta[..., place])
        return slope, curvature
