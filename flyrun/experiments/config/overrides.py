"""What is typed: key=value words, read with Hydra's grammar, checked, and put into words that Hydra accepts.

Hydra alone would refuse `brightness.q=0.1` next to an experiment (no group is chosen yet) and
`arms.map_tuned.brightness.q=0.1` (an arm is a list). So value overrides are handed to it as `++key=value`,
those for one arm under `per_arm`, and `from_hydra` undoes it inside the job; sweeps and groups stay Hydra's.
"""

import inspect
import itertools
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser import overrides_parser, overrides_visitor
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from flyrun.experiments.config.arm import ARM_GROUPS, GROUPS
from flyrun.experiments.config.sweeps import refuse_words_of_hydra, several
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS, did_you_mean, keys, listing, quoted

#: keys of the whole job; all others start with a group's name
JOB_KEYS = ("name", "only", "results_dir", "fresh")
#: keys whose values are names, even where they look like numbers
_NAMES = ("name", "dataset.path", "dataset.target")
#: keys whose values may hold characters that Hydra wants quoted
_TEXTS = ("results_dir", "name", "dataset.path", "dataset.target", "dataset.decimal")
_PER_ARM = "per_arm."


def _keep_asserts() -> None:
    """Compile Hydra's reader with its assert statements, by which it steps through brackets.

    `python -O` and PYTHONOPTIMIZE leave them out: `range(1,3)` then ends in an AttributeError.
    """
    visitor: Any = overrides_visitor
    exec(compile(inspect.getsource(visitor), visitor.__file__, "exec", optimize=0), vars(visitor))
    vars(overrides_parser)["HydraOverrideVisitor"] = visitor.HydraOverrideVisitor


if sys.flags.optimize:
    _keep_asserts()


@dataclass(frozen=True)
class Entry:
    """One override. key: dotted, without `arms.NAME.`; arm: that NAME or None; text: as typed, without +."""

    key: str
    value: Any
    text: str
    arm: str | None = None
    swept: bool = False

    @property
    def group(self) -> str:
        """First part of the key."""
        return self.key.partition(".")[0]

    @property
    def is_choice(self) -> bool:
        """Whether it chooses a group's option (prior=gaussian) rather than setting a value."""
        return self.key in GROUPS

    @property
    def is_hydra(self) -> bool:
        """Whether it is for Hydra itself (hydra.sweeper.params, hydra/launcher)."""
        return self.key.startswith(("hydra.", "hydra/"))


def read(words: Iterable[str], multirun: bool = False) -> list[Entry]:
    """Parse and check override words. Raises ConfigError naming the word and the remedy.

    multirun: words may hold several values, and of one key the last word counts, as where there is one job.
    """
    parser, words = OverridesParser.create(), list(words)
    entries = [_entry(_parse(parser, words, place, multirun), multirun) for place in range(len(words))]
    last = {(entry.arm, entry.key): entry for entry in entries}
    return [entry for entry in entries if not multirun or last[entry.arm, entry.key] is entry]


def _parse(parser: OverridesParser, words: list[str], place: int, multirun: bool) -> Override:
    word = words[place]
    key, equals, value = word.partition("=")
    if meant := _split_at_blanks(words, place, multirun):
        raise ConfigError(f"{word}: breaks off, as words do at a blank; did you mean {meant}?")
    if not key.strip("+~ ") or (not equals and not word.startswith("~")):
        raise ConfigError(f"{word}: is not of the form key=value; see `flyrun --help`")
    is_text = key.lstrip("+") in _TEXTS
    try:
        parsed = parser.parse_override(word)
        # a file 2024.csv, a column 7: names, not the numbers that Hydra reads
        if key not in _NAMES or not isinstance(parsed._value, (bool, int, float)):
            return parsed
    except HydraException:
        pass
    if is_text and "'" not in value:
        try:  # paths hold characters, ~ and =, that Hydra wants quoted
            return parser.parse_override(f"{key}='{value}'")
        except HydraException:
            pass
    if key.lstrip("+") in GROUPS:
        raise ConfigError(f"{word}: is no option's name; see `flyrun list {key.lstrip('+')}`")
    if re.match(
        r"\+*arms\.(.*\.)?0\d", key
    ):  # an arm's name such as explicit_0.003, of which Hydra reads no key
        raise ConfigError(
            f"{word}: such an arm's name cannot stand in a key; write only=NAME and GROUP.KEY={value} instead"
        )
    raise ConfigError(
        f"{word}: cannot be read as key=value; quote unusual characters for Hydra too, as in {key}=\"'…'\""
    )


def _split_at_blanks(words: list[str], place: int, multirun: bool) -> str:
    """What is meant where a shell has made several words of one, as of only=[a, b] or of name = mine."""
    word, after = words[place], words[place + 1 :]
    key, equals, value = word.partition("=")
    if not equals or not value:
        following = [*after, ""][0]
        rest = "".join(after[:2]) if following == "=" else following
        joined = rest.startswith("=") if not equals else bool(rest) and "=" not in rest
        return f"{word}{rest}" if joined else ""
    parts = [value, *itertools.takewhile(lambda other: "=" not in other, after)]
    is_list = value.startswith("[")
    if key in _TEXTS or not ("]" not in value if is_list else value.endswith(",") and len(parts) > 1):
        return ""
    names = ",".join(filter(None, re.split(r"[][,\s]+", " ".join(parts))))
    return quoted(f"{key}=[{names}]") if is_list or not multirun else f"{key}={names}"


def _entry(parsed: Override, multirun: bool) -> Entry:
    text = str(parsed.input_line)
    key = parsed.key_or_group
    if key.startswith(("hydra.", "hydra/")):
        refuse_words_of_hydra(parsed)
        return Entry(key, parsed.value(), text, swept=parsed.is_sweep_override())
    text = text.lstrip("+")
    if parsed.is_delete():
        raise ConfigError(f"{text}: nothing can be deleted; give the key a value, as in {key}=VALUE")
    if parsed.package is not None:
        raise ConfigError(f"{text}: @packages are not used here; write {key}=VALUE")
    swept = parsed.is_sweep_override()
    if swept:
        text = several(parsed, multirun, key in _NAMES)
    arm = None
    if key.partition(".")[0] == "arms":
        parts = key.split(".")[1:]  # an arm's name may have dots, as in explicit_0.1
        ends = next((i for i, part in enumerate(parts) if i and part in ARM_GROUPS), 1)
        arm, key = ".".join(parts[:ends]), ".".join(parts[ends:])
        if not key:
            raise ConfigError(
                f"{text}: one arm's key is arms.NAME.GROUP.KEY=VALUE, as in arms.map_tuned.brightness.q=0.02"
            )
    entry = Entry(key, parsed.value(), text, arm, swept)
    _check_key(entry)
    return entry


def _check_key(entry: Entry) -> None:
    """Refuse keys that nothing could have, and group choices that are no names."""
    allowed = (*ARM_GROUPS,) if entry.arm is not None else (*GROUPS, *JOB_KEYS)
    head = entry.group
    if head not in allowed or (head in (*JOB_KEYS, "experiment") and entry.key != head):
        if entry.arm is not None and head in (*GROUPS, *JOB_KEYS):
            raise ConfigError(f"{entry.text}: {head} belongs to the whole run; write {entry.key}=VALUE")
        raise ConfigError(f"{entry.key}: no such key{suggest(entry.key, allowed)}; see `flyrun --help`")
    if entry.is_choice and not entry.swept and (not isinstance(entry.value, str) or not entry.value):
        raise ConfigError(f"{entry.text}: must name one option; see `flyrun list {head}`")


def suggest(key: str, allowed: Sequence[str] = (*GROUPS, *JOB_KEYS)) -> str:
    """Return " (did you mean …?)" for the known key closest to an unknown one, or nothing."""
    known = dotted(allowed)
    if key in known:
        return ""
    if same := _of_last_part(key, known):
        return f" (did you mean {listing(same, 'or')}?)"
    return did_you_mean(key, [*known, *allowed])


def known_keys(name: str) -> list[str]:
    """The key of this name, or those whose last part it is."""
    known = dotted(GROUPS)
    return [name] if name in (*GROUPS, *JOB_KEYS, *known) else _of_last_part(name, known)


def dotted(groups: Collection[str]) -> list[str]:
    """All keys of the options of these groups, as group.key."""
    each = ((group, cls) for group, known in SCHEMAS.items() if group in groups for cls in known.values())
    return [f"{group}.{field}" for group, cls in each for field in keys(cls)]


def _of_last_part(key: str, known: Iterable[str]) -> list[str]:
    last = key.rpartition(".")[2]
    return sorted({one for one in known if one.rpartition(".")[2] == last})


def to_hydra(entry: Entry) -> str:
    """Return the word that Hydra accepts for an entry, whatever groups are chosen by then."""
    if entry.is_hydra or (entry.is_choice and entry.arm is None):
        return entry.text
    key, _, value = entry.text.partition("=")
    return f"++{key.replace('arms.', _PER_ARM, 1) if entry.arm is not None else key}={value}"


def from_hydra(words: Iterable[str]) -> list[str]:
    """Undo `to_hydra` on the overrides of one Hydra job, sweeps resolved."""
    plain = (word.lstrip("+") for word in words)
    return ["arms." + word.removeprefix(_PER_ARM) if word.startswith(_PER_ARM) else word for word in plain]


def split(entries: Iterable[Entry]) -> tuple[dict[str, str], list[Entry]]:
    """Part entries into group choices {group: option} (the last one counts) and values in order."""
    entries = list(entries)
    return {e.key: e.value for e in entries if e.is_choice}, [e for e in entries if not e.is_choice]
