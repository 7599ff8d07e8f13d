"""Other people's samplers and ours on identical posteriors, each on one core, one after the other.

    python -m tests.peers [problem[:seeds] …] [--seconds 8] [--seeds 5] [--only firefly_hmc,…] [--out FILE]

Problems: mnist, tall_1e4, tall_1e5, tall_1e6. Writes <out>.md, <out>.csv and <out>.png. NumPyro's NUTS with a
dense mass matrix, all seeds together, is the reference that means and sds are compared with.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REFERENCE = "nuts_dense"
REFERENCE_SHARE = 8


def main() -> int:
    """Run, print a line for each contestant, write the table and the figure."""
    asked = _arguments()
    _one_core()
    import pandas as pd

    from flyrun.errors import FlyrunError
    from tests.peers import contestants, draw, judge, problems

    rows: list[dict[str, Any]] = []
    curves = {}
    for name, _, few in (word.partition(":") for word in asked.problems):
        problem, seeds = problems.problem(name), int(few or asked.seeds)
        print(f"{name}: {problem.rows.shape[0]:,} data, {problem.rows.shape[1]} coefficients", flush=True)
        runs = {}
        for label, contestant in contestants.of(problem).items():
            if asked.only and label not in (REFERENCE, *asked.only):
                continue
            begin = time.perf_counter()
            try:
                # means and sds are no better known than the reference's
                budget = asked.seconds * (REFERENCE_SHARE if label == REFERENCE else 1)
                runs[label] = [contestant(problem, seed, budget) for seed in range(seeds)]
            except FlyrunError as error:
                print(f"  {label}: {error}", flush=True)
                continue
            reference = judge.moments(runs[REFERENCE])
            row = judge.row(runs[label], reference)
            rows.append({"problem": name, "sampler": label, "n_data": len(problem.rows), **row})
            print(
                f"  {label}: {row['ess_per_s']:,.1f} ESS/s, "
                f"{row['evaluations_per_ess']:,.0f} evaluations/ESS, "
                f"means off by {row['mean_off_sds']:.3f} sd, {time.perf_counter() - begin:.0f} s",
                flush=True,
            )
        curves[name] = {
            label: [judge.errors(run, reference, _part(label)) for run in every]
            for label, every in runs.items()
        }
    table = pd.DataFrame(rows)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(asked.out.with_suffix(".csv"), index=False)
    draw.figure(curves, asked.out.with_suffix(".png"))
    text = draw.page(table, asked.out.name, asked.seconds, datetime.now(UTC).isoformat(timespec="seconds"))
    asked.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def _part(label: str) -> float:
    """Of a run, how much its curve shows: the reference's whole would be measured against itself."""
    return 1.0 / REFERENCE_SHARE if label == REFERENCE else 1.0


def _one_core() -> None:
    """One core for everybody, before JAX and BLAS look how many there are."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("problems", nargs="*", default=["mnist", "tall_1e4:2", "tall_1e5:2", "tall_1e6:1"])
    parser.add_argument("--seconds", type=float, default=8.0, help="of sampling, each sampler and seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), help="these samplers, and the reference")
    parser.add_argument("--out", type=Path, default=Path("results/measured/peers"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
