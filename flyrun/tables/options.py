"""A table of a person's own."""

import codecs
import re
from typing import Any, ClassVar, Literal

from flyrun.families.options import tasks
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, listing, option, quoted, setting
from flyrun.tables import row_filter
from flyrun.tables.dataset_options import Rows

#: columns that are no features, but say of each row what a likelihood is to know besides
ROLES = (
    "offset",
    "exposure",
    "trials",
    "weights",
    "precision_weights",
    "event",
    "cens",
    "high",
    "entry",
    "most",
)


@option("dataset", "table")
class Table(Rows):
    """A table of your own: a CSV, Parquet or .npz file; categories become 0-1 columns."""

    kernel: ClassVar[str] = "flyrun.tables.loader"
    path: str | None = setting(None, "the file")
    target: str | None = setting(None, "the column to explain")
    log_target: bool = setting(False, "explain the log of the target")
    formula: str | None = setting(
        None, "what explains it, as 'age * C(sex) + bs(dose, df=4)'; null: the features as they are"
    )
    features: tuple[str, ...] | None = setting(None, "the columns that explain it; null: all others")
    drop: tuple[str, ...] = setting((), "columns to leave out")
    categorical: tuple[str, ...] = setting((), "columns of numbers that are names, as postcodes")
    numeric: tuple[str, ...] = setting(
        (), "columns that are numbers though they look like codes, row numbers or words for missing values"
    )
    offset: str | None = setting(None, "column that is added to the linear predictor as it is")
    exposure: str | None = setting(None, "column whose log is the offset, as person-years that counts are of")
    trials: str | None = setting(None, "column of how many trials the target counts the successes")
    weights: str | None = setting(None, "column of how many rows a row stands for, whole numbers from 0")
    precision_weights: str | None = setting(
        None, "column that the target's variance is divided by, as the number of claims that it averages"
    )
    event: str | None = setting(
        None,
        "column of 1 where the target, a time, was seen, 0 where it is beyond; with high 2 below, 3 between",
    )
    cens: str | None = setting(
        None, "column of 0 where the target was seen, 1 where it is beyond, -1 below, 2 from it to high"
    )
    high: str | None = setting(
        None, "column of the upper end of the interval that a target is in; where that is equal, it was seen"
    )
    entry: str | None = setting(
        None, "column of the target from which a row would be there: late entry, truncation"
    )
    most: str | None = setting(
        None, "column of the target up to which a row would be there: truncation from above"
    )
    reference: tuple[str, ...] = setting(
        (), "reference levels of categories, as ['dose=placebo']; of others the first in order"
    )
    order: tuple[str, ...] = setting(
        (), "categories in order, as ['pain=none,mild,moderate']: classes of model=ordinal, lowest first"
    )
    na: tuple[str, ...] = setting((), "further words for a missing value, as ['-999', '?']")
    standardize: bool = setting(True, "numbers to mean 0 and sd 1; false: as they are")
    ones: float = setting(
        1.0,
        "number in the column of ones: one prior for all is so many times wider for the intercept",
        above=0,
    )
    complete: tuple[str, ...] = setting((), "further columns that a row must have a value in, if any")
    missing: Literal["refuse", "drop"] = setting(
        "refuse", "drop: leave out, and count, rows that lack a value"
    )
    decimal: Literal[".", ","] = setting(".", "the decimal sign of a CSV file: . or ,")
    encoding: str = setting("utf-8", "of a CSV file")
    task: str = setting("auto", "what the target is, as counts; auto: what the model is for")
    where: str | None = setting(None, 'use only such rows, as "year >= 2023"')
    limit: int | None = setting(None, "use only the first rows", at_least=1)
    sha256: str | None = setting(
        None, "digest that the file must have, as where it is read again", shared=True
    )

    def check(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(
                f"{self.say('encoding', self.encoding)}: no such encoding; name one such as utf-8, cp1252 or "
                "utf-16"
            ) from None
        if self.task not in (known := ("auto", *tasks())):
            close = did_you_mean(self.task, known)
            raise ConfigError(f"{self.say('task', self.task)}: must be {listing(known, 'or')}{close}")
        for name in {*self.numeric} & {*self.categorical}:
            raise ConfigError(
                f"{self.say('numeric')}: {name} is in {self.say('categorical')} too; keep one of them"
            )

        for entry in self.order:
            levels = names_of(entry.partition("=")[2])
            if len(levels) < 2:
                raise ConfigError(
                    f"{self.say('order')}: {entry}: must be a column and its levels, as "
                    "pain=none,mild,moderate"
                )
            for name in self.numeric:
                if entry.startswith(f"{name}="):
                    raise ConfigError(
                        f"{self.say('order')}: {name} is in {self.say('numeric')} too; keep one of them"
                    )
        if self.where is not None:
            row_filter.read(self.where)
        if self.formula is not None and (self.features or self.drop):
            key = "features" if self.features else "drop"
            raise ConfigError(f"{self.say(key)}: the formula names the columns; leave this out")
        if self.formula is not None and not self.standardize:
            raise ConfigError(f"{self.say('standardize', 'false')}: a formula's columns are; leave this out")
        if self.event is not None and self.cens is not None:
            raise ConfigError(
                f"{self.say('cens')}: {self.say('event')} says too which targets were seen; keep one"
            )
        if self.offset is not None and self.exposure is not None:
            raise ConfigError(
                f"{self.say('exposure')}: its log is an offset, as {self.say('offset')} is one; keep one"
            )

    @property
    def beside(self) -> dict[str, str]:
        """The columns that are no features, by role."""
        return {role: name for role in ROLES if (name := getattr(self, role)) is not None}

    def role(self, name: str) -> str:
        """What a column is for: "target", one of ROLES, or "column" where it explains the target."""
        given = {"target": self.target, **self.beside}
        return next((role for role, column in given.items() if column == name), "column")

    def order_of(self, name: str) -> tuple[str, ...]:
        """The levels of a column in the order that is typed for them, none where none is."""
        typed = [entry for entry in self.order if entry.startswith(f"{name}=")]
        return names_of(typed[-1].removeprefix(f"{name}=")) if typed else ()

    def settings(self) -> dict[str, Any]:
        """As in the base class; the file's digest is in no key twice, and no role that no column has."""
        unused = dict.fromkeys((*ROLES, "formula", "where")) | {"ones": 1.0, "log_target": False}
        found = super().settings()
        unsaid = {"sha256", *(key for key, value in unused.items() if found[key] == value)}
        unsaid |= {key for key in ("order", "complete") if not getattr(self, key)}
        return {key: value for key, value in found.items() if key not in unsaid}

    def say(self, key: str, value: str | None = None) -> str:
        """How a key is typed where this table was asked for; a column's name joins those of a list."""
        if key == "model":
            return f"model={value}"
        if value is not None and isinstance(there := getattr(self, key), tuple):
            value = f"[{','.join(map(_hydra_word, [*there, value]))}]"
        return f"dataset.{key}" if value is None else quoted(f"dataset.{key}={value}")

    def without(self, name: str) -> str:
        """The remedy for a column that is of no use, as it is typed."""
        if (role := self.role(name)) != "column":
            return f"name another column with {self.say(role)}"
        return f"leave the column out {self.out(name)}"

    def out(self, name: str) -> str:
        """How a column is left out."""
        return "of the formula" if self.formula is not None else f"with {self.say('drop', name)}"

    def missing_as(self, word: str) -> str:
        """How it is typed that this word stands for a missing value, whose row is left out."""
        drop = [] if self.missing == "drop" else [self.say("missing", "drop")]
        return " ".join([self.say("na", word), *drop])


def names_of(text: str) -> tuple[str, ...]:
    """The names in a list with commas; those that hold a comma stand in quotes."""
    found = re.findall(r'\s*"((?:[^"]|"")+)"\s*(?:,|$)|([^,]+)', text)
    names = (whole.replace('""', '"') or plain.strip() for whole, plain in found)
    return tuple(name for name in dict.fromkeys(names) if name)


def listed(name: str) -> str:
    """A name as it stands in a list with commas."""
    if name == name.strip() and "," not in name and not name.startswith('"'):
        return name
    return '"' + name.replace('"', '""') + '"'


def _hydra_word(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    if plain and name.lower() not in ("null", "true", "false", "nan", "inf"):
        return name
    return "'" + name.replace("'", "\\'") + "'"
