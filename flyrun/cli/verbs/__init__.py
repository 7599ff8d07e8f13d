"""The commands, one a file: its docstring is what `flyrun VERB --help` prints, `run` what it does."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

VERBS = ("list", "info", "fit", "report", "table", "publish", "compare", "check", "data")


def help_of(verb: str) -> str:
    """A command's help, without importing what the command needs."""
    source = (Path(__file__).parent / f"{verb}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def run(verb: str, words: list[str]) -> int:
    """Run a command with the words after its name; its exit code."""
    return importlib.import_module(f"flyrun.cli.verbs.{verb}").run(words)
