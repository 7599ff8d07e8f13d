"""What peers share: JAX's posterior in coordinates in which its curvature at the mode is the identity."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from flyrun.extend import JaxStepwise, Posterior


class Coordinates:
    """θ = centre + root·w, by the curvature at the mode for metric=hessian (N queries), else about the mode.

    log_density: of w, (P,), for JAX.
    """

    def __init__(self, density: Posterior, metric: str):
        self.centre, self.root = density.theta_map, np.eye(density.n_params)
        if metric == "hessian":
            self.root = np.linalg.inv(np.linalg.cholesky(density.curvature(self.centre))).T
        of_theta, at, by = density.jax.log_density, jnp.asarray(self.centre), jnp.asarray(self.root)
        self.log_density = lambda w: of_theta(at + by @ w)

    def white(self, theta: Any) -> np.ndarray:
        """w of θ, (P,)."""
        return np.linalg.solve(self.root, np.asarray(theta, float) - self.centre)

    def theta(self, w: np.ndarray) -> np.ndarray:
        """θs of positions w, (n, P)."""
        return self.centre + np.asarray(w, float) @ self.root.T


class Whitened(JaxStepwise):
    """A chain in these coordinates: `log_density` is of w, where `begin` starts and `step` stands."""

    needs_map = True
    exact = True
    records = ("accepted",)

    def set_up(self) -> None:
        self.coordinates = Coordinates(self.density, self.config.metric)
        self.log_density, self.positions = self.coordinates.log_density, self.coordinates.theta

    def begin(self, theta: Any) -> Any:
        """w of θ, (P,)."""
        return jnp.asarray(self.coordinates.white(theta), theta.dtype)
