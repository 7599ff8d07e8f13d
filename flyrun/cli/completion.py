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
    words = line.split()[1:]
    last = "" if line.endswith(" ") or not words else words.pop()
    of_verb = words and words[0] in VERBS
    found = verb(words[0]).offers(words[1:], last) if of_verb else _of_run(words, last, ask_hydra)
    print("\n".join(sorted({one for one in found if one.startswith(last)})))
    return 0


def _of_run(words: list[str], last: str, ask_hydra: Callable[[], object]) -> list[str]:
    found = [f"{key}=" for key in JOB_KEYS]
    if not words:
        found += VERBS
    if last.startswith("-"):
        found += [flag.split()[0] for flag in FLAGS]
    if "." in last:
        found += [f"{key}=" for key in dotted(SCHEMAS)]
    os.environ["COMP_LINE"] = " ".join(["flyrun", *(_for_hydra(word) for word in words), last])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(ConfigError):
        ask_hydra()
    return found + [one for one in printed.getvalue().split() if not one.startswith(_INTERNAL)]


def _for_hydra(word: str) -> str:
    try:
        return to_hydra(read([word], multirun=True)[0])
    except ConfigError:
        return word
