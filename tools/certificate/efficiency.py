"""What weighted draws are worth: effective draws a draw by family and number of rows; κ, which falls as N^−½.

    python -m tools.certificate.efficiency [--only FAMILY,…] [--out FILE]

Tables of 20 columns as the demands beside them had: standard normal columns, a linear predictor of sd 1.
A draw of all rows is one of the 4,000 near the mode; the wide quarter as many beside them is no more than a
safeguard. Writes <out>.csv, a row a family and N, and <out>.md; other families' rows are kept.
"""

import argparse
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flyrun.families.family import family, names
from flyrun.fitting import mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.priors import INTERCEPT_SD
from flyrun.fitting.proposal import Mixture
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.fitting.weighted_draws import ALL_DRAWS, DRAWS
from flyrun.ground import environment
from flyrun.ground.page.render import View, markdown
from tools.results.published import MEASURED, keep, read_kept

ALL_ROWS, FEW_ROWS = (50, 200, 1_000, 10_000), (10_000, 100_000)
#: effective draws a draw after the last round that are asked for, by N of ALL_ROWS; 0: chains may answer
ASKED = {
    "student_t": (0.0, 0.57, 0.79, 0.98),
    "logistic": (0.16, 0.63, 0.87, 0.99),
    "binomial": (0.70, 0.89, 0.98, 1.0),
    "probit": (0.0, 0.83, 0.93, 1.0),
    "poisson": (0.51, 0.77, 0.96, 1.0),
    "negative_binomial": (0.16, 0.66, 0.70, 0.97),
    "gamma": (0.06, 0.77, 0.75, 0.98),
    "ordinal": (0.52, 0.66, 0.92, 1.0),
}
#: κ at most, and effective draws of 4,000 at least, by N of FEW_ROWS
ASKED_OF_FEW = {
    "logistic": ((0.28, 0.07), (3_898, 3_966)),
    "poisson": ((math.nan, 0.09), (math.nan, 3_966)),
    "negative_binomial": ((0.36, 0.09), (3_837, 3_966)),
    "student_t": ((0.58, 0.19), (3_702, 3_966)),
    "gamma": ((math.nan, 0.11), (math.nan, 3_966)),
}
_COLUMNS = 20  # the intercept among them
_CUTPOINTS = (-1.0, 0.0, 0.8)
_PRIOR_SD = 2.5


def table(name: str, n: int) -> Posterior:
    """A posterior of n rows, always the same one."""
    one, rng = family(name), np.random.default_rng(0)
    columns = np.column_stack([rng.standard_normal((n, _COLUMNS - 1)), np.ones(n)])
    slopes = rng.standard_normal(_COLUMNS) / math.sqrt(_COLUMNS - 1)
    slopes[-1] = 0.3
    predictors: list[Any] = [columns @ slopes]
    trials = rng.integers(1, 9, n) if one.target == "successes" else np.ones(n, int)
    levels = {"ordered": len(_CUTPOINTS) + 1, "classes": 3}.get(one.target, 0)
    if one.target == "classes":
        predictors.append(columns @ rng.permutation(slopes))
    predictors += {
        "student_t": [math.log(0.5), math.log(4.0)],
        "negative_binomial": [math.log(2.0)],
        "gamma": [math.log(3.0)],
        "ordinal": [_CUTPOINTS[0], *np.log(np.diff(_CUTPOINTS))],
    }.get(name, [])
    y = np.asarray(one.draw(rng, trials, predictors), float)
    sd = np.full(_COLUMNS, _PRIOR_SD)
    sd[-1] = INTERCEPT_SD
    if not one.intercept:
        columns, sd = columns[:, :-1], sd[:-1]
    rows = Rows(columns, y, trials.astype(float) if one.target == "successes" else 1.0)
    sd = np.tile(sd, one.linear(levels))
    return Posterior(one, rows, CoefficientPrior(np.zeros(len(sd)), sd), levels)


def row_of(name: str, n: int) -> dict[str, Any]:
    """What draws are worth of one table."""
    posterior, rng = table(name, n), np.random.default_rng(1)
    row: dict[str, Any] = {"family": name, "rows": n}
    with np.errstate(all="ignore"):
        at, likelihood = mode.find(posterior)
        shape = mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)
        if n in ALL_ROWS:
            began = time.process_time()
            doubtful = weighted_draws.in_doubt(posterior, np.zeros(1))
            found = weighted_draws.about_mode(posterior, at, shape, rng, doubtful)
            row |= {"worth": found.effective / (len(found.x) * DRAWS / ALL_DRAWS), "rounds": found.rounds}
            row |= {"draws": len(found.x), "k_hat": found.k_hat, "cpu_s": time.process_time() - began}
            row["asked"] = _asked(ASKED.get(name), ALL_ROWS, n)
        if n in FEW_ROWS:
            near = Mixture.of(at, shape, 0.0, 0.0)
            few = weighted_draws.by_few_rows(posterior, near, likelihood, rng, ALL_DRAWS)
            kappa, effective = ASKED_OF_FEW.get(name, (None, None))
            row |= {"kappa": few.kappa, "effective": few.effective, "a_draw": few.rate}
            row["kappa_asked"] = _asked(kappa, FEW_ROWS, n)
            row["effective_asked"] = _asked(effective, FEW_ROWS, n)
    return row


def _asked(figures: tuple[float, ...] | None, sizes: tuple[int, ...], n: int) -> float:
    return figures[sizes.index(n)] if figures else math.nan


def page(rows: list[dict[str, Any]]) -> str:
    """Markdown: both tables, and what is below its demand."""
    all_rows = [row for row in rows if row["rows"] in ALL_ROWS]
    few = [row for row in rows if row["rows"] in FEW_ROWS]
    of_all = View(
        "Every draw by all rows",
        ("", "rows", "draws", "effective a draw", "asked", "rounds", "k̂", "CPU s"),
        tuple(
            (
                row["family"],
                f"{row['rows']:,}",
                *(_cell(row[key], digits) for key, digits in _ALL),
            )
            for row in all_rows
        ),
    )
    of_few = View(
        "Few rows a draw",
        ("", "rows", "κ", "asked", "effective", "asked, of 4,000", "rows a draw"),
        tuple(
            (row["family"], f"{row['rows']:,}", *(_cell(row[key], digits) for key, digits in _FEW))
            for row in few
        ),
    )
    below = [_named(row) for row in all_rows if row["worth"] < row["asked"] - 0.005]
    less = [_named(row) for row in few if row["effective"] < row["effective_asked"]]
    more = [_named(row) for row in few if row["kappa"] > row["kappa_asked"] + 0.005]
    kappa = {(row["family"], row["rows"]): row["kappa"] for row in few}
    pairs = [[kappa.get((one, n), math.nan) for n in FEW_ROWS] for one in names()]
    falls = [one / two for one, two in pairs if two > 0.0] or [math.nan]
    falling = " to ".join(f"1/{one:.2f}" for one in sorted({min(falls), max(falls)}))
    words = f"""\
Tables of {_COLUMNS} columns (tools/certificate/efficiency.py). "Effective a draw": effective draws of the
last round, (Σw)²/Σw², by those of its draws that are of the near part, four of five. "Asked": what a
Gaussian without a wide part reached, which misses regions. Of few rows a draw "effective" is
of {DRAWS:,} near draws and {DRAWS // 4:,} wide ones.
κ: the sum of the rows' remainders' sds. From {FEW_ROWS[0]:,} to {FEW_ROWS[1]:,} rows it falls to {falling};
N^−½ would be 1/{math.sqrt(FEW_ROWS[1] / FEW_ROWS[0]):.2f}."""
    about = environment.describe()
    made = f"{about['cpu']}; flyrun {about['flyrun']}, commit {(about.get('commit') or 'unknown')[:10]}; "
    told = [
        f"- {said}: {', '.join(some) or 'none'}."
        for said, some in (
            ("Fewer effective than asked, all rows", below),
            ("few rows", less),
            ("κ above", more),
        )
    ]
    tables = "\n\n".join(markdown(view).strip() for view in (of_all, of_few))
    made += f"{datetime.now(UTC):%Y-%m-%d}."
    return "\n".join(["# What weighted draws are worth", "", words, "", tables, "", *told, "", made, ""])


def _named(row: dict[str, Any]) -> str:
    return f"{row['family']} at {row['rows']:,} rows"


_ALL = (("draws", 0), ("worth", 2), ("asked", 2), ("rounds", 0), ("k_hat", 2), ("cpu_s", 2))
_FEW = (("kappa", 3), ("kappa_asked", 3), ("effective", 0), ("effective_asked", 0), ("a_draw", 0))


def _cell(value: float, digits: int = 2) -> str:
    return "–" if not math.isfinite(value) else f"{value:,.{digits}f}"


def main() -> None:
    """Measure, and write after each table."""
    about = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.certificate.efficiency", description=about)
    parser.add_argument("--only", type=lambda text: text.split(","), help="families")
    parser.add_argument("--out", type=Path, default=MEASURED / "fit_efficiency")
    asked = parser.parse_args()
    out = asked.out.with_suffix(".csv")
    kept = read_kept(out).to_dict("records") if asked.only and out.exists() else []
    found = {(row["family"], row["rows"]): row for row in kept}
    every = [(one, n) for one in names() if not family(one).by_sums for n in sorted({*ALL_ROWS, *FEW_ROWS})]
    for name, n in every:
        if not asked.only or name in asked.only:
            found[name, n] = row = row_of(name, n)
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            rows = pd.DataFrame([found[key] for key in every if key in found])
            keep(out, rows, lambda table: page(table.to_dict("records")))


if __name__ == "__main__":
    main()
