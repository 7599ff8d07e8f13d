"""What is improbable of a column though it can be read: one rule each, with what is said and what helps.

A rule takes what was seen of a column and says what is wrong with it, or nothing. Rules on numbers are silent
for columns that `numeric` names, those on text for columns that `categorical` names.
"""

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterator
from decimal import Decimal

import pandas as pd

from flyrun.families import domains
from flyrun.ground.errors import DataError
from flyrun.tables.cells import LAST_EXACT, PARTS, kind
from flyrun.tables.formats import is_csv
from flyrun.tables.layout import plain
from flyrun.tables.order import typed_order
from flyrun.tables.seen import MOST_LEVELS, Seen, one_of
from flyrun.tables.text_table import place

Rule = Callable[[Seen], DataError | None]
Spelled = Callable[[set[str]], Iterator[pd.DataFrame]]

_FEWEST = 10  # rows, or different texts, from which a pattern is no chance
#: what stands for a missing value in many files: runs of nines and the like, and the ends of machine numbers
_CODE = re.compile(
    r"-?(9{2,}|8{3,}|7{3,})|-(9|99|999)\.9+|-?(32767|32768|2147483647|2147483648)|1e\+(20|3[0678])"
)
_ID = re.compile(r"(?i:^|[\W_])id$|[a-z]I[dD]$")
_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_PARTED = {point: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}{re.escape(point)}[0-9]{{3}}") for point in ".,"}
_NAME_OF = {".": "points", ",": "commas"}
_BELOW_1000 = re.compile(r"[+-]?[0-9]{1,3}")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+([.,]0*)?")
# letters of other alphabets, and signs, that look like Latin ones
_LOOKS = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухΑΒΕΖΗΙΚΜΝΟΡΤΥΧοѵ‐‑‒–—−’‘ʼ“”",
    "ABESIJKMHOPCTYXaesijopcyxABEZHIKMNOPTYXov------'''\"\"",
)


def check(seen: list[Seen], spelled: Spelled, last: int) -> None:
    """Refuse the first column that a rule speaks against.

    spelled: reads columns as they stand in the file.  last: row from which on none is used.
    """
    # what has no name is refused for that, or left out
    named = [column for column in seen if column.shifts is None]
    numbers = [column for column in named if not column.text and column.name not in column.options.numeric]
    doubtful = [column for column in numbers if _maybe_zeros_ahead(column) or _maybe_thousands(column)]
    if doubtful:
        _look_at_cells(doubtful, spelled, last)
    for column in numbers:
        _apply(NUMBERS, column)
    for column in named:
        if column.text:
            _apply(NAMES if column.names else TEXTS, column)


def _apply(rules: tuple[Rule, ...], seen: Seen) -> None:
    for rule in rules:
        if (error := rule(seen)) is not None:
            raise error


def _says(seen: Seen, flaw: str, *remedies: str, numeric: str = "", names: str = "") -> DataError:
    """One line; numeric, names: when the column is to be called so, where that can be."""
    more = list(remedies)
    task = seen.options.task if seen.role == "target" else "regression"
    may_be_names = seen.role == "column" or task == "auto" or domains.of(task).classes > 0
    if names and may_be_names and len(seen.values) <= MOST_LEVELS:
        ranked = task == "ordered"
        named = (
            typed_order(seen.levels(), seen.name, seen.options)
            if ranked
            else seen.options.say("categorical", seen.name)
        )
        more.append(f"add {named} if {names}{', lowest first' if ranked else ''}")
    if numeric and seen.spreads:
        more.append(f"add {seen.options.say('numeric', seen.name)} if {numeric}")
    return seen.error(f"{flaw}; {one_of([*more, seen.without()])}")


# Numbers


def _far_out(seen: Seen) -> DataError | None:
    """−999 beside ages: a value far from all others, a code or repeated, that stands for a missing one."""
    if (extreme := seen.lone.far_out()) is None:
        return None
    value, rows, low, high = extreme
    is_code = _CODE.fullmatch(plain(value)) is not None
    repeated = rows >= 3 and len(seen.values) > _FEWEST and value != 0.0
    if not (is_code or repeated):
        return None
    many = f"{rows:,} rows" if rows > 1 else "one row"
    many += " of those looked at" if seen.some else ""
    return _says(
        seen,
        f"is {plain(value)} in {many}, far from all others ({plain(low)} to {plain(high)}), as codes for "
        "missing values are",
        f"add {seen.options.missing_as(plain(value))} if it is one",
        numeric="it is a number",
    )


def _is_asked_for(seen: Seen) -> bool:
    """Whether a column is used for it was named, not for it stands in the file."""
    return seen.role != "column" or seen.name in (seen.options.features or ())


def _counts_rows(seen: Seen) -> DataError | None:
    """1, 2, … n, in any order: numbers of rows, by their count, ends, mean and variance."""
    n = seen.count
    if _is_asked_for(seen) or n < _FEWEST or not seen.whole or seen.low not in (0.0, 1.0):
        return None
    if seen.high - seen.low != n - 1 or abs(seen.moments.mean - (seen.low + seen.high) / 2.0) > 1e-9 * n:
        return None
    if abs(seen.moments.variance / ((n * n - 1.0) / 12.0) - 1.0) > 1e-9:
        return None
    flaw = f"holds each whole number from {plain(seen.low)} to {plain(seen.high)} once, as numbers of rows do"
    return _says(seen, flaw, numeric="they measure something, such as time")


def _is_id(seen: Seen) -> DataError | None:
    """Whole numbers of a column that is called id."""
    if _is_asked_for(seen) or not seen.whole or len(seen.values) < 3 or not _ID.search(seen.name):
        return None
    flaw = f"holds whole numbers, {plain(seen.low)} to {plain(seen.high)}, that are names by its own"
    return _says(seen, flaw, names="they name few things", numeric="they measure something")


def _beyond_exact(seen: Seen) -> DataError | None:
    """Whole numbers of 64 bits that differ in digits that a float has not."""
    if seen.big is None:
        return None
    flaw = f"holds the whole number {seen.big}, beyond {LAST_EXACT}, where numbers next to each other are one"
    return _says(seen, flaw, names="they are names", numeric="the last digits do not count")


def _are_days(seen: Seen) -> DataError | None:
    """20240131: dates that are written as whole numbers."""
    if not seen.whole or not (seen.low > 1.9e7 and seen.high < 2.1e7) or len(seen.values) < 3:
        return None
    if not all(_DAY.fullmatch(plain(value)) for value in seen.values):
        return None
    flaw = f"holds whole numbers that are dates, such as {plain(seen.low)}"
    return _says(seen, flaw, "write days since a date", numeric="they are numbers")


# How numbers are spelled


def _maybe_zeros_ahead(seen: Seen) -> bool:
    """Whether whole numbers, as codes are, may have zeros ahead."""
    return seen.zeros and seen.whole


def _maybe_thousands(seen: Seen) -> bool:
    """Whether a text file's numbers, by their values, may have points that part thousands."""
    return seen.thousands and not seen.whole and is_csv(seen.what)


def _look_at_cells(doubtful: list[Seen], spelled: Spelled, last: int) -> None:
    """Refuse numbers with zeros ahead, as codes have, or with points that may part thousands."""
    zeros = {column.name for column in doubtful if _maybe_zeros_ahead(column)}
    points = {column.name: dict[str, tuple[int, str]]() for column in doubtful if _maybe_thousands(column)}
    for piece in spelled(zeros | points.keys()):
        if not zeros and not points:
            return
        for column in doubtful:
            cells = piece[column.name][:last].dropna()
            if column.name in zeros:
                ahead = cells[cells.str.startswith(("0", "-0", "+0"))]  # quicker than the form alone
                ahead = ahead[ahead.str.fullmatch(_LEADING_ZERO.pattern)]
                if len(ahead):
                    raise _zero_ahead(column, int(ahead.index[0]), ahead.iloc[0])
            if column.name in points and not _may_part(cells, column.options.decimal, points[column.name]):
                del points[column.name]
        if piece.index[-1] >= last:
            break
    for column in doubtful:
        if len(examples := points.get(column.name, {})) == 2:
            raise _parts_thousands(column, **examples)


def _may_part(cells: pd.Series, point: str, examples: dict[str, tuple[int, str]]) -> bool:
    """Whether all cells are as with points that part thousands; the first with one and without are noted."""
    for name, form in (("parted", _PARTED[point]), ("whole", _BELOW_1000)):
        fits = cells.str.fullmatch(form.pattern)
        if fits.any() and name not in examples:
            at = int(fits.to_numpy().argmax())
            examples[name] = int(cells.index[at]), cells.iloc[at]
        cells = cells[~fits]
    return not len(cells)


def _zero_ahead(seen: Seen, row: int, cell: str) -> DataError:
    flaw = (
        f"holds {cell!r} in {place(seen.what, row, seen.options)}, a number with zeros ahead, as codes have"
    )
    return _says(seen, flaw, names="these are names", numeric="these are numbers")


def _parts_thousands(seen: Seen, parted: tuple[int, str], whole: tuple[int, str]) -> DataError:
    where = [f"{cell!r} in {place(seen.what, row, seen.options)}" for row, cell in (parted, whole)]
    flaw = f"holds {where[0]} beside {where[1]}: its {_NAME_OF[seen.options.decimal]} may part thousands"
    plain_one = re.sub("[.,]", "", parted[1])
    return _says(seen, flaw, f"write {plain_one} if they do", numeric="they are decimal")


# Text


def _meant_as_numbers(seen: Seen) -> DataError | None:
    """Text that seems to be meant as numbers or dates: most of its rows, or of its different values, are."""
    options = seen.options
    alike = sum(kind(value, options.decimal) != "" for value in seen.values)
    if alike < 2 or not (2 * alike > len(seen.values) or 2 * seen.alike > seen.count):
        return None
    row, cell = seen.stray or (0, "")
    form = kind(cell, options.decimal)
    where = f"{cell[:40]!r}"
    if seen.stray and row is not None:
        where += f" in {place(seen.what, row, options)}"
    if seen.stray is None:
        flaw, mend = "holds numbers that are stored as text", ["store them as numbers"]
    elif form == "date":
        flaw, mend = f"holds the date or time {where}", ["write it as a number, such as days since a date"]
    elif form == "complex":
        flaw, mend = f"holds the complex number {where}", [PARTS]
    elif any(kind(value, options.decimal) == "number" for value in seen.values):
        flaw, mend = f"holds numbers, but also {where}", ["mend it"]
        if not form:
            mend.append(f"add {options.missing_as(cell)} if it stands for a missing value")
    else:
        flaw, mend = f"holds {where}", [f"write plain numbers, as 1234{options.decimal}5"]
    if form == "comma" and is_csv(seen.what):
        mend.append(f"add {options.say('decimal', ',')} if such commas are decimal")
    return _says(
        seen,
        flaw,
        *mend,
        names=f"{'few different dates are' if form == 'date' else 'these are'} meant as names",
    )


def _alike(seen: Seen) -> DataError | None:
    """Levels that differ in case, in blanks, or in signs that look the same."""
    return _two_of(seen, _looks, f"add {seen.options.say('categorical', seen.name)} if they differ")


def _equal_numbers(seen: Seen) -> DataError | None:
    """Levels that are one number: 1 and 1.0."""
    return _two_of(seen, lambda value: _number(value, seen.options.decimal), "")


def _two_of(seen: Seen, key: Callable[[str], Hashable | None], remedy: str) -> DataError | None:
    known: dict[Hashable, str] = {}
    for value in sorted(seen.values) if len(seen.values) <= MOST_LEVELS else ():
        if (alike := key(value)) is not None and (other := known.setdefault(alike, value)) != value:
            flaw = f"holds {_shown(other, value)} and {_shown(value, other)}"
            mend = ["write them alike", *([remedy] if remedy else []), seen.without()]
            return seen.error(f"{flaw}; {one_of(mend)}")
    return None


def _looks(value: str) -> str:
    """What stays of a text where case, blanks and the alphabet are not seen."""
    seen = unicodedata.normalize("NFKC", value).translate(_LOOKS).casefold().translate(_LOOKS)
    return " ".join("".join(sign for sign in seen if unicodedata.category(sign) != "Cf").split())


def _number(value: str, decimal: str) -> Decimal | None:
    """Of text its exact number, so that all digits of an id count."""
    return Decimal(value.replace(decimal, ".")) if kind(value, decimal) == "number" else None


def _shown(value: str, other: str) -> str:
    """A text as it is written; what a screen would not tell from the other, by its codes."""
    same = value.casefold() != other.casefold() and _looks(value) == _looks(other)
    return ascii(value[:40]) if same else repr(value[:40])


def _breaks_lines(seen: Seen) -> DataError | None:
    """A level of several lines: a sentence, or lines that a stray quote has taken in."""
    value = next((text for text in seen.values if "\n" in text or "\r" in text), None)
    if value is None:
        return None
    flaw = f"holds a text of several lines, {value[:40]!r}, as where a quote is left open"
    return _says(seen, flaw, "close the quote", names="it is a name")


def _one_a_row(seen: Seen) -> DataError | None:
    """Texts that are nearly as many as the rows: names of things, or sentences."""
    n = len(seen.values)
    if n <= _FEWEST or 2 * n <= seen.count or n > MOST_LEVELS:
        return None
    flaw = f"holds {n} different texts in {seen.count} rows, as names of things do"
    return _says(seen, flaw, names="they are a category")


NUMBERS: tuple[Rule, ...] = (_far_out, _beyond_exact, _counts_rows, _is_id, _are_days)
TEXTS: tuple[Rule, ...] = (_meant_as_numbers, _equal_numbers, _alike, _breaks_lines, _one_a_row)
#: of columns that are said to be categories
NAMES: tuple[Rule, ...] = (_equal_numbers,)
