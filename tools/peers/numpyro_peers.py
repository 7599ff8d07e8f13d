"""NumPyro's samplers, compiled once a problem: `init` and `sample` of its kernels in a loop of JAX's.

`MCMC.run` compiles anew at every call, for seconds, and would be timed with it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMCECS, NUTS

from tools.peers import density
from tools.peers.problems import Problem
from tools.peers.run import Run, Start, joined

_CHUNK_DATA, _LONGEST, _SHORTEST = 600_000, 50, 5


def nuts(dense: bool, warm_up: int) -> Callable[[Problem, int, float], Run]:
    """NUTS (Hoffman & Gelman 2014; Phan, Pradhan & Jankowiak 2019), dense or diagonal mass."""

    def make(problem: Problem) -> NUTS:
        log_density = density.log_density(problem)
        return NUTS(potential_fn=lambda theta: -log_density(theta), dense_mass=dense)

    return _chain(make, warm_up, lambda state: (state.z, state.num_steps), None, lambda theta: theta)


def nuts_of_a_model(warm_up: int) -> Callable[[Problem, int, float], Run]:
    """NUTS with dense mass on the posterior as NumPyro's manual has one write it: a model."""

    def make(problem: Problem) -> NUTS:
        rows = jnp.asarray(problem.rows, jnp.float32)

        def model():
            theta = _coefficients(problem)
            numpyro.sample("label", dist.BernoulliLogits(rows @ theta), obs=jnp.ones(len(rows)))

        return NUTS(model, dense_mass=True)

    return _chain(make, warm_up, lambda state: (state.z["theta"], state.num_steps), None)


def energy_conserving_subsampling(warm_up: int, subsample: int = 200) -> Callable[[Problem, int, float], Run]:
    """HMCECS (Dang et al. 2019) with NUTS inside and its Taylor proxy about the mode.

    Its target is a perturbed posterior: it is approximate. An evaluation is a datum of the subsample.
    """

    def make(problem: Problem) -> HMCECS:
        rows, labels = jnp.asarray(problem.rows, jnp.float32), jnp.ones(len(problem.rows))

        def model():
            theta = _coefficients(problem)
            with numpyro.plate("data", len(rows), subsample_size=subsample):
                x = numpyro.subsample(rows, event_dim=1)
                label = numpyro.subsample(labels, event_dim=0)
                numpyro.sample("label", dist.BernoulliLogits(x @ theta), obs=label)

        mode = {"theta": jnp.asarray(problem.fit.mode, jnp.float32)}
        return HMCECS(NUTS(model, dense_mass=True), num_blocks=10, proxy=HMCECS.taylor_proxy(mode))

    return _chain(
        make,
        warm_up,
        lambda state: (state.z["theta"], state.hmc_state.num_steps),
        subsample,
        compile_init=False,  # it keeps the proxy's arrays in the kernel
    )


def _coefficients(problem: Problem) -> Any:
    size = problem.rows.shape[1]
    return numpyro.sample("theta", dist.Normal(0, problem.prior.scale).expand([size]).to_event(1))


def _chain(
    make: Callable[[Problem], Any],
    warm_up: int,
    kept: Callable[[Any], tuple[Any, Any]],
    per_step: int | None,
    named: Callable[[Any], Any] = lambda theta: {"theta": theta},
    compile_init: bool = True,
) -> Callable[[Problem, int, float], Run]:
    """kept: of a state, θ and the leapfrog steps to it.  per_step: data of a gradient, None for all."""

    @functools.cache
    def compiled(problem: Problem) -> tuple[Any, Any, float]:
        begin = time.perf_counter()
        kernel = make(problem)

        def first(key, theta):
            return kernel.init(key, warm_up, named(theta), (), {})

        def one(state, _):
            state = kernel.sample(state, (), {})
            return state, kept(state)

        length = max(_SHORTEST, min(_LONGEST, _CHUNK_DATA // len(problem.rows)))
        key, theta = jax.random.PRNGKey(0), jnp.asarray(problem.fit.mode, jnp.float32)
        # init also sets the kernel up, so it comes first
        init = jax.jit(first).lower(key, theta).compile() if compile_init else first
        chunk = jax.jit(lambda state: jax.lax.scan(one, state, None, length=length))
        return init, chunk.lower(init(key, theta)).compile(), time.perf_counter() - begin

    def run(problem: Problem, seed: int, budget: float) -> Run:
        each, fit = per_step or len(problem.rows), problem.fit
        init, chunk, compile_s = compiled(problem)
        begin, warm, spent, parts = time.perf_counter(), fit.evaluations, 0.0, []
        state, left = init(jax.random.PRNGKey(seed), jnp.asarray(problem.start(seed), jnp.float32)), warm_up
        while left > 0:
            state, (thetas, steps) = chunk(state)
            left -= len(thetas)
            warm += each * float(steps.sum())
        start = Start(compile_s, fit.seconds + time.perf_counter() - begin, warm)
        while spent < budget:
            begin = time.perf_counter()
            state, (thetas, steps) = chunk(state)
            draws = np.asarray(thetas, float)
            passed = time.perf_counter() - begin
            parts.append((draws, each * np.asarray(steps, float), passed))
            spent += passed
        return joined(parts, start)

    return run
