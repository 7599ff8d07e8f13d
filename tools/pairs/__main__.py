"""`flyrun fit` of real tables, and how far each is from a reference of another package.

    python -m tools.pairs [--only TABLE,…] [--out FILE]

Every pair of tools/pairs/tables.py is written to a file and fitted by the command with its defaults. The
references are tools/pairs/reference.py's. Writes <out>.md and <out>.csv, whose other rows --only keeps.
"""

import argparse
import contextlib
import io
import json
import math
import os
import re
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import pandas as pd

from flyrun.cli.main import main as flyrun
from flyrun.ground import environment
from flyrun.ground.exit_codes import DONE, UNTRUSTED
from flyrun.ground.page.render import View, markdown, number
from tools.pairs.reference import BY_LIKELIHOOD, CHAINS, DRAWS, stored
from tools.pairs.tables import PAIRS, Pair
from tools.results.published import MEASURED, keep, read_kept

OFF, RATIO = 0.1, 0.05  # sds that a mean may be off by; how far an sd's ratio may be from 1
_CLOSED, _WEIGHTS, _CHAINS = "closed form", "weights", "chains"
_FIGURES = {
    "k_hat": "k̂",
    "effective": "effective draws",
    "seconds": "CPU s",
    "off": "mean off",
    "sd_ratio": "sd ratio",
    "reference_ess": "reference's ESS",
}


class Fit(NamedTuple):
    """What a fit said. mean, sd: by term, of a class as `class:term`; ess: the least of a term."""

    how: str
    chains: int
    agreed: bool
    mean: dict[str, float]
    sd: dict[str, float]
    ess: float
    seconds: float

    @property
    def way(self) -> str:
        """How it was answered."""
        return _CHAINS if self.chains else _WEIGHTS if "weighted" in self.how else _CLOSED


def fitted(pair: Pair, folder: Path) -> Fit:
    """The command's answer; CPU seconds include the report. Raises SystemExit with what it said."""
    frame = pair.frame()
    path, name = folder / f"{pair.table}.csv", pair.name.replace(" ", "_")
    frame.to_csv(path, index=False)
    said = io.StringIO()
    began = time.process_time()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = flyrun(
            ["fit", str(path), *pair.words(), "--name", name, "--results-dir", str(folder), "--fresh"]
        )
    seconds = time.process_time() - began
    if code not in (DONE, UNTRUSTED):
        raise SystemExit(f"{pair.name}: {said.getvalue()[-2000:]}")
    found = json.loads((folder / "runs" / name / "fit.json").read_text("utf-8"))
    rows = {f"{row['class']}:{row['coefficient']}".lstrip(":"): row for row in found["coefficients"]}
    mean, sd = ({term: float(row[key]) for term, row in rows.items()} for key in ("mean", "sd"))
    ess = min(float(row.get("ess_bulk", row.get("ess", math.nan))) for row in rows.values())
    return Fit(found["how"], found["chains"], found["agreed"], mean, sd, ess, seconds)


def apart(fit: Fit, reference: dict[str, Any]) -> tuple[float, float]:
    """The largest difference of a mean, in the reference's sds, and the sd ratio farthest from 1.

    Raises ValueError where the terms are others.
    """
    if fit.mean.keys() != reference["mean"].keys():
        raise ValueError(f"other terms: {sorted(fit.mean.keys() ^ reference['mean'].keys())}")
    off = max(abs(fit.mean[one] - reference["mean"][one]) / reference["sd"][one] for one in fit.mean)
    ratios = [fit.sd[one] / reference["sd"][one] for one in fit.mean]
    return off, max(ratios, key=lambda one: abs(math.log(one)))


def held(off: float, ratio: float) -> bool:
    """Whether both are within what is asked for."""
    return off <= OFF and abs(ratio - 1.0) <= RATIO


def row_of(table: str, family: str, n: int, fit: Fit, reference: dict[str, Any] | None) -> dict[str, Any]:
    """A row of the page, of a table of n rows."""
    k_hat = re.search(r"k̂ (-?[\d.]+)", fit.how)
    effective = re.search(r"([\d,]+) (?:effective|independent)", fit.how)
    off, ratio = apart(fit, reference) if reference else (math.nan, math.nan)
    return {
        "table": table,
        "family": family,
        "rows": n,
        "parameters": len(fit.mean),
        "way": fit.way,
        "why": fit.how.partition(", because ")[2],
        "k_hat": float(k_hat[1]) if k_hat and fit.way == _WEIGHTS else math.nan,
        "effective": float(effective[1].replace(",", "")) if effective and not fit.chains else fit.ess,
        "agreed": fit.agreed,
        "seconds": fit.seconds,
        "off": off,
        "sd_ratio": ratio,
        "reference_ess": (reference or {}).get("ess", math.nan),
        "reference_rhat": (reference or {}).get("rhat", math.nan),
    }


def page(table: pd.DataFrame) -> str:
    """Markdown: what was done, a row a pair, and which are off or fell back to chains."""
    rows = table.to_dict("records")
    compared = [row for row in rows if not math.isnan(row["off"])]
    off = [row for row in compared if not held(row["off"], row["sd_ratio"])]
    ways = {way: sum(row["way"] == way for row in rows) for way in (_WEIGHTS, _CLOSED, _CHAINS)}
    words = f"""\
{len(rows)} pairs of a table, which scikit-learn or statsmodels has, and a family. `flyrun fit` had its
defaults. By weights: {ways[_WEIGHTS]}; in closed form: {ways[_CLOSED]}; by chains: {ways[_CHAINS]}. The
reference is NumPyro's NUTS under the same priors, {CHAINS} chains of {DRAWS:,} draws, written without flyrun
(tools/pairs/reference.py). "Mean off": the largest difference of a mean, in the reference's sds. "sd ratio":
flyrun's sd by the reference's, the one farthest from 1. Asked for: means within {OFF:g} sd and sds within
{100 * RATIO:g} %. {len(compared) - len(off)} of {len(compared)} compared pairs keep to both. Both sides are
draws: at an ESS of 1,000 chance alone puts a mean off by 0.03 sd and an sd by 2 %. CPU seconds include
reading and the report, not the imports. "Effective draws": of weights (Σw)²/Σw²; of chains the least bulk
ESS. A reference without ESS is statsmodels' maximum likelihood estimate with its standard errors, of
{" and ".join(BY_LIKELIHOOD)}, which is too long for NUTS."""
    told = [f"- Chains: {_named(row)}, because {row['why']}." for row in rows if row["way"] == _CHAINS]
    told += [line_of(row) for row in off]
    if missing := [_named(row) for row in rows if math.isnan(row["off"])]:
        told.append(f"- Not compared: {', '.join(missing)}.")
    return whole("Real tables: `flyrun fit` against NUTS", words, "Pairs", rows, told)


def whole(title: str, words: str, caption: str, rows: list[dict[str, Any]], told: list[str]) -> str:
    """A page: words, a row each, lines about some of them, and where it was made."""
    cells = [
        (
            row["table"],
            row["family"],
            f"{row['rows']:,}",
            str(row["parameters"]),
            row["way"] if row["agreed"] else f"{row['way']}, not agreed",
            *map(_cell, (row[key] for key in _FIGURES)),
        )
        for row in rows
    ]
    header = ("", "family", "rows", "parameters", "answered by", *_FIGURES.values())
    about = environment.describe()
    made = f"{about['cpu']}, {os.cpu_count()} cores, shared with other work; flyrun {about['flyrun']}, commit"
    made += f" {(about.get('commit') or 'unknown')[:10]}; {datetime.now(UTC):%Y-%m-%d}."
    view = markdown(View(caption, header, tuple(cells))).strip()
    return "\n".join([f"# {title}", "", words, "", view, "", *told, "", made, ""])


def line_of(row: dict[str, Any]) -> str:
    """How far a row is off, and how far chance alone may put it."""
    return f"- Off: {_named(row)}, mean {row['off']:.3f} sd, sd ratio {row['sd_ratio']:.3f}. {_chance(row)}"


def _chance(row: dict[str, Any]) -> str:
    """How far from 1 the farthest of a row's sd ratios is by chance alone, in normal posteriors."""
    sds = row["parameters"]
    noise = math.sqrt(0.5 / row["effective"] + 0.5 / row["reference_ess"])
    beyond = NormalDist().inv_cdf(1.0 - 0.05 / (2 * sds)) * noise
    return f"Of {sds} sds at these ESS, one in 20 times the farthest is {100 * beyond:.2g} % off by chance."


def _named(row: dict[str, Any]) -> str:
    return f"{row['table']} {row['family']}"


def _cell(value: float) -> str:
    return "–" if math.isnan(value) else number(value)


def _write(rows: dict[tuple[str, str], dict[str, Any]], out: Path) -> None:
    table = pd.DataFrame([rows[key] for one in PAIRS if (key := (one.table, one.family)) in rows])
    keep(out, table, page)


def main() -> int:
    """Fit, print a line for each, write page and table after each."""
    parser = argparse.ArgumentParser(prog="python -m tools.pairs", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help="tables")
    parser.add_argument("--out", type=Path, default=MEASURED / "fit_pairs")
    asked = parser.parse_args()
    out = asked.out.with_suffix(".csv")
    kept = read_kept(out) if asked.only and out.exists() else pd.DataFrame()
    rows = {(row["table"], row["family"]): row for row in kept.to_dict("records")}
    references = stored()
    with tempfile.TemporaryDirectory() as folder:
        for one in PAIRS:
            if not asked.only or one.table in asked.only:
                fit = fitted(one, Path(folder))
                row = row_of(one.table, one.family, len(one.frame()), fit, references.get(one.name))
                rows[one.table, one.family] = row
                said = f"{row['way']}, {row['effective']:,.0f} effective, {row['seconds']:.1f} s"
                print(f"{one.name}: {said}, off {row['off']:.3f}, sd {row['sd_ratio']:.3f}", flush=True)
                _write(rows, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
