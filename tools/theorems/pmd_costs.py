"""Table 1 of Dai, He, Dai & Song (2016), measured: what methods keep, do in a step, and are off.

Into results/measured/pmd_costs.csv. Logistic regression of 200 rows on three coefficients, batches of 10,
whose posterior's moments a grid gives. Methods keep m samples, particles or components, as in the paper, and
make the steps that it balances m with: SGLD and PMD with weighted particles m, PMD with kernel densities 4√m;
one-pass SMC ends with the rows; SVI and NPV, of which it gives no rate, make 1,000. `make theorems`.
"""

import csv
import io
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import log_priors
from flyrun.experiments.samplers.method import prepare
from flyrun.ground import files
from tools.results.published import MEASURED
from tools.theorems.mirror_descent import rate

TABLE = MEASURED / "pmd_costs.csv"
PROBLEM = [
    "dataset=toy_2d",
    "dataset.n_data=200",
    "dataset.separation=1.5",
    "model=logistic",
    "prior=gaussian",
]
SIZES, ROUNDS = (100, 400, 1_600), 1_000
_COLUMNS = (
    "method", "m", "steps", "kept", "queries_a_step", "pairs_a_step", "total_queries",
    "off", "off_se", "sd_ratio", "slope", "low", "high", "runs",
)  # fmt: skip


class Kind(NamedTuple):
    """How a method is asked for m, and for how many steps."""

    words: tuple[str, ...]
    key: str = "sampler.particles"  # "" where its draws are the samples
    steps: Any = staticmethod(lambda m: m)
    sizes: tuple[int, ...] = SIZES
    pairs: bool = False  # of components, which it tells of in no record
    runs: int = 40


DRAWN = "sampler.batches=replacement"
KINDS = {
    "svi": Kind(("sampler=svi_jaakkola_jordan",), "", lambda m: ROUNDS, (1,), runs=10),
    "npv": Kind(("sampler=npv",), "sampler.components", lambda m: ROUNDS, (10, 40, 160), True, 8),
    "one_pass_smc": Kind(("sampler=one_pass_smc",), steps=lambda m: 20),
    "sgld": Kind(("sampler=sgld", DRAWN, "sampler.step=0.01", "sampler.decay=0.333"), ""),
    "pmd_weighted": Kind(("sampler=pmd", DRAWN, "sampler.rejuvenate=never")),
    "pmd_kernels": Kind(
        ("sampler=pmd", DRAWN, "sampler.rejuvenate=always", "sampler.bandwidth=theorem", "sampler.width=0.1",
         "sampler.schedule=theorem"),
        steps=lambda m: int(4 * m**0.5), runs=12,
    ),
}  # fmt: skip


def truth(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds, (3,), of the posterior on a grid of 41³ points, ±6 sds of its Laplace approximation."""
    laplace = prepare(arm_of([*PROBLEM, "sampler=laplace"], ()), folder)
    state, _ = laplace.advance(laplace.init(0), 1)
    found = laplace.result(state)
    axis, root = np.linspace(-6.0, 6.0, 41), np.linalg.cholesky(found["covariance"])
    unit = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    theta, problem = found["mean"] + unit @ root.T, laplace.problem  # type: ignore[attr-defined]
    rows = np.arange(len(problem.features.rows))
    log = passes.sums_over(problem.model, problem.features, rows, theta) + log_priors(problem.prior, theta)
    weight = np.exp(log - logsumexp(log))
    mean = weight @ theta
    return mean, np.sqrt(weight @ (theta - mean) ** 2)


def one(method: Any, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray, int, dict[str, float]]:
    """Mean and sd that a run hands in, how many numbers it keeps, and sums of its records."""
    state, records = method.advance(method.init(seed), steps)
    told = {name: float(records[name].sum()) for name in ("queries", "kernel_evaluations") if name in records}
    if (theta := records.get("theta")) is not None:
        weight = (1.0 + np.arange(len(theta))) ** -method.arm.sampler.decay
        weight /= weight.sum()
        mean, square, kept = weight @ theta, weight @ theta**2, theta.size
    else:
        found = method.estimates(state)
        mean, square = found["mean"], found["square"]
        kept = sum(np.size(values) for values in method.result(state).values())
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0)), kept, told


def rows(names: tuple[str, ...] = tuple(KINDS)) -> list[dict[str, Any]]:
    """A row a method and m: off, the root mean square error of E θ in sds of the posterior; slope, of its log
    on log m.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        mean, sd = truth(folder)
        return [row for name in names for row in _of_kind(name, KINDS[name], folder, mean, sd)]


def _of_kind(name: str, kind: Kind, folder: Path, mean: np.ndarray, sd: np.ndarray) -> list[dict[str, Any]]:
    found, squares = [], np.empty((kind.runs, len(kind.sizes)))
    for k, m in enumerate(kind.sizes):
        words = [f"{kind.key}={m}"] if kind.key else []
        steps = kind.steps(m)
        protocol = (f"protocol.iterations={steps}", "protocol.burn_in=0", "protocol.init=prior")
        method = prepare(arm_of([*PROBLEM, "sampler.batch=10", *kind.words, *words, *protocol], ()), folder)
        told = [one(method, steps, 1_000 * k + seed) for seed in range(kind.runs)]
        squares[:, k] = [np.mean(((got - mean) / sd) ** 2) for got, *_ in told]
        records = told[0][3]
        pairs = records.get("kernel_evaluations", 0.0) / max(steps - 1, 1)
        off = np.sqrt(squares[:, k].mean())
        found.append({
            "method": name, "m": m, "steps": steps, "kept": told[0][2],
            "queries_a_step": records["queries"] / steps,
            "pairs_a_step": float(m**2) if kind.pairs else pairs,
            "total_queries": records["queries"], "off": off,
            "off_se": squares[:, k].std(ddof=1) / np.sqrt(kind.runs) / (2 * off),
            "sd_ratio": float(np.exp(np.mean(np.log([got / sd for _, got, *_ in told])))),
            "runs": kind.runs,
        })  # fmt: skip
    if len(kind.sizes) > 1:
        fitted = rate(kind.sizes, squares, root=True)
        found[-1] |= {"slope": fitted.slope, "low": fitted.low, "high": fitted.high}
    return found


def text(found: list[dict[str, Any]]) -> str:
    """The table."""
    out = io.StringIO()
    table = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in found:
        table.writerow(
            {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
        )
    return out.getvalue()


if __name__ == "__main__":
    files.write_text(TABLE, text(rows()))
    print(f"wrote {TABLE}")
    sys.exit(0)
