"""Seconds from a file to an answer: scikit-learn, statsmodels, bambi and `flyrun fit` on the same rows.

    python -m tools.answers [--rows 10000 …] [--formats csv parquet] [--limit 300] [--out FILE]

Logistic regression of generated rows, 20 standard normal columns. Each answer is a process of its own, from
its start to its end, imports and files included; the file has been read before (it is in memory), and what
compiles once a machine has compiled. Writes <out>.md and <out>.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flyrun.exit_codes import DONE, UNTRUSTED
from flyrun.report.render import View, markdown, number
from flyrun.runner import environment

HERE = Path(__file__).parent
COLUMNS = 20
_LOOK_S = 0.2  # between looks at how much memory there is in use
POINT = "scikit_learn"
FIT, AGAIN = "flyrun fit", "flyrun fit again"
SCRIPTS = {POINT: "scikit_learn.py", "statsmodels": "stats_models.py", "bambi": "bambi_default.py"}

_ABOUT = f"""\
Logistic regression with {COLUMNS} columns. scikit_learn gives a point estimate, statsmodels standard errors,
bambi (PyMC's NUTS, four chains of 1,000 draws after 1,000 of tuning) and `flyrun fit` a posterior; each with
its defaults and all cores it takes. Seconds are those of the whole process, imports and files included, the
median of the repeats; the file was in memory and what compiles once a machine was compiled. "again": the same
file a second time. × is by {POINT}'s seconds in the same run. Peak MB: of all its processes together.
ESS: the smallest bulk ESS of a coefficient, of weighted draws their effective number. "Off by": the largest
difference of a coefficient from `flyrun fit`'s posterior mean, in its sds."""


class Answer(NamedTuple):
    """What one process gave: seconds, MB of peak memory, and its file's content; None past the limit."""

    seconds: float
    memory_mb: float
    found: dict[str, Any] | None


def main() -> int:
    """Run all, print a line for each, write the tables."""
    asked = _arguments()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for n in asked.rows:
            for form in asked.formats:
                rows += _rows(_file(Path(folder), n, form), n, asked)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows)
    table.to_csv(asked.out.with_suffix(".csv"), index=False)
    asked.out.with_suffix(".md").write_text(page(table))
    return 0


def page(table: pd.DataFrame) -> str:
    """Markdown: a table a file, what the columns are, what they were made with."""
    lines = ["# Seconds from a file to an answer", "", _ABOUT, ""]
    for (n, form), part in table.groupby(["rows", "format"], sort=False):
        base = part.set_index("tool")["seconds"].get(POINT, np.nan)
        cells = [
            [
                row["tool"],
                number(row["seconds"]) if row["done"] else f"> {number(row['seconds'])}",
                number(row["seconds"] / base) if row["done"] else f"> {number(row['seconds'] / base)}",
                *(number(row[key]) if np.isfinite(row[key]) else "–" for key in ("memory_mb", "ess", "off")),
            ]
            for row in part.to_dict("records")
        ]
        size = number(part["file_mb"].iloc[0])
        header = ["", "seconds", f"× {POINT}", "peak MB", "ESS", "off by (sds)"]
        lines += [markdown(View(f"{n:,} rows, {form} of {size} MB", header, cells)), ""]
    about = environment.describe()
    commit = (about.get("commit") or "unknown")[:10]
    when = f"{datetime.now(UTC):%Y-%m-%d}"
    lines += [
        f"{about['cpu']}, {os.cpu_count()} cores; flyrun {about['flyrun']}, commit {commit}; {when}.",
        "",
    ]
    return "\n".join(lines)


def _rows(file: Path, n: int, asked: Any) -> list[dict[str, Any]]:
    file.read_bytes()  # in memory, for all alike
    _fit(file, file.parent)  # what compiles for so many rows is compiled, and kept from one run to the next
    # how the rows are kept matters to the quick alone
    tools = [*SCRIPTS, FIT, AGAIN] if file.suffix == ".csv" else [POINT, FIT, AGAIN]
    tools = [tool for tool in tools if not asked.only or tool in asked.only]
    answers: dict[str, list[Answer]] = {tool: [] for tool in tools}
    for turn in range(asked.repeats):
        for tool, found in answers.items():
            if turn and (found[0].found is None or found[0].seconds > asked.limit / 10):
                continue  # dear ones once
            found.append(_answer(tool, file, asked.limit))
            print(f"{file.name}: {tool} {found[-1].seconds:.1f} s, {found[-1].memory_mb:.0f} MB", flush=True)
    held = next((a.found for a in answers.get(FIT, []) if a.found), None)
    return [
        {
            "rows": n,
            "format": file.suffix[1:],
            "file_mb": file.stat().st_size / 1e6,
            "tool": tool,
            "done": found[0].found is not None,
            "seconds": statistics.median(a.seconds for a in found),
            "fastest": min(a.seconds for a in found),
            "slowest": max(a.seconds for a in found),
            "memory_mb": max(a.memory_mb for a in found),
            "ess": (found[0].found or {}).get("ess", np.nan),
            "off": _off(found[0].found, held),
        }
        for tool, found in answers.items()
    ]


def _off(found: dict[str, Any] | None, held: dict[str, Any] | None) -> float:
    if not found or not held:
        return np.nan
    return float(np.abs((np.array(found["mean"]) - held["mean"]) / held["sd"]).max())


def _answer(tool: str, file: Path, limit: float) -> Answer:
    if tool == FIT:
        for sub in ("tables", "setup"):
            shutil.rmtree(_cache() / sub, ignore_errors=True)
    if tool in (FIT, AGAIN):
        return _fit(file, file.parent, limit)
    out = file.parent / "answer.json"
    seconds, memory = _timed([sys.executable, str(HERE / SCRIPTS[tool]), str(file), str(out)], limit)
    return Answer(seconds, memory, None if math.isnan(memory) else json.loads(out.read_text()))


def _fit(file: Path, folder: Path, limit: float = 300.0) -> Answer:
    shutil.rmtree(folder / "fit", ignore_errors=True)
    words = ["fit", str(file), "--target", "y", "--results-dir", str(folder / "fit"), "--quiet"]
    seconds, memory = _timed([sys.executable, "-m", "flyrun", *words], limit)
    if math.isnan(memory):
        return Answer(seconds, memory, None)
    (table,) = (folder / "fit").rglob("table.csv")
    found = pd.read_csv(table)
    worth = float(found["ess_bulk"].fillna(found["ess"]).min())  # of chains, of weighted draws
    return Answer(seconds, memory, {"mean": [*found["mean"]], "sd": [*found["sd"]], "ess": worth})


def _timed(command: list[str], limit: float) -> tuple[float, float]:
    """Seconds and peak MB of a process and those it starts; beyond the limit it is ended, MB are nan."""
    environ = {**os.environ, "FLYRUN_CACHE": str(_cache())}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environ, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    peak, looked = 0.0, began
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        seconds = time.perf_counter() - began
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        if seconds > limit:
            os.killpg(process.pid, 9)
            os.wait4(process.pid, 0)
            process.returncode = -9
            return limit, math.nan
        if time.perf_counter() - looked > _LOOK_S:
            peak, looked = max(peak, _memory(process.pid)), time.perf_counter()
        time.sleep(0.01)
    if process.returncode not in (DONE, UNTRUSTED):  # chains that do not agree yet are slow, and so reported
        said = process.stderr.read().decode() if process.stderr else ""
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said[-2000:]}")
    return seconds, max(peak, usage.ru_maxrss / 1024)


def _memory(group: int) -> float:
    """MB that the processes of a group hold together, what they share counted once; 0 without /proc."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                found = re.search(r"^Pss:\s+(\d+)", (folder / "smaps_rollup").read_text(), re.MULTILINE)
                total += int(found[1]) if found else 0
    return total / 1024


def _cache() -> Path:
    return Path(tempfile.gettempdir()) / "flyrun-answers"


def _file(folder: Path, n: int, form: str) -> Path:
    """A file of n generated rows: columns x0, x1, … and y, six digits each."""
    file = folder / f"rows_{n}.{form}"
    rng = np.random.default_rng(n)
    beta = rng.normal(0.0, 0.5, COLUMNS)
    names = [f"x{i}" for i in range(COLUMNS)]
    parts = []
    for begin in range(0, n, 250_000):
        x = rng.standard_normal((min(250_000, n - begin), COLUMNS)).round(6)
        y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ beta))).astype(np.int64)
        part = pd.DataFrame(x, columns=names).assign(y=y)
        if form == "csv":
            part.to_csv(file, index=False, mode="a" if begin else "w", header=not begin)
        else:
            parts.append(part)
    if form == "parquet":
        pd.concat(parts).to_parquet(file, index=False)
    return file


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tools.answers", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--formats", nargs="+", choices=("csv", "parquet"), default=["csv", "parquet"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which an answer is given up"
    )
    parser.add_argument("--only", type=lambda text: text.split(","), help="these tools")
    parser.add_argument("--out", type=Path, default=Path("results/measured/answers"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
