"""Words that hold several values: under -m each value is run once, else the word that was meant is said."""

import itertools
from typing import Any

from hydra.core.override_parser.types import Glob, IntervalSweep, Override, Transformer

from flyrun.experiments.config.arm import GROUPS
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS, quoted, show, typed_fields

_MOST_VALUES = 10_000


def several(parsed: Override, multirun: bool, names: bool) -> str:
    """The word of several values, none of them twice: 1, 1.0 and 1e0 are one, but as names.

    Raises ConfigError naming a word that works, where these values are none that jobs can have.
    """
    text, given = str(parsed.input_line).lstrip("+"), parsed._value
    word, key = text.partition("=")[0], parsed.key_or_group
    if isinstance(given, IntervalSweep):
        ends = f"{word}={show(given.start)},{show(given.end)}"
        raise ConfigError(f"{text}: an interval is no list of values; write those to run, as in -m {ends}")
    if isinstance(given, Glob):
        if key not in GROUPS or not multirun:
            raise ConfigError(
                f"{text}: stands for a group's options, as in -m 'prior=glob(*)'; write the values"
            )
        return text
    values = list(itertools.islice(parsed.sweep_iterator(), _MOST_VALUES + 1))
    if not 0 < len(values) <= _MOST_VALUES:
        many = f"more than {_MOST_VALUES:,} values" if values else "no value"
        raise ConfigError(f"{text}: holds {many}; write those to run, as in -m {word}=A,B")
    shown: dict[Any, str] = {}
    for value in values:
        shown.setdefault(_sameness(value), str(Transformer.str(value)))
    if not multirun:
        a_list = f"write a list as {quoted(f'{word}=[' + ','.join(shown.values()) + ']')}, or "
        raise ConfigError(
            f"{text}: holds several values; {a_list if _takes_a_list(key) else ''}add -m to run them in turn"
        )
    return text if names or len(shown) == len(values) else f"{word}={','.join(shown.values())}"


def refuse_words_of_hydra(parsed: Override) -> None:
    """Raise ConfigError for Hydra's keys that would do nothing here, naming the word that does."""
    text, key = str(parsed.input_line), parsed.key_or_group
    value = text.partition("=")[2]
    if key == "hydra.run.dir":
        raise ConfigError(f"{text}: results go elsewhere; write {quoted(f'results_dir={value}')}")
    if key.partition("=")[0].startswith("hydra.sweeper.params"):
        name, given = key.removeprefix("hydra.sweeper.params").lstrip("."), parsed._value
        params = {name: value} if name else given if isinstance(given, dict) else {}
        plain = {str(name).lstrip("+"): Override._convert_value(value) for name, value in params.items()}
        meant = " ".join(quoted(f"{name}={value}") for name, value in plain.items()) or "KEY=A,B"
        raise ConfigError(f"{text}: what is swept stands among the words; write -m {meant}")


def _takes_a_list(key: str) -> bool:
    """Whether some option's key of this name does."""
    group, _, name = ".".join(key.split(".")[2:] if key.startswith("arms.") else [key]).partition(".")
    fields = (field for cls in SCHEMAS.get(group, {}).values() for field in typed_fields(cls))
    return key == "only" or any(name == field and "tuple" in str(kind) for field, kind, _ in fields)


def _sameness(value: object) -> Any:
    """Equal for values that are one and the same to a key; true is not 1."""
    if isinstance(value, list):
        return tuple(map(_sameness, value))
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if number else (type(value).__name__, str(value))
