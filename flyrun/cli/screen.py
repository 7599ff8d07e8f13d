"""What a run prints: for a person, next to nothing (--quiet), or events for machines (--log json)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flyrun.cli import json_log
from flyrun.cli.messages import print_error
from flyrun.experiments.runner.events import Events
from flyrun.experiments.runner.progress import summary
from flyrun.ground.errors import ConfigError
from flyrun.ground.page import render

FLAGS = ("--quiet", "--log")


def take(words: Sequence[str]) -> tuple[str, list[str]]:
    """Which output is asked for ("quiet", "json" or, for a person, ""), and the other words."""
    others = [word for word in words if word != "--quiet"]
    quiet = len(others) < len(words)
    if quiet and json_log.asked():
        raise ConfigError("--quiet and --log json: do not go together; choose one")
    return "json" if json_log.asked() else "quiet" if quiet else "", others


class Screen:
    """Console takes what happens to cells, tables the report's tables; None shows nothing.

    The methods tell what a console does not: events that only machines read (listed in
    flyrun/experiments/runner/events.py), and what --quiet is to show nevertheless.
    """

    def __init__(self, output: str):
        self.console: Any = None if output == "quiet" else render.screen()
        self.tables = None if output else self.console
        if output == "json":
            self.console = Events(json_log.stream())

    def tell(self, event: str, path: Path | None = None, **values: object) -> None:
        """Write an event for machines; its path is what --quiet prints."""
        if isinstance(self.console, Events):
            self.console.write(event, **values)
        elif self.console is None and path is not None:
            print(path, flush=True)

    def table(self, run_dir: Path, **further: Path) -> None:
        """Tell where the table is, and what further files there are."""
        files = {kind: run_dir / f"table.{kind}" for kind in ("csv", "json")}
        self.tell("table", files["csv"], **files, html=run_dir / "report.html", **further)

    def warn(self, text: str) -> None:
        """Tell on stderr what --quiet must not hide, and machines; others show it themselves."""
        self.tell("warning", text=text)
        if self.console is None:
            print_error(text)

    def failures(self, result: Any) -> None:
        """Tell of cells that failed or were lost and of how to go on, as `warn` does."""
        if self.console is None:
            lines = [*map(summary, result.of("failed", "lost")), result.how_to_go_on]
            for line in filter(None, lines):
                print_error(line)
