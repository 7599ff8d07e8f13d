"""What a cell of text looks like: a number, a number that is written otherwise, a date, or words."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: whole numbers beyond it are not all told apart as floats
LAST_EXACT = 1 << 53
#: what helps with complex numbers
PARTS = "write real and imaginary parts as columns of their own"
_LONGEST = 60
_SIGN = "[$€£¥₹]"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CLOCK = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:\s*[ap]\.?m\.?)?"
    r"(?:\s*(?:z|utc|[+-][0-9]{2}:?[0-9]{2}))?"
)
_DAY = (
    r"[0-9]{4}([-/.])(?:0?[1-9]|1[0-2])(?:\1[0-9]{1,2})?",  # 2024-03-31, 2024-03
    r"[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{2}|[0-9]{4})",  # 31.03.2024, 3/31/24
    rf"[0-9]{{1,2}}\.?[ -]?{_MONTH}[ -.,]*(?:[0-9]{{2}}|[0-9]{{4}})",  # 31 March 2024, 31-Mar-24
    rf"{_MONTH}\.? (?:[0-9]{{1,2}},? )?[0-9]{{4}}",  # March 31, 2024
)
_PART = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_KINDS = {
    "complex": re.compile(rf"\(?[+-]?{_PART}[+-]{_PART}[ij]\)?", re.IGNORECASE),  # (0.5-1j), 1+2i
    "date": re.compile(
        rf"(?:{'|'.join(_DAY)})(?:[ t,]\s*{_CLOCK})?|{_CLOCK}|-?[0-9]+ days?\b.*", re.IGNORECASE
    ),
    # 1 234, 1,234.50, 1'234, $3.00, 12%, (3.00), 1_000, 0x10, 120/80, 5 kg
    "otherwise": re.compile(
        rf"[(+-]*{_SIGN}?\s*[+-]?[.,]?[0-9][0-9.,'’_\s]*(?:e[+-]?[0-9]+)?"
        rf"\s*(?:%|{_SIGN}|(?<=\s)[^\W\d_]+)?[)-]?"
        r"|0x[0-9a-f]+|[0-9.,]+\s*/\s*[0-9.,]+",
        re.IGNORECASE,
    ),
}


def _plain(point: str) -> re.Pattern[str]:
    digits = rf"(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)"
    return re.compile(rf"[+-]?(?:{digits}(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)


_NUMBER = {".": _plain(r"\."), ",": _plain(",")}


def kind(cell: str, decimal: str) -> str:
    """What a cell is: "number", one with a decimal "comma", "complex", a "date", a number written
    "otherwise", or ""."""
    if len(cell) > _LONGEST:
        return ""
    if _NUMBER[decimal].fullmatch(cell):
        return "number"
    if decimal == "." and _NUMBER[","].fullmatch(cell):
        return "comma"
    return next((name for name, form in _KINDS.items() if form.fullmatch(cell)), "")


def are_complex(texts: Collection[str]) -> bool:
    """Whether most of these texts are complex numbers."""
    return 2 * sum(kind(text, ".") == "complex" for text in texts) > len(texts)


def is_complex(values: "pd.Series") -> bool:
    """Whether a column of a frame holds complex numbers."""
    from pandas.api.types import infer_dtype  # late: pandas takes half a second

    return values.dtype.kind == "c" or (values.dtype.kind == "O" and infer_dtype(values) == "complex")
