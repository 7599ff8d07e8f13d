"""What chains of any terms of groups take: CPU seconds to 1,000 effective draws of the worst of all numbers.

    python -m tools.groups.chains [--only NAME;…] [--peers PYTHON] [--out FILE]

Each case is a generated table with its terms. The worst is that of coefficients, sds, correlations and
effects, in bulk or tail. Beside it NUTS of NumPyro, by --peers, a Python that has it, and lme4's point
estimate where Rscript and lme4 are. Writes <out>.csv, whose other rows --only keeps, and <out>.md. Takes
some ten minutes.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flyrun.families.family import family
from flyrun.families.prior_densities import HalfT
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import turning
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.term import Term
from flyrun.fitting.table_rows import Rows
from flyrun.fitting.weighted_draws import never
from flyrun.ground import environment
from flyrun.ground.diagnostics import ess
from flyrun.ground.errors import FlyrunError
from flyrun.ground.page.render import View, markdown, number
from tools.results.published import MEASURED, keep, read_kept

_EFFECTIVE = 1_000
_FIRST, _MOST = 100, 3_200  # draws of a chain, at first and at most
_NUTS_ROWS = 2_000  # of the largest table that NUTS is run on: taller ones take it hours
_TOGETHER = 500  # effects whose draws are judged at a time


class Case(NamedTuple):
    """A table and its terms: each of so many levels, and of how many slopes of columns."""

    name: str
    family: str
    rows: int
    terms: tuple[tuple[int, int], ...]
    columns: int = 1

    @property
    def formula(self) -> str:
        """As lme4 has it."""
        fixed = " + ".join(f"x{k}" for k in range(self.columns))
        slopes = [" + ".join(["1", *(f"x{k}" for k in range(count))]) for _, count in self.terms]
        return f"y ~ {fixed} + " + " + ".join(f"({effects} | g{k})" for k, effects in enumerate(slopes))

    def frame(self) -> pd.DataFrame:
        """Standard normal columns; effects of sd 0.6, slopes' of 0.4; every level has a row."""
        rng = np.random.default_rng([self.rows, self.terms[0][0]])
        x = rng.standard_normal((self.rows, self.columns))
        columns, eta = {f"x{k}": each for k, each in enumerate(x.T)}, 0.3 + x @ np.full(self.columns, 0.4)
        for k, (levels, slopes) in enumerate(self.terms):
            code = np.append(np.arange(levels), rng.integers(0, levels, self.rows - levels))
            effects = rng.normal(0.0, [0.6] + [0.4] * slopes, (levels, 1 + slopes))
            eta = eta + effects[code, 0] + (effects[code, 1:] * x[:, :slopes]).sum(axis=1)
            columns[f"g{k}"] = code
        p = [eta, np.zeros(1)] if family(self.family).auxiliary(0, 1.0) else [eta]
        return pd.DataFrame(columns | {"y": np.asarray(family(self.family).draw(rng, 1, p), float)})


CASES = (
    Case("two slopes, normal", "gaussian", 180, ((18, 2),), 2),
    Case("three factors, one of 2, counts", "poisson", 400, ((2, 0), (12, 0), (40, 0))),
    Case("crossed, yes or no", "logistic", 7_500, ((24, 0), (316, 0))),
    Case("crossed, slopes in both", "logistic", 7_500, ((24, 1), (316, 1))),
    Case("two slopes, yes or no", "logistic", 100_000, ((1_000, 2),), 2),
    Case("three crossed, normal", "gaussian", 73_421, ((14, 0), (1_128, 0), (2_972, 0))),
    Case("three crossed, yes or no", "logistic", 73_421, ((14, 0), (1_128, 0), (2_972, 0))),
)


def posterior_of(case: Case, frame: pd.DataFrame) -> TermsPosterior:
    """Under half-t(3, 0, 2.5) of sds, LKJ(1), normal coefficients of sd 2.5, the intercept's 10."""
    x = frame[[f"x{k}" for k in range(case.columns)]].to_numpy()
    features, terms = np.column_stack([x, np.ones(case.rows)]), []
    for k, (levels, slopes) in enumerate(case.terms):
        columns = np.column_stack([np.ones(case.rows), x[:, :slopes]])
        code, sds = frame[f"g{k}"].to_numpy(), (HalfT(3.0, 2.5),) * (1 + slopes)
        terms.append(Term(code, columns, levels, slopes > 0, sds))
    prior = CoefficientPrior(np.zeros(case.columns + 1), np.array([2.5] * case.columns + [10.0]))
    rows = Rows(features, frame["y"].to_numpy())
    in_order = tuple(sorted(terms, key=lambda term: term.size))
    return TermsPosterior(family(case.family), rows, prior, terms=in_order)


def worst_of(*draws: np.ndarray) -> float:
    """The fewest effective draws, in bulk or tail, of numbers (C, T, n) each."""
    parts = [
        each[:, :, first : first + _TOGETHER]
        for each in draws
        for first in range(0, each.shape[2], _TOGETHER)
    ]
    both = [ess.summary(part, wanted=("bulk", "tail")) for part in parts]
    return float(min(min(its.bulk.min(), its.tail.min()) for its in both))


@np.errstate(all="ignore")
def measured(case: Case, folder: Path, peers: str) -> dict[str, Any]:
    """A row of the table."""
    frame = case.frame()
    posterior = posterior_of(case, frame)
    began = time.process_time()
    sampler = turning.Sampler(posterior, np.random.default_rng(0), never)
    warm, queries = time.process_time() - began, posterior.queries
    began = time.process_time()
    draws, worst, spent = sampler.draw(_FIRST), 0.0, 0.0
    while True:
        spent += time.process_time() - began
        worst = worst_of(draws.psi, draws.effects)
        if worst >= _EFFECTIVE or draws.psi.shape[1] >= _MOST:
            break
        began = time.process_time()
        draws = draws.with_more(sampler.draw(draws.psi.shape[1]))
    count = turning.CHAINS * draws.psi.shape[1]
    return {
        "case": case.name,
        "rows": case.rows,
        "effects": posterior.n_effects,
        "warm_s": warm,
        "seconds": warm + spent * _EFFECTIVE / worst,
        "draws": count,
        "worst": worst,
        "gradients": (posterior.queries - queries) / len(posterior.rows) / count,
        "nuts": _nuts(case, frame, folder, peers),
        "lme4": _lme4(case, frame, folder),
        "commit": (environment.describe().get("commit") or "unknown")[:10],
    }


def _nuts(case: Case, frame: pd.DataFrame, folder: Path, python: str) -> float:
    """CPU seconds of NUTS to as many, its compilation among them; NaN where it is not run."""
    if not python or case.rows > _NUTS_ROWS:
        return np.nan
    columns = [f"x{k}" for k in range(case.columns)]
    terms = [(f"g{k}", columns[:slopes], True) for k, (_, slopes) in enumerate(case.terms)]
    about = {"family": case.family, "columns": columns, "terms": terms}
    draws = by_nuts(python, frame, about, folder / "t.csv")
    seconds = float(draws.pop("seconds"))
    return seconds * _EFFECTIVE / worst_of(*draws.values())


def by_nuts(python: str, frame: pd.DataFrame, about: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    """Draws (C, T, n) by name, and seconds, of tools/groups/nuts.py, by a Python that has NumPyro.

    path: of a .csv that is written, beside which draws are kept; read again where they are there. Raises
    FlyrunError with what NumPyro said.
    """
    kept = path.with_suffix(".npz")
    if not kept.exists():
        frame.to_csv(path, index=False)
        words = [python, str(Path(__file__).with_name("nuts.py")), str(path), json.dumps(about)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        if ended.returncode:
            last = ended.stderr.strip().splitlines()[-1:]
            raise FlyrunError(f"--peers {python}: {''.join(last)}; install 'flyrun[peers]' there")
    with np.load(kept) as draws:
        return dict(draws)


def _lme4(case: Case, frame: pd.DataFrame, folder: Path) -> float:
    """CPU seconds of its point estimate, of glmer with nAGQ = 0; NaN where Rscript or lme4 is not."""
    if shutil.which("Rscript") is None:
        return np.nan
    frame.to_csv(folder / "t.csv", index=False)
    binomial = "binomial" if case.family == "logistic" else case.family
    how = "lmer(f, d)" if case.family == "gaussian" else f"glmer(f, d, family = {binomial}, nAGQ = 0)"
    lines = (
        f"library(lme4); d <- read.csv('{folder / 't.csv'}'); f <- {case.formula}; cat(system.time({how})[1])"
    )
    ended = subprocess.run(["Rscript", "-e", lines], capture_output=True, text=True, check=False)
    return float(ended.stdout) if ended.returncode == 0 else np.nan


def page(table: pd.DataFrame) -> str:
    """Markdown: what was measured, a row a case."""
    header = (
        "",
        "rows",
        "effects",
        "CPU s to 1,000",
        "of these warm-up",
        "draws",
        "worst",
        "gradients a draw",
    )
    header += ("NUTS, CPU s to 1,000", "lme4, CPU s of a point", "commit")
    cells = [
        (
            row.case,
            f"{row.rows:,}",
            f"{row.effects:,}",
            number(row.seconds),
            number(row.warm_s),
            f"{row.draws:,}",
            f"{row.worst:,.0f}",
            number(row.gradients),
            *("–" if np.isnan(value) else number(value) for value in (row.nuts, row.lme4)),
            row.commit,
        )
        for row in table.itertuples()
    ]
    about = environment.describe()
    text = f"""\
Chains of generated tables with terms of groups (`tools/groups/chains.py` has the formulas). "CPU s to
1,000": search, warm-up and draws until the worst of all coefficients, sds, correlations and effects has 1,000
effective draws, bulk and tail. "Worst": effective draws of the worst among those that were made. NUTS is
NumPyro's, not centred, four chains, its compilation among its seconds, on tables of at most {_NUTS_ROWS:,}
rows. "–": not run, or not on the machine."""
    made = f"{about['cpu']}, {os.cpu_count()} cores; flyrun {about['flyrun']}; {datetime.now(UTC):%Y-%m-%d}."
    return "\n".join(
        ["# Chains with terms of groups", "", text, "", markdown(View("Chains", header, cells)), made, ""]
    )


def main() -> int:
    """Measure each case, print a line of it, write table and page after each."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.groups.chains", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", type=lambda text: [name.strip() for name in text.split(";")])
    parser.add_argument("--peers", default=os.environ.get("FLYRUN_PEERS", ""))
    parser.add_argument("--out", type=Path, default=MEASURED / "group_terms")
    asked = parser.parse_args()
    names = [case.name for case in CASES]
    cases = [case for case in CASES if not asked.only or case.name in asked.only]
    if not cases:
        parser.error(f"--only: name some of {'; '.join(names)}")
    out = asked.out.with_suffix(".csv")
    table = read_kept(out) if out.exists() else pd.DataFrame()
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(case, Path(folder), asked.peers)
        print(f"{case.name}: {row['seconds']:.1f} CPU s to 1,000 effective draws", flush=True)
        table = pd.concat([table, pd.DataFrame([row])]).drop_duplicates("case", keep="last")
        table = table.sort_values("case", key=lambda column: column.map(names.index))
        keep(out, table, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
