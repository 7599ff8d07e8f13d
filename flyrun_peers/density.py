"""The log density that peers are given: the quickest form of it that JAX compiles for one core.

In single precision, as JAX's default is (at a million data the log density is then wrong by 0.02); features
are stored (D, N), twice as quick as (N, D) with what XLA makes of either product; and the gradient is written
out, which shares the exponentials with the value.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp

from flyrun.experiments.models.problem import Problem, posterior_curvature
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.method import Arm


@dataclass(frozen=True)
class Whitened:
    """θ = centre + root·w; log_density(w), w (P,), up to a constant, differentiable once, in reverse."""

    log_density: Callable[[Any], Any]
    centre: np.ndarray
    root: np.ndarray

    def theta(self, w: np.ndarray) -> np.ndarray:
        """Positions (n, P) of whitened ones."""
        return self.centre + np.asarray(w, float) @ self.root.T

    def white(self, theta: np.ndarray) -> np.ndarray:
        """The whitened position of θ, (P,)."""
        return np.linalg.solve(self.root, theta - self.centre)


def whitened(arm: Arm, problem: Problem) -> Whitened:
    """By the posterior's curvature at the MAP for metric=hessian (N queries), else as θ is, about the MAP."""
    centre = problem.fit.theta_map
    root = np.eye(centre.size)
    if arm.sampler.metric == "hessian":
        root = np.linalg.inv(np.linalg.cholesky(posterior_curvature(arm, problem))).T
    at, by = jnp.asarray(centre, jnp.float32), jnp.asarray(root, jnp.float32)
    look = _of_theta(arm, problem)

    @jax.custom_vjp
    def density(w):
        return look(at + by @ w)[0]

    def forward(w):
        value, gradient = look(at + by @ w)
        return value, by.T @ gradient

    density.defvjp(forward, lambda slope, upstream: (upstream * slope,))
    return Whitened(density, centre, root)


def _of_theta(arm: Arm, problem: Problem) -> Callable[[Any], tuple[Any, Any]]:
    """θ (P,) -> log posterior and its gradient."""
    model, rows = problem.model, problem.features.rows
    features = jnp.asarray(np.ascontiguousarray(rows.T), jnp.float32)
    likelihood = partial(_LIKELIHOODS[arm.model.name], model)
    penalty, shape = priors_of(arm).penalty(problem.prior), (model.n_predictors, rows.shape[1])

    def look(theta):
        value, slopes = likelihood(theta.reshape(shape) @ features)
        value -= 0.5 * penalty.ridge * theta @ theta + penalty.rate * jnp.abs(theta).sum()
        gradient = (slopes @ features.T).ravel() - penalty.ridge * theta - penalty.rate * jnp.sign(theta)
        return value, gradient

    return look


def _logistic(model: Any, eta: Any) -> tuple[Any, Any]:
    """eta (1, N): the sum of log L_n, and its slopes by eta."""
    small = jnp.exp(-jnp.abs(eta))
    value = jnp.sum(jnp.minimum(eta, 0.0) - jnp.log1p(small))
    return value, jnp.where(eta > 0, small, 1.0) / (1.0 + small)


def _student_t(model: Any, eta: Any) -> tuple[Any, Any]:
    r = (jnp.asarray(model.target, jnp.float32) - eta) / model.scale
    value = -0.5 * (model.nu + 1.0) * jnp.sum(jnp.log1p(r * r / model.nu))
    return value, (model.nu + 1.0) * r / ((model.nu + r * r) * model.scale)


def _softmax(model: Any, eta: Any) -> tuple[Any, Any]:
    hot = jax.nn.one_hot(model.labels, model.n_predictors, axis=0)
    top = jax.nn.logsumexp(eta, axis=0)
    return jnp.sum(hot * eta) - jnp.sum(top), hot - jnp.exp(eta - top)


_LIKELIHOODS = {"logistic": _logistic, "softmax": _softmax, "student_t": _student_t}
