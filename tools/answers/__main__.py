"""Seconds from a file to an answer: other packages and `flyrun fit` on the same rows, model by model.

    python -m tools.answers [--models poisson …] [--rows 10000 …] [--limit 60] [--only glum …] [--keep]
        [--out FILE]

Generated rows (tools/answers/tables.py). Each answer is a process of its own, from its start to its end,
imports and files included; the file has been read before (it is in memory), and what compiles once a machine
has compiled, unless its row says otherwise. Logistic regression also from Parquet, at the most rows. Writes
FILE.md and FILE.csv.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flyrun.families.family import family
from flyrun.ground import environment
from flyrun.ground.exit_codes import DONE, UNTRUSTED
from flyrun.ground.page.render import View, known, markdown, number
from tools.answers.tables import COLUMNS, DISPERSION, POWER, TRUTHS, write
from tools.results.published import MEASURED, keep, read_kept

POINT = "scikit_learn"
COLD, FIT, AGAIN = "flyrun fit, nothing compiled", "flyrun fit", "flyrun fit again"
GIVEN = "flyrun fit, power given"  # of Tweedie's alone
OURS = (COLD, FIT, AGAIN, GIVEN)
PAST = "past the limit"


class Tool(NamedTuple):
    """A package. script: of this folder, and what it is told beside file and model; point: no posterior;
    models: which it is asked.
    """

    script: tuple[str, ...]
    gives: str
    prior: str
    point: bool = True
    models: tuple[str, ...] = ("logistic", "poisson", "negative_binomial", "gaussian")


_GENERAL = ("logistic", "poisson", "negative_binomial", "gaussian", "tweedie")
_POINT, _ERRORS, _ITS = "a point estimate", "a point estimate and standard errors", "its defaults"
_TOLD = f"{_ERRORS}; a negative binomial's dispersion, which others estimate, and Tweedie's power are given"
TOOLS = {
    POINT: Tool(
        ("scikit_learn.py",),
        _POINT,
        "of logistic normal(0, 1), its default; of others none",
        models=("logistic", "poisson", "gaussian"),
    ),
    "statsmodels": Tool(
        ("stats_models.py", str(POWER)),
        f"{_ERRORS}; Tweedie's power is given to it",
        "none",
        models=(*_GENERAL, "zero_inflated_poisson"),
    ),
    "glum": Tool(("glum_glm.py", str(POWER), str(DISPERSION)), _TOLD, "none", models=_GENERAL),
    "lifelines": Tool(("life_lines.py",), _ERRORS, "none", models=("weibull",)),
    "bambi": Tool(("bambi_nuts.py", "pymc"), "a posterior, by PyMC's NUTS", _ITS, False),
    "bambi, nutpie": Tool(("bambi_nuts.py", "nutpie"), "a posterior, by nutpie's NUTS", _ITS, False),
}
_PRIORS_OF_OURS = (FIT, "a posterior", f"{_ITS} (docs/your-data.md)")

_ABOUT = f"""\
{COLUMNS} columns. Seconds are those of the whole process, imports and files included, the median of the
repeats, and "CPU s" what all cores spent on it; the file was in memory and what compiles once a machine was
compiled, unless a row says otherwise.
"again": the same file a second time. × is by {POINT}'s seconds in the same run or, where it has no such
model, by those of the fastest point estimate. ESS: the smallest bulk ESS of a coefficient, of weighted draws
their effective number. "Off by": the largest difference of a coefficient from `flyrun fit`'s posterior mean,
in its sds; "sd ratio": the sd or standard error farthest from `flyrun fit`'s sd, divided by it. Each takes
the cores that it takes by default."""


class Answer(NamedTuple):
    """What one process gave: seconds, what it found, and why it found nothing."""

    seconds: float
    found: dict[str, Any] | None
    why: str = ""
    cpu: float = np.nan


def main() -> int:
    """Run all, print a line for each, write the tables after each file."""
    asked = _arguments()
    out, about = asked.out.with_suffix(".csv"), environment.describe()
    commit = (about.get("commit") or "unknown")[:10]
    made = f"{about['cpu']}, {os.cpu_count()} cores; flyrun {about['flyrun']}, commit {commit}; "
    made += f"{datetime.now(UTC):%Y-%m-%d}"
    kept = read_kept(out).fillna({"why": ""}).to_dict("records") if asked.keep else []
    rows: list[dict[str, Any]] = [row for row in kept if row["model"] not in asked.models]
    with tempfile.TemporaryDirectory() as folder:
        for model, n in itertools.product(asked.models, asked.rows):
            for form in ("csv", "parquet") if (model, n) == ("logistic", max(asked.rows)) else ("csv",):
                file = Path(folder) / f"{model}_{n}.{form}"
                write(file, model, n)
                rows += [row | {"made": made} for row in _rows(file, model, n, asked, rows)]
                file.unlink()
                keep(out, pd.DataFrame(rows), lambda table: page(_with_why(table)))
    return 0


def _with_why(table: pd.DataFrame) -> pd.DataFrame:
    """With a text for why what is missing is missing, also where nothing is."""
    return table.astype({"why": object}).fillna({"why": ""})


def page(table: pd.DataFrame) -> str:
    """Markdown: what the columns are, a table a file, what they were made with."""
    told = [(name, one.gives, one.prior) for name, one in TOOLS.items()]
    lines = ["# Seconds from a file to an answer", "", _ABOUT, ""]
    lines += [markdown(View("What they give", ("", "gives", "prior"), (*told, _PRIORS_OF_OURS))).strip(), ""]
    for model, files in table.groupby("model", sort=False):
        lines += [f"## {family(model).words.capitalize()}", ""]
        for (n, form), part in files.groupby(["rows", "format"], sort=False):
            size = number(part["file_mb"].iloc[0])
            lines += _part(f"{n:,} rows, {form} of {size} MB", part.to_dict("records"))
    return "\n".join([*lines, *(f"{made}." for made in table["made"].unique()), ""])


def _part(title: str, rows: list[dict[str, Any]]) -> list[str]:
    """The table of one file, and why what is missing is missing."""
    seconds = {row["tool"]: row["seconds"] for row in rows if not row["why"]}
    points = {tool: seconds[tool] for tool, one in TOOLS.items() if one.point and tool in seconds}
    base = POINT if POINT in points else min(points, key=points.__getitem__, default=POINT)
    cells = []
    for row in rows:
        past = "> " if row["why"] == PAST else ""
        times = [row["seconds"], row["seconds"] / seconds.get(base, np.nan)]
        others = [number(row.get(key, np.nan)) for key in ("ess", "off", "sd_ratio", "cpu_s")]
        cells.append((row["tool"], *(past * known(one) + number(one) for one in times), *others))
    header = ("", "seconds", f"× {base}", "ESS", "off by (sds)", "sd ratio", "CPU s")
    missing = [f"- {row['tool']}: {row['why']}" for row in rows if row["why"] not in ("", PAST)]
    return [markdown(View(title, header, tuple(cells))).strip(), "", *missing, *[""] * bool(missing)]


def _rows(file: Path, model: str, n: int, asked: Any, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    file.read_bytes()  # in memory, for all alike
    # how the rows are kept matters to the quick alone
    tools = [*TOOLS, *OURS] if file.suffix == ".csv" else [POINT, FIT, AGAIN]
    tools = [tool for tool in tools if not asked.only or tool in (*asked.only, *OURS)]
    tools = [tool for tool in tools if tool in OURS or model in TOOLS[tool].models]
    tools = [tool for tool in tools if tool != GIVEN or model == "tweedie"]
    answers: dict[str, list[Answer]] = {tool: [] for tool in tools}
    given_up = {row["tool"] for row in before if row["rows"] == n and row["why"] == PAST}
    for turn in range(asked.repeats):
        for tool, found in answers.items():
            if turn and (tool == COLD or found[0].why or found[0].seconds > asked.limit / 10):
                continue  # dear ones once
            if tool in given_up:
                found.append(Answer(np.nan, None, f"not asked, {PAST} at as many rows above"))
            else:
                spent = _children_s()
                answer = _answer(tool, model, file, asked.limit)
                found.append(answer._replace(cpu=_children_s() - spent))
            print(f"{file.name}: {tool} {found[-1].seconds:.1f} s {found[-1].why}", flush=True)
    held = next((a.found for a in answers.get(FIT, []) if a.found), None)
    return [
        {
            "model": model,
            "rows": n,
            "format": file.suffix[1:],
            "file_mb": file.stat().st_size / 1e6,
            "tool": tool,
            "why": found[0].why,
            "seconds": statistics.median(a.seconds for a in found),
            "fastest": min(a.seconds for a in found),
            "slowest": max(a.seconds for a in found),
            "cpu_s": statistics.median(a.cpu for a in found),
            "ess": (found[0].found or {}).get("ess", np.nan),
            **_apart(found[0].found, held),
        }
        for tool, found in answers.items()
    ]


def _children_s() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _apart(found: dict[str, Any] | None, held: dict[str, Any] | None) -> dict[str, float]:
    """How far means and sds are from those held."""
    if not found or not held:
        return {"off": np.nan, "sd_ratio": np.nan}
    off = np.abs((np.array(found["mean"]) - held["mean"]) / held["sd"]).max()
    ratio = np.array(found.get("sd", np.nan)) / held["sd"]
    return {"off": float(off), "sd_ratio": float(ratio[np.abs(np.log(ratio)).argmax()])}


def _answer(tool: str, model: str, file: Path, limit: float) -> Answer:
    if tool not in TOOLS:
        for sub in {COLD: ("",), AGAIN: ()}.get(tool, ("tables", "setup")):
            shutil.rmtree(file.with_name("cache") / sub, ignore_errors=True)
        return _fit(model, file, limit, ("--prior", f"power: constant({POWER:g})") if tool == GIVEN else ())
    script, *more = TOOLS[tool].script
    out = file.with_name("answer.json")
    out.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).with_name(script)), str(file), str(out), model, *more]
    seconds, why = _timed(command, file, limit)
    return Answer(seconds, None if why else json.loads(out.read_text("utf-8")), why)


def _fit(model: str, file: Path, limit: float, more: tuple[str, ...] = ()) -> Answer:
    folder = file.with_name("fit")
    shutil.rmtree(folder, ignore_errors=True)
    asked = ["--target", "y"]
    if model == "weibull":
        asked = [f"Surv(y, event) ~ {' + '.join(f'x{k}' for k in range(COLUMNS))}"]
    words = ["fit", str(file), *asked, "--model", model, "--results-dir", str(folder), "--quiet", *more]
    seconds, why = _timed([sys.executable, "-m", "flyrun", *words], file, limit)
    if why:
        return Answer(seconds, None, why)
    (table,) = folder.rglob("table.csv")
    found = pd.read_csv(table)[: COLUMNS + 1]  # other numbers of the model are last
    ess = found.get("ess_bulk", found["ess"]).fillna(found["ess"])  # of chains, of weighted draws
    return Answer(seconds, {"mean": [*found["mean"]], "sd": [*found["sd"]], "ess": float(ess.min())})


def _timed(command: list[str], file: Path, limit: float) -> tuple[float, str]:
    """Seconds of a process, ended at the limit with those it started; why it gave nothing."""
    environ = {**os.environ, "FLYRUN_CACHE": str(file.with_name("cache"))}
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=environ, start_new_session=True, stdout=subprocess.DEVNULL, stderr=said
        )
        end = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        end.start()
        code, seconds = process.wait(), time.perf_counter() - began
        end.cancel()
        if code == -signal.SIGKILL:
            return limit, PAST
        if code not in (DONE, UNTRUSTED):  # chains that do not agree yet are slow, and so reported
            said.seek(0)
            last = (said.read().decode(errors="replace").strip() or "no word").splitlines()[-1]
            return np.nan, f"failed ({code}): {last}"
    return seconds, ""


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tools.answers", description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=TRUTHS, default=[*TRUTHS])
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 10_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which an answer is given up")
    parser.add_argument("--only", nargs="+", choices=TOOLS, help="these packages")
    parser.add_argument("--keep", action="store_true", help="other models' rows of FILE")
    parser.add_argument("--out", type=Path, default=MEASURED / "answers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
