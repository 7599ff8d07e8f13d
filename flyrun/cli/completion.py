"""Tab completion: what Hydra offers, what the verbs declare, and names and keys that Hydra cannot know."""

import contextlib
import io
import os
from collections.abc import Callable

from flyrun.cli.overview import FLAGS
from flyrun.cli.verbs import VERBS, verb
from flyrun.experiments.config.overrides import JOB_KEYS, dotted, read, to_hydra
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS

#: what an experiment's file says of itself, and how arms stand in it: nothing to type
_FACTS = ("title=", "paper=", "description=", "expected_time=", "reference=", "check=")
_INTERNAL = (*_FACTS, "arms", "per_arm.", "sweep")


def complete(ask_hydra: Callable[[], object]) -> int:
    """Answer a shell's request (COMP_LINE), or let Hydra print the script to install."""
    line = os.environ.get("COMP_LINE")
    if line is None:
        try:
            ask_hydra()
        except KeyError:
            what = "-sc query=…: is for a shell, which tells its line; see `flyrun --help`"
            raise ConfigError(what) from None
        return 0
    typed = line.split()[1:]
    last = "" if line.endswith(" ") or not typed else typed.pop()
    of_verb = typed and typed[0] in VERBS
    offers = verb(typed[0]).offers(typed[1:], last) if of_verb else _of_run(typed, last, ask_hydra)
    print("\n".join(sorted({offer for offer in offers if offer.startswith(last)})))
    return 0


def _of_run(typed: list[str], last: str, ask_hydra: Callable[[], object]) -> list[str]:
    offers = [f"{key}=" for key in JOB_KEYS]
    if not typed:
        offers += VERBS
    if last.startswith("-"):
        offers += [flag.split()[0] for flag in FLAGS]
    if "." in last:
        offers += [f"{key}=" for key in dotted(SCHEMAS)]
    os.environ["COMP_LINE"] = " ".join(["flyrun", *(_for_hydra(word) for word in typed), last])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(ConfigError):
        ask_hydra()
    return offers + [word for word in printed.getvalue().split() if not word.startswith(_INTERNAL)]


def _for_hydra(word: str) -> str:
    try:
        return to_hydra(read([word], multirun=True)[0])
    except ConfigError:
        return word
