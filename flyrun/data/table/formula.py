"""Formulas: what one names, checked before anything of it is evaluated, and its matrix by formulaic.

A formula is evaluated as Python, and a run's folder may come from anybody: only names of columns, numbers,
words, arithmetic and the functions listed here pass. What functions and categories know of the whole table,
as the knots of a spline, is its `state`, plain values that are stored beside it.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from flyrun.config.schema import did_you_mean, listing
from flyrun.data.table.layout import Column
from flyrun.errors import ConfigError, DataError

_OWN = {"sqrt": np.sqrt, "log1p": np.log1p, "expm1": np.expm1, "abs": np.abs}
_CODINGS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
#: what a formula may call
FUNCTIONS = (
    *("C", "I", "bs", "cc", "cr", "cs", "poly", "center", "scale", "standardize"),
    *("log", "log10", "log2", "exp", *_OWN),
    *_CODINGS,
)
_ALLOWED = (
    *(ast.Expression, ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword, ast.List, ast.Tuple),
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop),
)
_EXAMPLE = "as in 'died ~ age * C(sex) + bs(dose, df=4)'"
_QUOTED = re.compile(r"`([^`]+)`")
_CALL = re.compile(r"[A-Za-z_][\w.]*\([^()]*\)|\{[^{}]*\}")


@dataclass(frozen=True)
class Formula:
    """The right side of a formula. columns: those that it names, in order; categories: those that it names
    within C() alone; parsed: formulaic's."""

    text: str
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    parsed: Any


def read(text: str, known: Sequence[str]) -> Formula:
    """Read a right side on a table of these columns. Raises ConfigError in one line."""
    from formulaic import Formula as Parsed  # late: it takes half a second, and most fits have no formula
    from formulaic import SimpleFormula  # late
    from formulaic.errors import FormulaicError  # late

    if "~" in text:
        raise _refused(text, "has more than one ~; one stands between the target and what explains it")
    if "|" in text:
        raise _refused(
            text, "has a bar, for groups, which are not fitted; C(COLUMN) gives each level its own"
        )
    if re.search(r"(?:^|[\s+*:(-])\.(?:$|[\s+*:)-])", text):
        raise _refused(text, "has a . for all other columns; --target COLUMN alone takes them")
    _refuse_powers(text)
    try:
        parsed = Parsed(text)
    except (FormulaicError, SyntaxError, ValueError) as error:
        raise _refused(text, f"cannot be read: {_one_line(error)}; write it {_EXAMPLE}") from error
    if not isinstance(parsed, SimpleFormula):
        raise _refused(text, f"has several parts; write it {_EXAMPLE}")
    if not any(term.degree == 0 for term in parsed):
        raise _refused(text, "has no intercept, which every model here has; leave 0 + or - 1 out")
    columns: dict[str, bool] = {}  # whether they are categories alone
    for factor in {factor.expr: factor for term in parsed for factor in term.factors}.values():
        if factor.eval_method.value == "lookup":
            found = [(factor.expr, False)]
        elif factor.eval_method.value == "python":
            found = list(_named(text, factor.expr))
        else:
            continue
        for name, category in found:
            if name not in known:
                close = did_you_mean(name, known) or f"; it has {_some(known)}"
                raise _refused(text, f"names {name}, which is no column of the table{close}")
            if columns.setdefault(name, category) != category:
                raise _refused(text, f"names {name} within C() and without; say which is meant")
    categories = tuple(name for name, alone in columns.items() if alone)
    return Formula(text, tuple(columns), categories, parsed)


def _refuse_powers(text: str) -> None:
    """A power of a column alone is, to a formula, the column itself."""
    if "^" in text:
        said = "has a ^; write I(x**2) for a power, and (a + b)**2 for interactions"
        raise _refused(text, said)
    plain, before = text, ""
    while plain != before:
        plain, before = _CALL.sub("F", plain), plain
    if found := re.search(r"([\w.`]+)\s*\*\*\s*\d+", plain):
        name = found[1] if found[1] != "F" else "x"
        raise _refused(text, f"has a power outside I(), which means {name} alone; write I({name}**2)")


def _named(text: str, expression: str) -> Iterator[tuple[str, bool]]:
    """Columns that a factor names, and whether within C() alone. ConfigError for what is not allowed."""
    aliases: dict[str, str] = {}

    def alias(found: re.Match[str]) -> str:
        aliases[f"quoted_{len(aliases)}_"] = found[1]
        return f"quoted_{len(aliases) - 1}_"

    try:
        tree = ast.parse(_QUOTED.sub(alias, expression), mode="eval")
    except SyntaxError as error:
        raise _refused(text, f"cannot be read at {expression}; write it {_EXAMPLE}") from error
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    coded = {id(node.args[0]) for node in ast.walk(tree) if _is_c(node) and node.args}
    for node in ast.walk(tree):
        if _is_c(node) and not (node.args and isinstance(node.args[0], ast.Name | ast.Compare)):
            raise _refused(text, f"has {expression}; C() takes a column or a comparison")
        if isinstance(node, ast.Attribute):
            short = f"; write {node.attr}(…)" if node.attr in FUNCTIONS else ""
            raise _refused(text, f"has {ast.unparse(node)}, whose point is not read{short}")
        if id(node) in called:
            if not isinstance(node, ast.Name) or node.id not in FUNCTIONS:
                name = ast.unparse(node)
                known = did_you_mean(name, FUNCTIONS) or f"; there are {', '.join(FUNCTIONS)}"
                raise _refused(text, f"calls {name}, which is no function here{known}")
        elif isinstance(node, ast.Name):
            if node.id not in _CODINGS:
                yield aliases.get(node.id, node.id), id(node) in coded
        elif not isinstance(node, _ALLOWED):
            raise _refused(text, f"has {ast.unparse(node)}, which is not read; make a column of it")


def _is_c(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C"


@dataclass(frozen=True)
class Matrix:
    """A formula's matrix, as of the whole table. state: plain values."""

    formula: Formula
    sources: list[Column]
    state: dict[str, Any]

    @classmethod
    def of(cls, formula: Formula, sources: list[Column], table: pd.DataFrame) -> "Matrix":
        """With the state of a whole table. ConfigError for what cannot be evaluated."""
        spec = _built(formula, _typed(table, sources), {}, "the table").model_spec
        kinds = {
            key: list(state["categories"])
            for key, (_, state) in spec.encoder_state.items()
            if "categories" in state
        }
        state = {"functions": _plain(spec.transform_state), "categories": _plain(kinds)}
        return cls(formula, sources, json.loads(json.dumps(state)))

    def columns(self, piece: pd.DataFrame, what: str) -> pd.DataFrame:
        """The matrix of some rows, without the column of ones; names as `sex[m]`.

        Raises DataError naming the row for a number that is not finite, or beyond a spline's ends.
        """
        self._refuse_beyond(piece, what)
        made = _built(self.formula, _typed(piece, self.sources), self.state, what)
        found = pd.DataFrame(
            np.asarray(made, dtype=np.float64), piece.index, list(made.model_spec.column_names)
        )
        found = found.drop(columns="Intercept").rename(columns=lambda name: name.replace("[T.", "["))
        wrong = ~np.isfinite(found.to_numpy())
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            value, name = found.iat[row, column], found.columns[column]
            at = f"row {found.index[row]} (rows count from 0)"
            raise DataError(f"{what}: {at}: {name} is {value}; mend the row or the formula")
        return found

    def _refuse_beyond(self, piece: pd.DataFrame, what: str) -> None:
        for expression, state in self.state["functions"].items():
            found = re.match(r"\w+\(\s*`?([^,`()]+?)`?\s*[,)]", expression)
            if found is None or "lower_bound" not in state or "extrapolation" in expression:
                continue
            low, high, values = (
                state["lower_bound"],
                state["upper_bound"],
                piece[found[1]].to_numpy(np.float64),
            )
            beyond = (values < low) | (values > high)
            if beyond.any():
                at = int(beyond.argmax())
                longer = f"{expression[:-1]}, extrapolation='extend')"
                row = f"row {piece.index[at]} (rows count from 0)"
                raise DataError(
                    f"{what}: {row}: {found[1]} is {values[at]:g}, beyond {low:g} to {high:g}, which "
                    f"{expression} was fitted to; leave the row out, or fit with {longer}"
                )


def _built(formula: Formula, piece: pd.DataFrame, state: dict[str, Any], what: str) -> Any:
    """formulaic's matrix of rows whose columns are typed as in the whole table."""
    from formulaic import ModelSpec  # late: as above
    from formulaic.errors import FormulaicError  # late
    from formulaic.parser.types import Factor  # late

    functions = {key: _numbered(values) for key, values in state.get("functions", {}).items()}
    kinds = {
        key: (Factor.Kind.CATEGORICAL, {"categories": levels})
        for key, levels in state.get("categories", {}).items()
    }
    try:
        spec = ModelSpec(
            formula=formula.parsed,
            na_action="ignore",
            output="numpy",
            transform_state=functions,
            encoder_state=kinds,
        )
        with np.errstate(all="ignore"):  # numbers that are not finite are told by row
            return spec.get_model_matrix(piece, context=_OWN)
    except (FormulaicError, ValueError, TypeError, KeyError, IndexError) as error:
        raise _refused(formula.text, f"cannot be worked out of {what}: {_one_line(error)}") from error


def _typed(piece: pd.DataFrame, sources: list[Column]) -> pd.DataFrame:
    """Numbers as floats, categories with all levels of the table, the reference first."""
    columns: dict[str, Any] = {}
    for one in sources:
        values = piece[one.name]
        if one.levels is None:
            columns[one.name] = values.to_numpy(np.float64)
            continue
        levels = one.levels
        if not one.text:
            by_number = {float(level): level for level in levels}
            values = values.astype(np.float64).map(by_number)
        codes = pd.Index(levels).get_indexer(values.astype(str))
        columns[one.name] = pd.Categorical.from_codes(codes, categories=levels)
        if (codes < 0).any():
            raise DataError(
                f"column {one.name} holds other values than a moment ago; leave the file as it is"
            )
    return pd.DataFrame(columns, index=range(len(piece)))


def _plain(values: Any) -> Any:
    """As JSON has it."""
    if isinstance(values, dict):
        return {str(key): _plain(value) for key, value in values.items()}
    if isinstance(values, list | tuple | np.ndarray):
        return [_plain(value) for value in values]
    return values.item() if isinstance(values, np.generic) else values


def _numbered(values: Any) -> Any:
    """Undo what JSON makes of dictionaries by number."""
    if not isinstance(values, dict):
        return values
    return {int(key) if key.isdigit() else key: _numbered(value) for key, value in values.items()}


def _one_line(error: Exception) -> str:
    words = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
    return words.replace("⧛", "").replace("⧚", "").rstrip(".")[:200]


def _refused(text: str, said: str) -> ConfigError:
    return ConfigError(f"formula {text.strip()!r} {said}")


def _some(names: Sequence[str]) -> str:
    return listing(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"
