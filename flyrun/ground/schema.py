"""What all configuration choices share: a group, checked types and ranges, errors of one line."""

import difflib
import importlib
import inspect
import math
import re
import shlex
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, TypeVar, dataclass_transform

from flyrun.ground.errors import ConfigError

#: group -> option name -> dataclass. Filled by `option`; "*" stands for any name (protocols).
SCHEMAS: dict[str, dict[str, type["Choice"]]] = {}

C = TypeVar("C", bound="Choice")
_hints: Callable[[Any], dict[str, Any]] = cache(typing.get_type_hints)


@dataclass(frozen=True)
class Range:
    """Where a number, or each of a tuple, must lie; `above` excludes its end, the others include it."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    at_least_one: bool = False  # of a tuple's numbers: it may not be empty

    def holds(self, value: object) -> bool:
        """Whether a value, or each of a tuple, lies inside; what is no number does."""
        each = value if isinstance(value, tuple) else (value,)
        return bool(each or not self.at_least_one) and all(
            (self.above is None or one > self.above)
            and (self.at_least is None or one >= self.at_least)
            and (self.at_most is None or one <= self.at_most)
            for one in each
            if isinstance(one, (int, float))
        )

    def __str__(self) -> str:
        """Say it in words: in (0, 1]; at least 1."""
        word, low = ("at least", self.at_least) if self.above is None else ("above", self.above)
        if low is None:
            return f"at most {self.at_most:g}"
        bracket = "[" if self.above is None else "("
        return f"{word} {low:g}" if self.at_most is None else f"in {bracket}{low:g}, {self.at_most:g}]"


def setting(default: Any, doc: str = "", *, shared: bool = False, **ends: Any) -> Any:
    """Declare a dataclass field: its default, what it is, and the Range(**ends) that its numbers must lie in.

    shared: many options have it alike, so that no option's file says it.
    """
    limits = Range(**ends) if ends else None
    return field(default=default, metadata={"doc": doc, "shared": shared, "range": limits})


def part(section: type["Section"], doc: str) -> Any:
    """Declare a dataclass field that is itself a section: its keys are group.field.key."""
    return field(default_factory=section, metadata={"doc": doc, "shared": False})


_MOST_INT = 2**64
#: of a scale: its square, and that square's inverse, stay numbers
SCALE: dict[str, Any] = {"at_least": 1e-100, "at_most": 1e100}
#: of degrees of freedom: wider than Cauchy's no t is of use; beyond its normaliser is rounding
FREEDOM: dict[str, Any] = {"at_least": 1, "at_most": 1e6}


@dataclass(frozen=True)
class Section:
    """Settings that belong together. Checks its own fields when made, so that no invalid one can exist.

    A field may be a Section itself: its keys are group.field.key. Raises ConfigError naming group.key, the
    value and what it must be.
    """

    group: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Convert and check every field."""
        hints = _hints(type(self))
        for item in fields(self):
            given = getattr(self, item.name)
            limits = item.metadata.get("range")
            try:
                value = convert(given, hints[item.name])
                if limits and not limits.holds(value):
                    raise ValueError
            except ValueError:
                expected = describe(hints[item.name], limits)
                example = "" if item.default is None else f", such as {show(item.default)}"
                number = isinstance(given, (int, float)) and abs(given) >= _MOST_INT
                size = f", below {_MOST_INT:.3g} in size" if number else ""
                raise ConfigError(
                    f"{self.group}.{item.name}={show(given)}: must be {expected}{size}{example}"
                ) from None
            object.__setattr__(self, item.name, value)
        self.check()

    def check(self) -> None:
        """Raise ConfigError where fields that are right one by one are wrong together."""

    def settings(self) -> dict[str, Any]:
        """Return the fields as a plain dict that JSON can hold (tuples become lists)."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}


def _plain(value: object) -> Any:
    if isinstance(value, Section):
        return value.settings()
    return list(value) if isinstance(value, tuple) else value


#: imports the module of an option's code; where other packages bring options, theirs too (config/plugins)
importer: Callable[[str], types.ModuleType] = importlib.import_module


@dataclass(frozen=True)
class Choice(Section):
    """Base of all options of a group."""

    #: overrides filling in groups that nobody chose, e.g. a bound suggests the brightness that goes with it
    suggests: ClassVar[tuple[str, ...]] = ()
    #: package of the option's code, which is the file <name>.py in it; "" where it has none
    home: ClassVar[str] = ""
    #: the module of the option's code where that is another; in another package by default the class's own
    kernel: ClassVar[str] = ""
    #: authors and year of the works it is from, as in "Neal 2003; Roberts et al. 1997", or their BibTeX
    paper: ClassVar[str] = ""
    #: whether a method is the same without this choice, so that random numbers are not keyed by it
    neutral: ClassVar[bool] = False
    #: whether it says that the group is not made use of, so that it may stand where nobody needs the group
    idle: ClassVar[bool] = False
    name: str = ""

    @property
    def exact(self) -> bool:
        """Whether its author holds that what it makes follows the posterior, as it is set: another package's
        sampler, likelihood or prior. Tables say so once `flyrun prove` has passed.
        """
        return False

    @property
    def free(self) -> tuple[str, ...]:
        """Fields that leave a seed's draws as they are, so that they do not belong in a cell's key."""
        return ()

    def key_settings(self) -> dict[str, Any]:
        """`settings()` without those that leave a seed's draws as they are."""
        return {key: value for key, value in self.settings().items() if key not in self.free}

    @property
    def path_of_code(self) -> str:
        """Dotted name of the module that holds the option's code."""
        elsewhere = type(self).__module__.partition(".")[0] != __package__.partition(".")[0]
        return self.kernel or (type(self).__module__ if elsewhere else f"{self.home}.{self.name}")

    @property
    def code(self) -> types.ModuleType:
        """The module that holds the option's code. ConfigError where it is missing."""
        path = self.path_of_code
        try:
            return importer(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
            raise ConfigError(f"{self.group}={self.name}: its code, {path}, is missing; restore it") from None

    def unfit(self, arm: Any) -> str:
        """Why this choice does not go with the arm's others, and what to choose; "" where it does."""
        return ""

    def non_default(self) -> dict[str, Any]:
        """The name, and those settings but a file's place that are not as they are by default."""
        usual = self.defaults()
        given = {key: value for key, value in self.settings().items() if key not in ("name", "path")}
        return {"name": self.name} | {key: value for key, value in given.items() if value != usual[key]}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """What the settings are by default, as `settings` gives them."""
        made = {
            item.name: item.default_factory for item in fields(cls) if item.default_factory is not MISSING
        }
        return {
            item.name: _plain(made[item.name]() if item.name in made else item.default)
            for item in fields(cls)
        }


@dataclass_transform(frozen_default=True)
def option(group: str, name: str) -> Callable[[type[C]], type[C]]:
    """Class decorator: makes a frozen dataclass, the schema of `group`=`name` ("*": of any other name)."""

    def register(cls: type[C]) -> type[C]:
        if name != "*":
            cls.__annotations__ = {"name": str} | inspect.get_annotations(cls)
            cls.name = name
        cls.group = group
        made = dataclass(frozen=True)(cls)
        SCHEMAS.setdefault(group, {})[name] = made
        return made

    return register


def chosen_by(group: str, holds: Callable[[type[Choice]], bool]) -> str:
    """Names of the options of a group for which this holds, for a sentence."""
    return listing(name for name, cls in SCHEMAS[group].items() if holds(cls))


def typed_choices(group: str, holds: Callable[[type[Choice]], bool]) -> str:
    """The same as a person types them, one of which is to be chosen."""
    return listing((f"{group}={name}" for name, cls in SCHEMAS[group].items() if holds(cls)), "or")


def neutral(group: str) -> Choice | None:
    """The choice that a method is the same with as without, where the group has one."""
    return next((cls() for cls in SCHEMAS[group].values() if cls.neutral), None)


def schema(group: str, name: object) -> type[Choice]:
    """Return the dataclass for an option. Raises ConfigError listing the known ones."""
    known = SCHEMAS[group]
    cls = known.get(name, known.get("*")) if isinstance(name, str) and name else None
    if cls is None:
        raise ConfigError(f"{group}.name={show(name)}: no such {group}; choose from {listing(known)}")
    return cls


def keys(cls: type[Section]) -> list[str]:
    """Names of the fields of a schema, those of a section within it as section.field."""
    return [key for key, _, _ in typed_fields(cls)]


def typed_fields(cls: type[Section]) -> Iterator[tuple[str, Any, Field]]:
    """(key, type, field) of every field of a schema, those of a section within it as section.field."""
    for item in fields(cls):
        hint = _hints(cls)[item.name]
        if _is_section(hint):
            yield from ((f"{item.name}.{key}", kind, inner) for key, kind, inner in typed_fields(hint))
        else:
            yield item.name, hint, item


def flat(values: Mapping) -> dict[str, Any]:
    """{"a": 1, "b": {"c": 2}} as {"a": 1, "b.c": 2}."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        inner = flat(value) if isinstance(value, Mapping) else None
        found |= {str(key): value} if inner is None else {f"{key}.{name}": inner[name] for name in inner}
    return found


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)


def build(group: str, values: object) -> Choice:
    """Make the checked choice of `group` from a mapping with `name` and settings.

    Raises ConfigError for an unknown option, an unknown key or an unsuitable value.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{group}={show(values)}: must name one option; see `flyrun list {group}`")
    cls = schema(group, values.get("name"))
    for key in flat(values):
        if key not in keys(cls):
            raise ConfigError(
                f"{group}.{key}: no such key in {group}={values['name']}; its keys are {listing(keys(cls))}"
                f"{did_you_mean(str(key), keys(cls))}"
            )
    return cls(**values)


def convert(value: Any, hint: Any) -> Any:
    """Return `value` as the type that `hint` asks for (1e4 passes for an int, a list for a tuple).

    Raises ValueError where it does not fit; text is never read as a number, true is not 1, NaN is no number.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if _is_section(hint):
        return value if isinstance(value, hint) else hint(**value)
    if origin in (typing.Union, types.UnionType):
        for one in inner:
            try:
                return convert(value, one)
            except ValueError:
                continue
        raise ValueError
    if origin is typing.Literal:
        if isinstance(value, str) and value in inner:
            return value
        raise ValueError
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(each) != len(value):
            raise ValueError
        return tuple(convert(one, kind) for one, kind in zip(value, each, strict=True))
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if hint is float and number:
        return float(value)
    if hint is int and number and value == int(value) and abs(value) < _MOST_INT:
        return int(value)
    if hint in (bool, str, type(None)) and type(value) is hint:
        return value
    raise ValueError


def describe(hint: Any, limits: Range | None = None) -> str:
    """Say in words what a field takes: "a number in (0, 1]", "a whole number at least 1 or null"."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(one, limits) for one in inner)
    if origin is typing.Literal:
        return listing(inner, "or")
    where = f" {limits}" if limits else ""
    if origin is tuple:
        count = "" if inner[-1] is Ellipsis else f"{len(inner)} "
        kind = "whole numbers" if inner[0] is int else "numbers" if inner[0] is float else "words"
        least = ", one at least" if limits and limits.at_least_one else ""
        return f"a list of {count}{kind}{where}{least}"
    if hint in (int, float):
        return ("a whole number" if hint is int else "a finite number") + where
    return {bool: "true or false", str: "text", type(None): "null"}[hint]


def show(value: object) -> str:
    """Write a value as it is typed on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(show(one) for one in value) + "]"
    return " ".join(str(value).split())


def quoted(word: str) -> str:
    """Write a word as a shell takes it, zsh too, for which brackets are patterns."""
    if re.fullmatch(r"[\w@%+=:,./-]+", word):
        return word
    return shlex.quote(word) if set(word) & set('"$`\\!') else f'"{word}"'


def listing(names: Iterable[Any], last: str = "and") -> str:
    """Join names for a sentence: a, b and c."""
    words = [str(name) for name in names if name != "*"]
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean X?)" for the closest known name, or nothing."""
    close = closest(word, known)
    return f" (did you mean {close}?)" if close is not None else ""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name most like a word: the same but for case, the shortest that it begins, or the closest."""
    known = sorted(set(known))
    same = [name for name in known if name.strip().casefold() == word.strip().casefold()]
    longer = [name for name in known if len(word) > 2 and name.startswith(word)]
    close = sorted(longer, key=len) or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return next(iter([*same, *close]), None)
