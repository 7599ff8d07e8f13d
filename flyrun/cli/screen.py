"""What a run prints: for a person, next to nothing (--quiet), or events for machines (--json)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from flyrun.cli.messages import print_error
from flyrun.errors import ConfigError
from flyrun.runner.events import Events
from flyrun.runner.progress import summary

FLAGS = ("--quiet", "--json")


def take(words: Sequence[str]) -> tuple[str, list[str]]:
    """Which output is asked for ("quiet", "json" or, for a person, ""), and the other words."""
    asked = {word for word in words if word in FLAGS}
    if len(asked) > 1:
        raise ConfigError("--quiet and --json: do not go together; choose one")
    return (asked.pop()[2:] if asked else ""), [word for word in words if word not in FLAGS]


def screen(output: str) -> Screen:
    """The screen for "", "quiet" or "json"."""
    return {"": Screen, "quiet": Quiet, "json": Json}[output]()


class Screen:
    """For a person: console takes what happens to cells, tables the report's tables; None shows nothing."""

    def __init__(self) -> None:
        self.console: Any = Console(highlight=False)
        self.tables: Any = self.console

    def failures(self, result: Any) -> None:
        """Tell of failed cells and of how to go on, where nobody has."""

    def warn(self, text: str) -> None:
        """Tell what must not be missed, where nobody has."""

    def round(self, **values: Any) -> None:
        """Tell where a fit stands after a round, where nobody has."""

    def table(self, run_dir: Path, **further: Path) -> None:
        """Tell where the table is, and what further files there are, where nobody has."""

    def sweep(self, path: Path) -> None:
        """Tell where the table of a sweep is, where nobody has."""

    def error(self, error: Exception) -> None:
        """Tell of an error that is already on stderr."""

    def ended(self, code: int) -> None:
        """Tell the exit code."""


class Quiet(Screen):
    """Errors on stderr; on stdout, the path of the table."""

    def __init__(self) -> None:
        self.console = self.tables = None

    def failures(self, result: Any) -> None:
        """Tell of failed cells, and of how to go on."""
        for outcome in result.failed:
            print_error(summary(outcome))
        if result.interrupted:
            print_error(f"interrupted; to go on: {result.resume_command}")

    def warn(self, text: str) -> None:
        """Tell it on stderr."""
        print_error(text)

    def table(self, run_dir: Path, **further: Path) -> None:
        """Print the table's path."""
        print(run_dir / "table.csv", flush=True)

    def sweep(self, path: Path) -> None:
        """Print its path."""
        print(path, flush=True)


class Json(Screen):
    """Events on stdout, listed in flyrun/runner/events.py."""

    def __init__(self) -> None:
        self.console, self.tables = Events(sys.stdout), None

    def round(self, **values: Any) -> None:
        """Say where a fit stands."""
        self.console.write("round", **values)

    def table(self, run_dir: Path, **further: Path) -> None:
        """Say where the files are."""
        files = {kind: run_dir / f"table.{kind}" for kind in ("csv", "json")}
        self.console.write("table", **files, html=run_dir / "report.html", **further)

    def sweep(self, path: Path) -> None:
        """Say where it is."""
        self.console.write("sweep", csv=path)

    def error(self, error: Exception) -> None:
        """Say what is wrong."""
        self.console.write("error", text=" ".join(str(error).split()))

    def ended(self, code: int) -> None:
        """Say the exit code."""
        self.console.write("ended", exit_code=code)
