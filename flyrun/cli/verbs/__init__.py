"""The verbs, one a file, which declares it (`VERB`) beside what does it."""

import importlib

from flyrun.cli.verb import Verb

#: in the order of `flyrun --help`
VERBS = (
    *("fit", "predict", "list", "info", "report", "table", "publish", "compare", "cite", "bundle", "run"),
    *("new", "prove", "check", "data", "arena", "plan", "gold", "diagnose"),
)


def verb(name: str) -> Verb:
    """The verb of this name."""
    declared: Verb = importlib.import_module(f"flyrun.cli.verbs.{name}").VERB
    return declared
