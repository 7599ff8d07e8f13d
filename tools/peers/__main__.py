"""Other people's samplers and ours on identical posteriors, each on one core, one after the other.

    python -m tools.peers [problem …] [--seeds 5] [--seconds 4] [--only firefly_hmc,…] [--out FILE]

Problems: mnist, tall_1e4, tall_1e5, tall_1e6. Writes <out>.md, <out>.csv and <out>.png. Means and sds are
compared with those of long chains of NumPyro's NUTS, run once a problem and kept in the user's cache.
Ends with 1 when our best sampler and they disagree.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: seconds of sampling, each sampler and seed
SECONDS = {"mnist": 4.0, "tall_1e4": 2.0, "tall_1e5": 3.0, "tall_1e6": 3.0}
#: where a pass over all data is slow, samplers that make it get one seed, and longer
DEAR_SECONDS = 15.0


def main() -> int:
    """Run, print a line for each contestant, write the tables and the figure."""
    asked = _arguments()
    _one_core()
    import pandas as pd

    from tools.peers import contestants, density, draw, figure, judge, problems, reference

    rows: list[dict[str, Any]] = []
    checks: list[dict[str, Any]] = []
    curves, floors = {}, {}
    for name in asked.problems:
        problem = problems.problem(name)
        (n_data, n_params), began = problem.rows.shape, time.perf_counter()
        print(f"{name}: {n_data:,} data, {n_params} coefficients", flush=True)
        truth = reference.moments(problem, asked.reference)
        error = truth.mean_error / truth.sd
        checks.append(
            {
                "problem": name,
                "n_params": n_params,
                "gradient_s": density.seconds_of_gradient(problem),
                "mean_error": float(error.max()),
                "sd_error": float(truth.sd_error.max()),
            }
        )
        floors[name] = float((error**2).mean() ** 0.5)
        print(f"  reference: {time.perf_counter() - began:.0f} s", flush=True)
        curves[name] = {}
        found = contestants.of(problem)
        for label in asked.only or list(found):
            # what a contestant keeps compiled or set up goes with it
            contestant, begin = found.pop(label), time.perf_counter()
            dear = not contestants.light(problem) and not label.startswith(contestants.FIREFLY)
            seeds = 1 if dear else asked.seeds
            budget = asked.seconds or (DEAR_SECONDS if dear else SECONDS.get(name, 3.0))
            try:
                runs = [contestant(problem, seed, budget) for seed in range(seeds)]
            except Exception as failed:  # one library's failure must not lose the others' half hour
                print(f"  {label}: {type(failed).__name__}: {failed}", flush=True)
                continue
            row = {"problem": name, "sampler": label, "n_data": n_data, **judge.row(runs, truth)}
            rows.append({**row, "limit": judge.limit(n_params)})
            curves[name][label] = [judge.errors(run, truth) for run in runs]
            print(
                f"  {label}: {row['ess_per_s']:,.1f} ESS/s, "
                f"{row['evaluations_per_ess']:,.0f} evaluations/ESS, means off by "
                f"{row['off_worst']:.3f} ± {row['off_worst_error']:.3f} sd, "
                f"{time.perf_counter() - begin:.0f} s",
                flush=True,
            )
        table = pd.DataFrame(rows)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(asked.out.with_suffix(".csv"), index=False)
        figure.figure(curves, floors, asked.out.with_suffix(".png"))
        text = draw.page(table, checks, asked.out.name, datetime.now(UTC).isoformat(timespec="seconds"))
        asked.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    best = table[table["sampler"] == contestants.BEST].to_dict("records")
    return 0 if all(draw.agrees(row) for row in best) else 1


def _one_core() -> None:
    """One core for everybody, before JAX and BLAS look how many there are."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("problems", nargs="*", default=list(SECONDS))
    parser.add_argument("--seconds", type=float, help="of sampling, each sampler and seed, on every problem")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--reference", type=int, default=10_000, help="effective draws of the reference")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these samplers")
    parser.add_argument("--out", type=Path, default=Path("results/measured/peers"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
