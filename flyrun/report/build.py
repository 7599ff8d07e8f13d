"""A run's stored cells -> table.csv, table.json, report.md, report.html and figures/."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyrun.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from flyrun.report.arms import Run


@dataclass(frozen=True)
class ReportResult:
    """What was built. complete: every wanted cell is finished."""

    table: pd.DataFrame
    files: tuple[Path, ...]
    warnings: tuple[str, ...]
    complete: bool


def build(run_dir: Path, console: Console | None = None) -> ReportResult:
    """Write a run's report, and print its tables when a console is given.

    Unfinished, failed and missing cells are marked, never left out. Raises StoreError when there is no run
    in run_dir or the folder cannot be written.
    """
    from flyrun.report import arms, document, figures, html

    run_dir = Path(run_dir)
    run = arms.load(run_dir)
    kind = run.kind
    frame = kind.frame(run)
    warnings = kind.caveats(run)
    tables = kind.views(frame)
    try:
        drawn = figures.draw(run, run_dir / "figures", kind.plots, kind.looks(run))
        further, left_out = figures.draw_further(run, run_dir)
        drawn, warnings = further | drawn, warnings + left_out
        text = document.compose(run, tables, warnings, drawn)
        written = [
            write_text(run_dir / "table.csv", frame.to_csv(index=False)),
            write_text(run_dir / "table.json", _as_json(run, frame, warnings, text.environment)),
            write_text(run_dir / "report.md", document.as_markdown(text)),
            write_text(run_dir / "report.html", html.page(text)),
        ]
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(
            f"{run_dir}: the report cannot be written ({reason}); make room or free it"
        ) from error
    written += [run_dir / "figures" / f"{name}.{kind}" for name in drawn for kind in ("png", "svg")]
    if console is not None:
        _print(console, run_dir, text, warnings)
    complete = all(arm.done == arm.wanted for arm in run.arms)
    return ReportResult(frame, tuple(written), tuple(warnings), complete)


def _as_json(run: Run, frame: pd.DataFrame, warnings: list[str], environment: dict[str, str]) -> str:
    rows = [{key: _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]
    keys = ("name", "experiment", "title", "paper", "reference", "reference_name", "command", "started")
    meta = {
        **{key: run.info.get(key) for key in keys},
        "source": run.source,
        "environment": environment,
        "warnings": warnings,
        "states": {arm.name: {str(seed): state for seed, state in arm.states.items()} for arm in run.arms},
        "messages": {
            arm.name: {str(k): v for k, v in arm.messages.items()} for arm in run.arms if arm.messages
        },
    }
    return json.dumps({"rows": rows, "meta": meta}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """A table's value for JSON, which knows neither NaN nor infinity."""
    import pandas as pd

    if value is None or value is pd.NA:
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value.item() if hasattr(value, "item") else value


def write_text(path: Path, text: str) -> Path:
    """Write a file under a temporary name and rename it; returns its path."""
    from flyrun import files

    files.write(path, lambda file: file.write(text.encode()))
    return path


def _print(console: Console, run_dir: Path, text: Any, warnings: list[str]) -> None:
    from rich.text import Text

    from flyrun.report import render

    console.print(Text(text.title, style="bold"), soft_wrap=True)
    render.print_views(console, text.views)
    for warning in warnings:
        console.print(Text.assemble(("! ", "yellow"), warning), soft_wrap=not console.is_terminal)
    for line in _footer(text.environment):
        console.print(Text(line, style="dim"), soft_wrap=not console.is_terminal)
    console.print(Text(f"report: {run_dir / 'report.html'}"), soft_wrap=True)


def _footer(environment: dict[str, str]) -> list[str]:
    """The environment in two lines: what ran, and on what."""
    versions = [key for key in ("flyrun", "commit", "python", "numpy", "numba") if key in environment]
    machine = [key for key in ("cpu", "cores", "blas", "blas threads") if key in environment]
    short = {**environment, "commit": environment.get("commit", "")[:10]}
    lines = [", ".join(f"{key} {short[key]}" for key in versions)]
    lines.append(
        ", ".join(short[key] if key in ("cpu", "blas") else f"{key} {short[key]}" for key in machine)
    )
    return [line for line in lines if line]
