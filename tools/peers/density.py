"""The log density that all peers are given: the quickest form of it that JAX compiles for one core.

Single precision, as JAX's default is (at a million data the log density is then wrong by 0.02); features
stored (D, N), twice as quick as (N, D) with what XLA makes of either product; and the gradient written out,
which shares the exponentials with the value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tools.peers.problems import Problem

_REPEATS, _EACH_S = 5, 0.2


def log_density(problem: Problem) -> Callable[[Any], Any]:
    """θ (D,) -> log posterior up to a constant; differentiable once, in reverse."""
    features = jnp.asarray(np.ascontiguousarray(problem.rows.T), jnp.float32)
    precision = 1.0 / problem.prior.scale**2

    def value_and_share(theta):
        margins = theta @ features
        small = jnp.exp(-jnp.abs(margins))
        value = jnp.sum(jnp.minimum(margins, 0.0) - jnp.log1p(small)) - 0.5 * precision * theta @ theta
        return value, jnp.where(margins > 0, small, 1.0) / (1.0 + small)

    @jax.custom_vjp
    def density(theta):
        return value_and_share(theta)[0]

    def forward(theta):
        value, share = value_and_share(theta)
        return value, features @ share - precision * theta

    density.defvjp(forward, lambda slope, upstream: (upstream * slope,))
    return density


def seconds_of_gradient(problem: Problem) -> float:
    """Of the value and gradient alone, compiled, in a loop: what a leapfrog step cannot be below."""
    both = jax.value_and_grad(log_density(problem))
    repeats = max(3, int(_EACH_S * 3e7 / len(problem.rows) / 5))

    @jax.jit
    def loop(theta):
        def one(_, theta):
            value, slope = both(theta)
            # moves θ by nothing that matters, yet neither result can be left out
            return theta + 1e-9 * slope + 0.0 * value

        return jax.lax.fori_loop(0, repeats, one, theta)

    theta = jnp.asarray(problem.fit.mode, jnp.float32)
    took = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        jax.block_until_ready(loop(theta))
        took.append((time.perf_counter() - begin) / repeats)
    return min(took[1:])  # the first compiles
