"""NumPyro's and BlackJAX's samplers on the same posteriors, compiled by JAX, in its single precision."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMCECS, MCMC, NUTS

from tests.peers.problems import Problem
from tests.peers.run import Run, joined

_TUNING_ROUNDS, _TUNING_STEPS = 30, 200


def nuts(dense: bool, warm_up: int = 500, chunk: int = 100) -> Callable[[Problem, int, float], Run]:
    """NumPyro's NUTS (Hoffman & Gelman 2014; Phan, Pradhan & Jankowiak 2019), dense or diagonal mass."""

    def make(problem: Problem) -> MCMC:
        rows, labels = _arrays(problem)

        def model():
            theta = numpyro.sample(
                "theta", dist.Normal(0, problem.prior.scale).expand([rows.shape[1]]).to_event(1)
            )
            numpyro.sample("label", dist.BernoulliLogits(rows @ theta), obs=labels)

        return MCMC(NUTS(model, dense_mass=dense), num_warmup=warm_up, num_samples=chunk, progress_bar=False)

    return _numpyro(make, "num_steps", None)


def energy_conserving_subsampling(
    subsample: int = 200, warm_up: int = 500, chunk: int = 100
) -> Callable[[Problem, int, float], Run]:
    """NumPyro's HMCECS (Dang et al. 2019) with NUTS inside and its Taylor proxy about the mode.

    Its target is a perturbed posterior: it is approximate. An evaluation is a datum of the subsample.
    """

    def make(problem: Problem) -> MCMC:
        rows, labels = _arrays(problem)
        mode = jnp.asarray(_mode(problem), jnp.float32)

        def model():
            theta = numpyro.sample(
                "theta", dist.Normal(0, problem.prior.scale).expand([rows.shape[1]]).to_event(1)
            )
            with numpyro.plate("data", len(labels), subsample_size=subsample):
                x = numpyro.subsample(rows, event_dim=1)
                y = numpyro.subsample(labels, event_dim=0)
                numpyro.sample("label", dist.BernoulliLogits(x @ theta), obs=y)

        kernel = HMCECS(
            NUTS(model, dense_mass=True),
            num_blocks=10,
            proxy=HMCECS.taylor_proxy({"theta": mode}),
        )
        return MCMC(kernel, num_warmup=warm_up, num_samples=chunk, progress_bar=False)

    return _numpyro(make, "hmc_state.num_steps", subsample)


def _numpyro(make: Callable, steps: str, per_step: int | None) -> Callable[[Problem, int, float], Run]:
    """Chains of one problem share what is compiled; per_step: data of a gradient, None for all."""
    made = functools.cache(make)

    def run(problem: Problem, seed: int, budget: float) -> Run:
        begin = time.perf_counter()
        each = per_step or len(problem.target)
        return _sampled(made(problem), begin, seed, budget, lambda taken: taken * each, steps)

    return run


def _sampled(chain: Any, begin: float, seed: int, budget: float, cost: Callable, steps: str) -> Run:
    """Chunks of a NumPyro chain; the first also compiles and is left out."""
    chain.warmup(jax.random.PRNGKey(seed), extra_fields=(steps,), collect_warmup=True)
    warm = float(cost(np.asarray(chain.get_extra_fields()[steps], float)).sum())
    parts, start_s, spent = [], None, 0.0
    while spent < budget:
        chain.post_warmup_state = chain.last_state
        if start_s is not None:
            begin = time.perf_counter()
        chain.run(chain.post_warmup_state.rng_key, extra_fields=(steps,))
        draws = np.asarray(chain.get_samples()["theta"], float)
        passed = time.perf_counter() - begin
        evaluations = cost(np.asarray(chain.get_extra_fields()[steps], float))
        if start_s is None:
            start_s, warm = passed, warm + float(evaluations.sum())
            continue
        parts.append((draws, evaluations, passed))
        spent += passed
    return joined(parts, start_s, warm)


def blackjax_walk(thin: int = 10) -> Callable[[Problem, int, float], Run]:
    """BlackJAX's random-walk Metropolis, its step tuned to accept 0.234."""
    return _blackjax(
        lambda density, step: blackjax.additive_step_random_walk(
            density, blackjax.mcmc.random_walk.normal(jnp.asarray([step]))
        ),
        0.234,
        thin,
    )


def blackjax_mala(thin: int = 10) -> Callable[[Problem, int, float], Run]:
    """BlackJAX's MALA, its step tuned to accept 0.574."""
    return _blackjax(lambda density, step: blackjax.mala(density, step), 0.574, thin)


def _blackjax(make: Callable, target: float, thin: int) -> Callable[[Problem, int, float], Run]:
    @functools.cache
    def compiled(problem: Problem) -> tuple[Any, Any]:
        rows, labels = _arrays(problem)
        signs = 2.0 * labels - 1.0

        def density(theta):
            prior = -0.5 * jnp.sum((theta / problem.prior.scale) ** 2)
            return prior - jnp.sum(jax.nn.softplus(-signs * (rows @ theta)))

        def step_by(step):
            return make(density, step).step

        @jax.jit
        def chunk(key, state, step):
            """_TUNING_STEPS kept draws, `thin` steps each; the mean acceptance."""

            def one(state, key):
                return step_by(step)(key, state)

            def kept(state, key):
                state, info = jax.lax.scan(one, state, jax.random.split(key, thin))
                return state, (state.position, info.acceptance_rate.mean())

            state, (draws, accepted) = jax.lax.scan(kept, state, jax.random.split(key, _TUNING_STEPS))
            return state, draws, accepted.mean()

        return make(density, 0.01).init(jnp.zeros(rows.shape[1], jnp.float32)), chunk

    def run(problem: Problem, seed: int, budget: float) -> Run:
        begin = time.perf_counter()
        key, step = jax.random.PRNGKey(seed), 0.01
        state, chunk = compiled(problem)
        for turn in range(_TUNING_ROUNDS):
            key, use = jax.random.split(key)
            state, _, accepted = chunk(use, state, step)
            # Robbins-Monro, as our own arms are tuned
            step *= float(np.exp((float(accepted) - target) * 3.0 / np.sqrt(1.0 + turn)))
        start_s = time.perf_counter() - begin
        parts, spent = [], 0.0
        each = np.full(_TUNING_STEPS, float(thin * len(problem.target)))
        while spent < budget:
            begin = time.perf_counter()
            key, use = jax.random.split(key)
            state, draws, _ = chunk(use, state, step)
            kept = np.asarray(draws, float)
            passed = time.perf_counter() - begin
            parts.append((kept, each, passed))
            spent += passed
        return joined(parts, start_s, _TUNING_ROUNDS * float(each.sum()))

    return run


def _mode(problem: Problem) -> np.ndarray:
    """Posterior mode by Newton's method, (D,)."""
    theta = np.zeros(problem.rows.shape[1])
    for _ in range(20):
        share = 1.0 / (1.0 + np.exp(problem.target * (problem.rows @ theta)))
        slope = problem.rows.T @ (problem.target * share) - theta / problem.prior.scale**2
        curvature = (problem.rows.T * (share * (1.0 - share))) @ problem.rows
        theta += np.linalg.solve(curvature + np.eye(theta.size) / problem.prior.scale**2, slope)
    return theta


def _arrays(problem: Problem) -> tuple[Any, Any]:
    return jnp.asarray(problem.rows, jnp.float32), jnp.asarray(problem.target > 0, jnp.float32)
