"""Ratios of times against stored ones: recorded, printed, and a failure only beyond three times the stored.

Two things timed in turn, in one process and often, slow down together, so their ratio hardly knows what else
the machine does. STORE_RATIOS=1 stores what is measured (`make bench_store`) and prints the difference.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path

from threadpoolctl import threadpool_limits

FILE = Path(__file__).with_name("stored_ratios.json")
SLACK = 3.0


def measured(benchmark, pair: Callable[[], tuple[float, ...]], rounds: int) -> list[float]:
    """Medians of what `pair` returns, ratios of times, over so many calls with BLAS on one thread."""
    found: list[tuple[float, ...]] = []
    with threadpool_limits(1):
        pair()
        benchmark.pedantic(lambda: found.append(pair()), rounds=rounds)
        while len(found) < rounds:  # benchmarks are off: one call was made
            found.append(pair())
    return [statistics.median(values) for values in zip(*found, strict=True)]


def judge(benchmark, capsys, name: str, ratio: float, what: str) -> None:
    """Record and print a ratio, and fail beyond SLACK times the stored one, or store it where asked."""
    stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    before = stored.get(name)
    benchmark.extra_info[name] = round(ratio, 3)
    with capsys.disabled():
        print(f"\n{name}: {ratio:.3f} {what} (stored: {before})")
    if os.environ.get("STORE_RATIOS") == "1":
        stored[name] = round(ratio, 3)
        FILE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    assert before is not None, f"{name}: no ratio is stored; `make bench_store` stores it"
    assert ratio < SLACK * before, f"{name}: {ratio:.3f} {what}, stored are {before}"
