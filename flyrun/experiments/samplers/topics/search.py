"""Step sizes by search: all candidates learn from the same documents, validation documents choose.

All methods are searched alike: so many candidates, so many passes each, from one seed that no arm runs. What
it costs is part of the set-up.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.lda import Lda
from flyrun.ground import files
from flyrun.ground.numerics import code_digest

Step = tuple[float, float, float]
SEED = 2**31 - 1
FIRST = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
GRID = tuple((a, b, c) for a in FIRST for b in (1.0, 10.0, 100.0) for c in (0.5, 0.7, 1.0)) + tuple(
    (a, 1.0, 0.0) for a in FIRST
)
"""Candidates a(1 + t/b)^−c of all methods: from constant steps, c = 0, to a/t, the fastest that converge."""


class Found(NamedTuple):
    """The step (a, b, c) of a(1 + t/b)^−c that was chosen; all that were tried, with perplexities; cost."""

    step: Step | None = None
    tried: list[list[float]] = []  # noqa: RUF012  never written to
    queries: int = 0
    visits: int = 0
    seconds: float = 0.0


def best(arm: Arm, problem: Lda, candidates: Sequence[Step], folder: Path) -> Found:
    """Search, or recall what was found from `folder`."""
    choices = [choice.key_settings() for choice in (arm.dataset, arm.model, arm.sampler)]
    code = [code_digest.of_modules(arm.code()), arm.dataset.code.fingerprint(arm.dataset)]
    key = hashlib.sha256(json.dumps([choices, code], sort_keys=True).encode()).hexdigest()[:12]
    path = folder / f"step-{key}.json"
    try:
        stored = files.read_json(path)
        return Found(**stored | {"step": tuple(stored["step"])})
    except (files.DamagedFile, KeyError, TypeError):
        pass
    started, tried, spent = time.perf_counter(), [], np.zeros(2)
    for step in candidates:
        method = arm.sampler.build(arm, problem, step)
        steps = max(1, round(arm.sampler.search_passes * method.batches.in_epoch))
        state, records = method.advance(method.init(SEED), steps)
        tried.append([*step, method.perplexity(state, problem.data.valid)])
        spent += [np.sum(records[name]) for name in ("queries", "visits")]
    chosen = min(tried, key=lambda trial: trial[-1])[:3]
    queries, visits = map(int, spent)
    searched = Found(tuple(chosen), tried, queries, visits, time.perf_counter() - started)
    files.keep(files.write_json, path, searched._asdict())
    return searched
