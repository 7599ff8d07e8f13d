"""The commands, one a file, whose `run` does it; what `flyrun VERB --help` prints lies in flyrun/cli/help."""

import importlib
from pathlib import Path

VERBS = (
    "list",
    "info",
    "fit",
    "report",
    "table",
    "publish",
    "compare",
    "check",
    "prove",
    "data",
    "gold",
    "arena",
    "plan",
)


def help_of(verb: str) -> str:
    """A command's help, or that of `flyrun` itself, with places for what there is."""
    return (Path(__file__).parents[1] / "help" / f"{verb}.txt").read_text(encoding="utf-8").rstrip()


def run(verb: str, words: list[str]) -> int:
    """Run a command with the words after its name; its exit code."""
    return importlib.import_module(f"flyrun.cli.verbs.{verb}").run(words)
