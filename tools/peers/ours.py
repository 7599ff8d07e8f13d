"""flyrun's own arms, run as the runner runs them: by chunks of `Program.advance`."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.config.arm import Arm
from flyrun.config.bound import NoBound
from flyrun.config.brightness import NoBrightness
from flyrun.config.model import Logistic
from flyrun.config.protocol import Protocol
from flyrun.samplers.method import prepare
from tools.peers.problems import Problem
from tools.peers.run import Run, Start, joined

_CHUNK_S = 0.25


def contestant(
    sampler: Any, bound: Any = None, brightness: Any = None, burn_in: int = 2000, thin: int = 1
) -> Callable[[Problem, int, float], Run]:
    """An arm: run(problem, seed, budget in seconds)."""

    @functools.cache
    def prepared(problem: Problem) -> tuple[Any, float, float]:
        """The arm's program; seconds of setting it up and of compiling it (or of numba's cache)."""
        protocol = Protocol(iterations=10**9, burn_in=burn_in, thin=thin, init="map")
        arm = Arm(
            "peers", "arm", problem.dataset, Logistic(), problem.prior,
            bound or NoBound(), brightness or NoBrightness(), sampler, protocol,
        )  # fmt: skip
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            program = prepare(arm, Path(folder))
        setup_s = time.perf_counter() - begin
        return program, setup_s, program.warm_up()

    def run(problem: Problem, seed: int, budget: float) -> Run:
        program, setup_s, compile_s = prepared(problem)
        begin = time.perf_counter()
        state, warm = program.advance(program.init(seed), burn_in)
        warm_s = setup_s + time.perf_counter() - begin
        start = Start(compile_s, warm_s, program.facts().setup_queries + float(warm["queries"].sum()))
        parts, size, spent = [], thin, 0.0
        while spent < budget:
            begin = time.perf_counter()
            state, draws = program.advance(state, size)
            passed = time.perf_counter() - begin
            queries = draws["queries"].reshape(-1, thin).sum(axis=1)
            parts.append((np.asarray(draws["theta"]), queries, passed))
            spent += passed
            size = thin * max(1, min(4 * size, int(size * _CHUNK_S / max(passed, 1e-9))) // thin)
        return joined(parts, start)

    return run
