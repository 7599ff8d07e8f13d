"""One scan of tables of more and more rows, and what peers take for a point of the same files.

    python -m tools.billion [--rows N,…] [--columns D] [--groups-again K] [--checksums] [--folder FOLDER]

Shards are generated into a temporary folder (4·D + 1 bytes a row) unless FOLDER is given, where they stay.
--groups-again K links each file under K names, whose row groups then are read K times: a table K times as
long. Writes <out>.csv, whose other rows it keeps, and <out>.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from flyrun.ground import environment
from flyrun.ground.page.render import View, markdown, number
from tools.billion import peers, shards
from tools.results.published import MEASURED, keep, read_kept

_KEY = ["rows", "columns", "tool"]
_ROUNDED = 10**9  # rows from where on rounding counts


class Ran(NamedTuple):
    """A command that ended well. peak: bytes of the largest process."""

    seconds: float
    wall: float
    peak: int


def run(words: list[str]) -> Ran:
    """Run a command; its CPU seconds are those of all its processes. Raises SystemExit with what it said."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            said.seek(0)
            raise SystemExit(f"{' '.join(words)}: {said.read()[-2000:]}")
    return Ran(used.ru_utime + used.ru_stime, time.monotonic() - began, 1024 * used.ru_maxrss)


def fitted(folder: Path, results: Path, dask: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The command's row of the table, and its fit.json."""
    words = [sys.executable, "-m", "flyrun", "fit", str(folder), "--target", shards.TARGET, "--fresh"]
    words += ["--results-dir", str(results), *(["executor=dask"] if dask else [])]
    ran = run(words)
    fit = json.loads(next(results.glob("runs/*/fit.json")).read_text("utf-8"))
    scan, commit = fit["scan"], (environment.describe().get("commit") or "unknown")[:10]
    row = {
        "rows": scan["rows"],
        "tool": "flyrun fit",
        "gigabytes": scan["bytes"] / 1e9,
        "seconds": ran.seconds,
        "scan_seconds": scan["seconds"],
        "wall": ran.wall,
        "scans": scan["rows_read"] / scan["rows"],
        "moved_megabytes": scan["moved_bytes"] / 1e6,
        "travelled": scan["core"] + scan["drawn"],
        "row_bytes": scan["row_bytes"],
        "effective": scan["effective"],
        "peak_megabytes": ran.peak / 1e6,
        "load": os.getloadavg()[0],
        "counted": commit,
        "timed": commit,
        "timed_scans": scan["rows_read"] / scan["rows"],
    }
    return row, fit


def linked(folder: Path, times: int, to: Path) -> Path:
    """A folder in which every file is there under so many names."""
    if times == 1:
        return folder
    to.mkdir()
    for path in sorted(folder.glob("*.parquet")):
        for k in range(times):
            (to / f"{path.stem}-{k:03}.parquet").symlink_to(path.absolute())
    return to


def page(table: pd.DataFrame) -> str:
    """Markdown: what was done, a row a table and tool, and arithmetic for tables that were not read."""
    scans = table[table["tool"] == "flyrun fit"]
    header = (
        "rows",
        "columns",
        "GB",
        "seconds",
        "CPU s",
        "of looks",
        "ns a row",
        "times read",
        "rows travelled",
    )
    header += ("MB moved", "effective draws", "bytes a draw", "MB a process", "row groups", "checksums")
    header += ("counted", "timed")
    cells = [
        (
            f"{row.rows:,}",
            str(row.columns),
            *map(number, (row.gigabytes, row.wall, row.seconds, row.scan_seconds)),
            f"{1e9 * row.scan_seconds / (row.rows * row.timed_scans):,.0f}",
            f"{row.scans:.2f}",
            f"{row.travelled:,.0f}",
            number(row.moved_megabytes),
            f"{row.effective:,.0f}",
            number(row.row_bytes / row.effective),
            f"{row.peak_megabytes:,.0f}",
            "generated" if row.again == 1 else f"read {row.again} times",
            "yes" if row.checksums else "no",
            row.counted,
            row.timed,
        )
        for row in scans.itertuples()
    ]
    others = [
        (f"{row.rows:,}", str(row.columns), row.tool, number(row.seconds), row.gives, number(row.off))
        for row in table.sort_values(["rows", "columns"], kind="stable").itertuples()
    ]
    about = environment.describe()
    words = """\
Logistic regression of generated normal columns, float32 with snappy; predictors of sd 1.5; 50 row
groups or more, of at most 500,000 rows. "Seconds": from the command's start to its report; "CPU s": of all
its processes. "Of looks": of reading and summing row groups alone.
"MB moved": sums and rows that came to the command. "Bytes a draw": of rows that travelled, an effective
draw. "MB a process": the most that one process held. "Row groups": generated, or those of a shorter table
under several names. "Checksums": whether pages have some, which are then verified. "Counted": the commit
whose counts these are; "timed": whose seconds and MB a process.
On a busy machine counts alone are to be had."""
    beside = """\
"Off": the largest distance of a coefficient from the scan's posterior mean, in posterior sds; the scan's own
is its Monte Carlo error, one by the root of the effective draws. Peers read the same files."""
    made = f"{about['cpu']}, {os.cpu_count()} cores, shared with other work; flyrun {about['flyrun']}, commit"
    return "\n".join(
        [
            "# A billion rows: one scan of Parquet",
            "",
            words,
            "",
            markdown(View("Scans", header, tuple(cells))).strip(),
            "",
            beside,
            "",
            markdown(View("Peers", ("rows", "columns", "", "CPU s", "gives", "off"), tuple(others))).strip(),
            "",
            *arithmetic(scans),
            "",
            f"{made} {(about.get('commit') or 'unknown')[:10]}; {datetime.now(UTC):%Y-%m-%d}.",
            "",
        ]
    )


def arithmetic(scans: pd.DataFrame) -> list[str]:
    """What longer tables take by the measured rates, told as arithmetic. scans: rows of this command."""
    told = []
    for columns, rows, words in (
        (30, 10**11, "10¹¹ rows of 30 columns"),
        (100, 50 * 10**9 // (4 * 100 + 1), "50 GB of 100 columns"),
    ):
        own = scans[scans["columns"] == columns]
        if not len(own):
            continue
        last = own.sort_values("rows").iloc[-1]
        each = last.scan_seconds / (last.rows * last.timed_scans)
        hours = last.timed_scans * rows * each / 3600
        # κ falls as 1/√N, and rows that travel with more than κ; but what float32 rounds off a slope does not
        travelled = last.travelled * (last.rows / rows) ** 0.5
        few = f"at most {travelled:,.2g} rows travel, as they fall with the root of the rows"
        if rows > _ROUNDED:
            few = "rows that travel do not fall further, for they then correct what float32 rounds off slopes"
        size = f"{rows:,} rows, {rows * (4 * columns + 1) / 1e9:,.0f} GB"
        told.append(
            f"- By arithmetic, not measured: {words} are {size}; at {1e9 * each:,.0f} ns a row (of "
            f"{last.rows:,} rows) reading {last.timed_scans:.2f} tables takes {hours:,.2g} core-hours, "
            f"{60 * hours / 64:,.2g} minutes on 64 cores; {few}."
        )
    return told


def measured(rows: int, columns: int, again: int, asked: argparse.Namespace, scratch: Path) -> list[dict]:
    """Rows of the table of one size."""
    folder = asked.folder or scratch / f"{columns}-{rows}"
    if not any(folder.glob("*.parquet")):
        shards.write(folder, rows // again, columns, checksums=asked.checksums)
    whole = linked(folder, again, scratch / f"again-{columns}-{rows}")
    own, fit = fitted(whole, scratch / f"results-{columns}-{rows}", asked.dask)
    known = {one["coefficient"]: (one["mean"], one["sd"]) for one in fit["coefficients"]}
    off = own["effective"] ** -0.5
    found = [own | {"gives": "posterior", "off": off}]
    if not asked.no_peers:
        found += peers.measured(whole, rows, columns, known)
    about = {"columns": columns, "again": again, "checksums": asked.checksums}
    return [about | one for one in found]


def main() -> int:
    """Measure each size, print a line of it, write page and table after each."""
    parser = argparse.ArgumentParser(prog="python -m tools.billion", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=lambda text: [int(float(one)) for one in text.split(",")])
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--groups-again", type=int, default=1)
    parser.add_argument("--checksums", action="store_true", help="of the pages that are generated")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--dask", action="store_true", help="two or more workers on this machine")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--out", type=Path, default=MEASURED / "billion")
    asked = parser.parse_args()
    out = asked.out.with_suffix(".csv")
    table = read_kept(out) if out.exists() else pd.DataFrame()
    with tempfile.TemporaryDirectory() as folder:
        for rows in asked.rows or [10**6, 10**7]:
            found = pd.DataFrame(measured(rows, asked.columns, asked.groups_again, asked, Path(folder)))
            for row in found.itertuples():
                print(f"{rows:,} rows: {row.tool}, {row.seconds:.1f} CPU s, off {row.off:.2g}", flush=True)
            table = pd.concat([table, found]).drop_duplicates(_KEY, keep="last").sort_values(_KEY[:2])
            keep(out, table, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
