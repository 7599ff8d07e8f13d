"""What a fit with groups takes: CPU seconds of its draws and effects, beside what is asked for.

    python -m tools.groups [--only NAME,…] [--out FILE]

Each case is a generated table that `flyrun fit` reads from a Parquet file. Writes <out>.csv, whose other rows
--only keeps, and <out>.md. Takes some four minutes.
"""

import argparse
import contextlib
import io
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

from flyrun.cli.main import main as flyrun
from flyrun.families.family import family
from flyrun.fitting import engine
from flyrun.ground import environment
from flyrun.ground.exit_codes import DONE
from flyrun.ground.page.render import View, markdown, number
from tools.results.published import MEASURED, keep, read_kept

COLUMNS = 3
_FIRST = 20_000  # rows of a fit that compiles what the others then find on disk


class Case(NamedTuple):
    """A table. asked: CPU seconds, at most, of mode and draws."""

    name: str
    family: str
    rows: int
    groups: int
    asked: float
    slope: bool = False

    @property
    def formula(self) -> str:
        """With an intercept a group, or a slope too."""
        terms = " + ".join(f"x{k}" for k in range(COLUMNS))
        return f"y ~ {terms} + ({'1 + x0' if self.slope else '1'} | g)"

    def frame(self) -> pd.DataFrame:
        """Standard normal columns; effects of sd 0.8 and slopes' of 0.5, independent."""
        rng = np.random.default_rng([self.rows, self.groups])
        code = rng.integers(0, self.groups, self.rows)
        x = rng.standard_normal((self.rows, COLUMNS))
        b = rng.normal(0.0, [0.8, 0.5 * self.slope], (self.groups, 2))
        eta = x @ [0.5, -0.3, 0.2] - 0.3 + b[code, 0] + b[code, 1] * x[:, 0]
        p = [eta, np.zeros(1)] if self.family in ("gaussian", "negative_binomial") else [eta]
        y = family(self.family).draw(rng, 1, p)
        return pd.DataFrame({f"x{k}": one for k, one in enumerate(x.T)} | {"g": code, "y": y})


CASES = (
    Case("normal", "gaussian", 100_000, 1_000, 1.0),
    Case("poisson", "poisson", 100_000, 1_000, 10.0),
    Case("logistic", "logistic", 100_000, 1_000, 10.0),
    Case("logistic with slopes", "logistic", 100_000, 1_000, 60.0, True),
    Case("poisson with slopes", "poisson", 100_000, 1_000, 60.0, True),
    Case("normal of many groups", "gaussian", 1_000_000, 100_000, 60.0),
    Case("logistic of many groups", "logistic", 1_000_000, 100_000, 60.0),
)


def measured(case: Case, folder: Path) -> dict[str, Any]:
    """A row of the table. Raises SystemExit with what the command said where it did not end well."""
    path, spent = folder / "t.parquet", dict[str, float]()
    case.frame().to_parquet(path, index=False)

    def timed(name: str, of: Callable) -> Callable:
        def run(*words: Any) -> Any:
            began = time.process_time()
            found = of(*words)
            spent[name] = time.process_time() - began
            return found

        return run

    said, words = io.StringIO(), ["--model", case.family, "--results-dir", str(folder), "--fresh", "--quiet"]
    both = [(name, timed(name, getattr(engine, name))) for name in ("draw_groups", "_by_groups")]
    with contextlib.ExitStack() as stack:
        for name, of in both:
            stack.enter_context(patch.object(engine, name, of))
        stack.enter_context(contextlib.redirect_stderr(said))
        stack.enter_context(contextlib.redirect_stdout(said))
        began = time.monotonic()
        code = flyrun(["fit", str(path), case.formula, *words])
    if code != DONE:
        raise SystemExit(f"{case.name}: {said.getvalue()[-2000:]}")
    fit = json.loads((folder / "runs/t/fit.json").read_text("utf-8"))
    how = fit["how"]
    draws, effective = _draws_of(how)
    error = re.search(r"to ([\d.e-]+) nats", how)
    return {
        "case": case.name,
        "rows": case.rows,
        "groups": case.groups,
        "asked": case.asked,
        "draws_s": spent["draw_groups"],
        "effects_s": spent["_by_groups"] - spent["draw_groups"],
        "wall": time.monotonic() - began,
        "draws": draws,
        "effective": effective,
        "nodes": fit["groups"][0]["nodes"][0] ** (1 + case.slope) if error else 0,
        "error": float(error[1]) if error else 0.0,
        "peak_megabytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "commit": (environment.describe().get("commit") or "unknown")[:10],
    }


def _draws_of(how: str) -> tuple[int, int]:
    """Draws and effective draws that a fit tells of; independent ones are both."""
    if found := re.match(r"([\d,]+) weighted draws, ([\d,]+) effective", how):
        one, two = found.groups()
    else:
        one = two = how.partition(" independent")[0]
    return int(one.replace(",", "")), int(two.replace(",", ""))


def page(table: pd.DataFrame) -> str:
    """Markdown: what was measured, a row a case."""
    header = ("", "rows", "groups", "CPU s, draws", "goal", "CPU s, effects", "seconds")
    header += ("draws", "effective", "nodes", "error in nats", "MB", "commit")
    cells = [
        (
            row.case,
            f"{row.rows:,}",
            f"{row.groups:,}",
            number(row.draws_s),
            f"≤ {row.asked:g}",
            *map(number, (row.effects_s, row.wall)),
            f"{row.draws:,}",
            f"{row.effective:,}",
            str(row.nodes or "closed form"),
            number(row.error) if row.nodes else "–",
            f"{row.peak_megabytes:,.0f}",
            row.commit,
        )
        for row in table.itertuples()
    ]
    about = environment.describe()
    words = f"""\
`flyrun fit` of generated tables, {COLUMNS} normal columns and an intercept a group, or a slope of one column
too. "CPU s, draws": of the mode and weighted draws, effects integrated out, on all cores; "goal": set before
any was built; "effects": of those drawn afterwards; "seconds": of the whole command, file to report, in a
process that has compiled. "Nodes": of a group's quadrature; "error": by how much it differs from draw to
draw. "MB": the most that the process had held by then, cases before it included."""
    made = f"{about['cpu']}, {os.cpu_count()} cores; flyrun {about['flyrun']}; {datetime.now(UTC):%Y-%m-%d}."
    return "\n".join(["# Fits with groups", "", words, "", markdown(View("Groups", header, cells)), made, ""])


def main() -> int:
    """Measure each case, print a line of it, write table and page after each."""
    parser = argparse.ArgumentParser(prog="python -m tools.groups", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=lambda text: [one.strip() for one in text.split(",")])
    parser.add_argument("--out", type=Path, default=MEASURED / "groups")
    asked = parser.parse_args()
    cases = [one for one in CASES if not asked.only or one.name in asked.only]
    if not cases:
        parser.error(f"--only: name some of {', '.join(one.name for one in CASES)}")
    out, order = asked.out.with_suffix(".csv"), [one.name for one in CASES]
    table = read_kept(out) if out.exists() else pd.DataFrame()
    with tempfile.TemporaryDirectory() as folder:
        for one in {(case.family, case.slope): case for case in cases}.values():
            measured(one._replace(rows=_FIRST, groups=200), Path(folder))
        for case in cases:
            row = measured(case, Path(folder))
            print(f"{case.name}: {row['draws_s']:.1f} CPU s of draws, the goal is {case.asked:g}", flush=True)
            table = pd.concat([table, pd.DataFrame([row])]).drop_duplicates("case", keep="last")
            table = table.sort_values("case", key=lambda names: names.map(order.index))
            keep(out, table, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
