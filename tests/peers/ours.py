"""flyrun's own arms, run as the runner runs them: by chunks of `Program.advance`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flyrun import config
from flyrun.runner.program import prepare
from tests.peers.problems import Problem
from tests.peers.run import Run, joined

_CHUNK_S = 0.25


def contestant(
    sampler: Any, bound: Any = None, brightness: Any = None, burn_in: int = 2000, thin: int = 1
) -> Callable[[Problem, int, float], Run]:
    """An arm: run(problem, seed, budget in seconds)."""

    def run(problem: Problem, seed: int, budget: float) -> Run:
        protocol = config.Protocol(iterations=10**9, burn_in=burn_in, thin=thin, init="map")
        arm = config.Arm(
            "peers", "arm", problem.dataset, config.Logistic(), problem.prior,
            bound or config.NoBound(), brightness or config.NoBrightness(), sampler, protocol,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            program = prepare(arm, Path(folder))
            program.warm_up()
            state, warm = program.advance(program.init(seed), burn_in)
            start_s = time.perf_counter() - begin
            start_queries = program.facts()["setup_queries"] + float(warm["queries"].sum())
            parts, size, spent = [], thin, 0.0
            while spent < budget:
                begin = time.perf_counter()
                state, draws = program.advance(state, size)
                passed = time.perf_counter() - begin
                queries = draws["queries"].reshape(-1, thin).sum(axis=1)
                parts.append((np.asarray(draws["theta"]), queries, passed))
                spent += passed
                size = thin * max(1, min(4 * size, int(size * _CHUNK_S / max(passed, 1e-9))) // thin)
        return joined(parts, start_s, start_queries)

    return run
