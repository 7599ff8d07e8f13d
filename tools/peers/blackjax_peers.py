"""BlackJAX's random walk and MALA, their steps tuned as our own arms' are."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from tools.peers import density
from tools.peers.problems import Problem
from tools.peers.run import Run, Start, joined

_ROUNDS, _KEPT = 30, 20


def walk(thin: int = 10) -> Callable[[Problem, int, float], Run]:
    """Random-walk Metropolis, accepting 0.234."""
    return _chain(
        lambda log_density, step: blackjax.additive_step_random_walk(
            log_density, blackjax.mcmc.random_walk.normal(jnp.asarray([step]))
        ),
        0.234,
        thin,
    )


def mala(thin: int = 10) -> Callable[[Problem, int, float], Run]:
    """MALA, accepting 0.574."""
    return _chain(lambda log_density, step: blackjax.mala(log_density, step), 0.574, thin)


def _chain(make: Callable, target: float, thin: int) -> Callable[[Problem, int, float], Run]:
    @functools.cache
    def compiled(problem: Problem) -> tuple[Any, Any, float]:
        begin, log_density = time.perf_counter(), density.log_density(problem)

        def chunk(key, state, step):
            """_KEPT draws, `thin` steps each; the mean acceptance."""
            advance = make(log_density, step).step

            def one(state, key):
                return advance(key, state)

            def kept(state, key):
                state, info = jax.lax.scan(one, state, jax.random.split(key, thin))
                return state, (state.position, info.acceptance_rate.mean())

            state, (draws, accepted) = jax.lax.scan(kept, state, jax.random.split(key, _KEPT))
            return state, draws, accepted.mean()

        init = jax.jit(make(log_density, 0.1).init)
        state = init(jnp.asarray(problem.fit.mode, jnp.float32))
        step = jnp.asarray(0.1, jnp.float32)
        made = jax.jit(chunk).lower(jax.random.PRNGKey(0), state, step).compile()
        return init, made, time.perf_counter() - begin

    def run(problem: Problem, seed: int, budget: float) -> Run:
        init, chunk, compile_s = compiled(problem)
        begin, fit, key = time.perf_counter(), problem.fit, jax.random.PRNGKey(seed)
        each = np.full(_KEPT, float(thin * len(problem.rows)))
        state = init(jnp.asarray(problem.start(seed), jnp.float32))
        step = float(np.exp(np.log(np.abs(np.diag(fit.root))).mean()))  # about a posterior sd
        for turn in range(_ROUNDS):
            key, use = jax.random.split(key)
            state, _, accepted = chunk(use, state, jnp.asarray(step, jnp.float32))
            # Robbins-Monro
            step *= float(np.exp((float(accepted) - target) * 3.0 / np.sqrt(1.0 + turn)))
        start = Start(
            compile_s,
            fit.seconds + time.perf_counter() - begin,
            fit.evaluations + _ROUNDS * float(each.sum()),
        )
        parts, spent = [], 0.0
        while spent < budget:
            begin = time.perf_counter()
            key, use = jax.random.split(key)
            state, draws, _ = chunk(use, state, jnp.asarray(step, jnp.float32))
            found = np.asarray(draws, float)
            passed = time.perf_counter() - begin
            parts.append((found, each, passed))
            spent += passed
        return joined(parts, start)

    return run
