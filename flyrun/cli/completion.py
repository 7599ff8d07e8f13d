"""Tab completion: what Hydra offers, and the verbs, names and keys that it cannot know."""

import contextlib
import io
import os
from collections.abc import Callable

from flyrun.cli.verbs import VERBS
from flyrun.cli.verbs import fit as fit_verb
from flyrun.config import catalogue
from flyrun.config.overrides import JOB_KEYS, dotted, read, to_hydra
from flyrun.config.schema import SCHEMAS
from flyrun.errors import ConfigError
from flyrun.paths import references
from flyrun.runner import store

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
    found = _of_verb(words) if words and words[0] in VERBS else _of_run(words, last, ask_hydra)
    print("\n".join(sorted({one for one in found if one.startswith(last)})))
    return 0


def _of_verb(words: list[str]) -> list[str]:
    verb, place = words[0], len(words)
    if verb == "list" and place == 1:
        return [catalogue.plural(group) for group in catalogue.SHOWN]
    if verb == "info" and place == 1:
        return [name for group in catalogue.SHOWN for name in catalogue.options(group)]
    if verb in ("publish", "compare", "report"):
        return store.runs("results")
    if verb == "table" and place == 1:
        return references()
    if verb == "prove":
        return [name for group in ("sampler", "model", "prior") for name in catalogue.options(group)]
    if verb == "check":
        return ["--update", *catalogue.options("experiment")]
    if verb == "fit":
        return _of_fit(words)
    if verb == "data":
        return ["list", "info", "verify", "build"] if place == 1 else catalogue.options("dataset")
    return []


def _of_fit(words: list[str]) -> list[str]:
    """Flags, and what can follow one; nothing where a file's name can stand: the shell completes these."""
    if (option := words[-1].removeprefix("--")) in fit_verb.CHOICES:
        return list(fit_verb.CHOICES[option])
    if words[-1] in ("--target", "--features", "--drop", "--categorical", "--numeric"):
        return fit_verb.columns(next((word for word in words[1:] if not word.startswith("-")), ""))
    return list(fit_verb.OPTIONS) if len(words) > 1 else []


def _of_run(words: list[str], last: str, ask_hydra: Callable[[], object]) -> list[str]:
    found = [f"{key}=" for key in JOB_KEYS]
    if not words:
        found += VERBS
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
