"""What a contestant leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: how the names of our samplers that look at few data begin
FIREFLY = "firefly"


@dataclass(frozen=True)
class Start:
    """What a chain needed before its first kept draw.

    compile_s: of compiling, once a problem.  warm_s, evaluations: of set-up (the mode, bounds) and warm-up.
    """

    compile_s: float
    warm_s: float
    evaluations: float


@dataclass(frozen=True)
class Run:
    """One chain after warm-up.

    draws (T, D).  seconds, evaluations (T,): of sampling, up to each draw; an evaluation is of one datum's
    likelihood, with or without its gradient.
    """

    draws: np.ndarray
    seconds: np.ndarray
    evaluations: np.ndarray
    start: Start


def joined(parts: list[tuple[np.ndarray, np.ndarray, float]], start: Start) -> Run:
    """A run from its chunks: draws (n, D), evaluations of each draw (n,), seconds of the chunk."""
    seconds, done = [], 0.0
    for draws, _, spent in parts:
        seconds.append(done + spent * np.arange(1, len(draws) + 1) / len(draws))
        done += spent
    return Run(
        np.concatenate([draws for draws, _, _ in parts]),
        np.concatenate(seconds),
        np.cumsum(np.concatenate([evaluations for _, evaluations, _ in parts]), dtype=float),
        start,
    )
