"""Formulas: what one names, checked before anything of it is evaluated, and its matrix by formulaic.

A formula is evaluated as Python, and a run's folder may come from anybody: only names of columns, numbers,
words, arithmetic and the functions listed here pass. What functions and categories know of the whole table,
as the knots of a spline, is its `state`, plain values that are stored beside it.
"""

import ast
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables.layout import Column
from flyrun.tables.quoting import Names, looks_like, masked, quoted

_OWN = {"sqrt": np.sqrt, "log1p": np.log1p, "expm1": np.expm1, "abs": np.abs}
_CODINGS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
#: what a formula may call
FUNCTIONS = (
    *("C", "I", "bs", "cc", "cr", "cs", "poly", "center", "scale", "standardize"),
    *("log", "log10", "log2", "exp", *_OWN),
    *_CODINGS,
)
_BY_ROW = ("C", "I", "log", "log10", "log2", "exp", *_OWN)  # which know nothing of other rows
_ALLOWED = (
    *(ast.Expression, ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword, ast.List, ast.Tuple),
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop),
)
_EXAMPLE = "as in 'died ~ age * C(sex) + bs(dose, df=4)'"
_CALL = re.compile(r"[A-Za-z_][\w.]*\([^()]*\)|\{[^{}]*\}")


@dataclass(frozen=True)
class Formula:
    """The right side of a formula. columns: those that it names, in order; categories: those that it names
    within C() alone; names: what formulaic calls them; parsed: formulaic's."""

    text: str
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    names: Names
    parsed: Any

    @property
    def by_row(self) -> bool:
        """Whether the matrix has of each row what that row alone says, once categories' levels are known."""
        factors = [factor for term in self.parsed for factor in term.factors]
        python = [factor.expr for factor in factors if factor.eval_method.value == "python"]
        nodes = [node for each in python for node in ast.walk(ast.parse(each, mode="eval"))]
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        return called <= {*_BY_ROW, *_CODINGS} and not any(isinstance(node, ast.Compare) for node in nodes)

    def term_of(self, column: str) -> str:
        """The term, as it is typed, that a column of the matrix is of."""
        for term in self.parsed:
            several = term.degree > 1
            factors = [factor for factor in term.factors if several or factor.eval_method.value != "literal"]
            shown = [self.names.shown(factor.expr) for factor in factors]
            if re.fullmatch(":".join(rf"{re.escape(name)}(\[.*\])?" for name in shown), column):
                return ":".join(
                    quoted(name) if factor.eval_method.value == "lookup" else name
                    for name, factor in zip(shown, factors, strict=True)
                )
        return column


def centred(term: str) -> dict[str, str]:
    """The cubic splines of a term that add up to the intercept, and how each is written so that none does."""
    free = re.findall(r"(?:(?<=:)|^)c[rsc]\((?:(?!constraints=|:c[rsc]\().)*\)(?=:|$)", term)
    return {spline: f"{spline[:-1]}, constraints='center')" for spline in free}


def read(text: str, known: Sequence[str]) -> Formula:
    """Read a right side on a table of these columns. Raises ConfigError in one line."""
    from formulaic import Formula as Parsed  # late: it takes half a second, and most fits have no formula
    from formulaic import SimpleFormula  # late
    from formulaic.errors import FormulaicError  # late

    if name := looks_like(text, known):
        fault = f"has {name} without backticks; write `{name}` for the column"
        wide = re.sub(r"\s*([-+*/:%()])\s*", r" \1 ", name).replace(" (", "(").strip()
        if wide != name and set(Names.of(wide, known, FUNCTIONS).columns) <= set(known):
            fault += f", or {wide} for what its signs mean"
        raise _refused(text, fault)
    names = Names.of(text, known, FUNCTIONS)
    plain = masked(names.text)
    if "~" in plain:
        raise _refused(text, "has more than one ~; one stands between the target and what explains it")
    if "|" in plain:
        raise _refused(
            text, "has a bar, for groups, which only `flyrun fit` takes; C(COLUMN) gives each level its own"
        )
    if re.search(r"(?:^|[\s+*:(-])\.(?:$|[\s+*:)-])", plain):
        raise _refused(text, "has a . for all other columns; --target COLUMN alone takes them")
    _refuse_powers(text, plain, names)
    try:
        parsed = Parsed(names.text)
    except (FormulaicError, SyntaxError, ValueError) as error:
        fault = names.shown(_one_line(error))
        raise _refused(text, f"cannot be read: {fault}; write it {_EXAMPLE}") from error
    if not isinstance(parsed, SimpleFormula):
        raise _refused(text, f"has several parts; write it {_EXAMPLE}")
    if not any(term.degree == 0 for term in parsed):
        raise _refused(text, "has no intercept, which every model here has; leave 0 + or - 1 out")
    columns: dict[str, bool] = {}  # whether they are categories alone
    for factor in {factor.expr: factor for term in parsed for factor in term.factors}.values():
        if factor.eval_method.value == "lookup":
            pairs = [(names.column(factor.expr), False)]
        elif factor.eval_method.value == "python":
            pairs = list(_named(text, factor.expr, names))
        else:
            continue
        for name, category in pairs:
            if name not in known:
                raise _unknown(text, name, known)
            if columns.setdefault(name, category) != category:
                raise _refused(text, f"names {name} within C() and without; say which is meant")
    for name in names.columns:  # what a minus takes away, formulaic does not tell of
        if name not in known:
            raise _unknown(text, name, known)
        if name not in columns:
            raise _refused(text, f"names {name}, but has no term with it; leave it out of the formula")
    categories = tuple(name for name, alone in columns.items() if alone)
    return Formula(text, tuple(columns), categories, names, parsed)


def _unknown(text: str, name: str, known: Sequence[str]) -> ConfigError:
    close = did_you_mean(name, known) or f"; it has {_some(known)}"
    return _refused(text, f"names {name}, which is no column of the table{close}")


def _refuse_powers(text: str, plain: str, names: Names) -> None:
    """A power of a column alone is, to a formula, the column itself. plain: the text without its quotes."""
    if "^" in plain:
        fault = "has a ^; write I(x**2) for a power, and (a + b)**2 for interactions"
        raise _refused(text, fault)
    before = ""
    while plain != before:
        plain, before = _CALL.sub("F", plain), plain
    if power := re.search(r"([\w.]+)\s*\*\*\s*\d+", plain):
        name = quoted(names.column(power[1])) if power[1] != "F" else "x"
        raise _refused(text, f"has a power outside I(), which means {name} alone; write I({name}**2)")


def _named(text: str, expression: str, names: Names) -> Iterator[tuple[str, bool]]:
    """Columns that a factor names, and whether within C() alone. ConfigError for what is not allowed."""
    shown = names.shown(expression)
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise _refused(text, f"cannot be read at {shown}; write it {_EXAMPLE}") from error
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    coded = {id(node.args[0]) for node in ast.walk(tree) if _is_c(node) and node.args}
    codings = {
        id(value)
        for node in ast.walk(tree)
        if _is_c(node)
        for value in (*node.args[1:], *(keyword.value for keyword in node.keywords))
    }
    for node in ast.walk(tree):
        if _is_c(node) and not (node.args and isinstance(node.args[0], ast.Name | ast.Compare)):
            raise _refused(text, f"has {shown}; C() takes a column or a comparison")
        if isinstance(node, ast.Attribute):
            write = f"{node.attr}(…)" if node.attr in FUNCTIONS else f"`{ast.unparse(node)}` for a column"
            raise _refused(
                text, f"has {names.shown(ast.unparse(node))}, whose point is not read; write {write}"
            )
        if id(node) in called:
            if not isinstance(node, ast.Name) or node.id not in FUNCTIONS:
                name = names.shown(ast.unparse(node))
                if name in ("s", "te"):
                    fault = f"has {shown} within another term; smooths of `flyrun fit` are terms"
                    raise _refused(text, f"{fault}, as in 'y ~ a + s(x)', by levels s(x, by=g)")
                known = did_you_mean(name, FUNCTIONS) or f"; there are {', '.join(FUNCTIONS)}"
                raise _refused(text, f"calls {name}, which is no function here{known}")
        elif isinstance(node, ast.Name):
            if not (id(node) in codings and node.id in _CODINGS):
                yield names.column(node.id), id(node) in coded
        elif not isinstance(node, _ALLOWED):
            source = names.shown(ast.unparse(node))
            raise _refused(text, f"has {source}, which is not read; make a column of it")


def _is_c(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C"


def matrix(text: str, sources: Sequence[Column], state: dict[str, Any]) -> "Matrix":
    """The matrix of a formula on these columns; read once, however many pieces a table has."""
    return _matrix(text, json.dumps([asdict(column) for column in sources]), json.dumps(state))


@functools.lru_cache(maxsize=8)
def _matrix(text: str, sources: str, state: str) -> "Matrix":
    columns = [Column(**column) for column in json.loads(sources)]
    return Matrix(read(text, [column.name for column in columns]), columns, json.loads(state))


@dataclass(frozen=True)
class Matrix:
    """A formula's matrix, as of the whole table. state: plain values."""

    formula: Formula
    sources: list[Column]
    state: dict[str, Any]

    @classmethod
    def of(cls, formula: Formula, sources: list[Column], table: pd.DataFrame) -> "Matrix":
        """With the state of a whole table. ConfigError for what cannot be evaluated."""
        whole = _typed(_coded(table, sources), sources, len(table))
        spec, shown = _built(formula, whole, {}, "the table").model_spec, formula.names.shown
        kinds = {
            shown(key): list(state["categories"])
            for key, (_, state) in spec.encoder_state.items()
            if "categories" in state
        }
        functions = {shown(key): transform for key, transform in spec.transform_state.items()}
        state = {"functions": _plain(functions), "categories": _plain(kinds)}
        return cls(formula, sources, json.loads(json.dumps(state)))

    def columns(self, piece: pd.DataFrame, what: str) -> pd.DataFrame:
        """The matrix of some rows, without the column of ones; names as `sex[m]`.

        Raises DataError naming the row for a number that is not finite, or beyond a spline's ends.
        """
        names, values = self.of_codes(_coded(piece, self.sources), piece.index, what)
        return pd.DataFrame(values, piece.index, names)

    def of_codes(
        self, columns: Mapping[str, np.ndarray], index: Sequence[Any], what: str
    ) -> tuple[list[str], np.ndarray]:
        """Names and values (n, D) of the same. columns: (n,) each, of categories the numbers of levels;
        index: what rows are called.
        """
        self._refuse_beyond(columns, index, what)
        built = _built(self.formula, _typed(columns, self.sources, len(index)), self.state, what)
        _, *names = built.model_spec.column_names  # the first is the intercept
        names = [self.formula.names.shown(name.replace("[T.", "[")) for name in names]
        values = np.asarray(built, dtype=np.float64)[:, 1:]
        wrong = ~np.isfinite(values)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            at = f"row {index[row]} (rows count from 0)"
            value, name = values[row, column], names[column]
            raise DataError(f"{what}: {at}: {name} is {value}; mend the row or the formula")
        return names, values

    def _refuse_beyond(self, columns: Mapping[str, np.ndarray], index: Sequence[Any], what: str) -> None:
        for expression, state in self.state["functions"].items():
            match = re.match(r"\w+\(\s*(?:`([^`]+)`|([\w.]+))\s*[,)]", expression)
            if match is None or "lower_bound" not in state or "extrapolation" in expression:
                continue
            name = match[1] or match[2]
            low, high, values = state["lower_bound"], state["upper_bound"], columns[name]
            beyond = (values < low) | (values > high)
            if beyond.any():
                at = int(beyond.argmax())
                longer = f"{expression[:-1]}, extrapolation='extend')"
                row = f"row {index[at]} (rows count from 0)"
                raise DataError(
                    f"{what}: {row}: {name} is {values[at]:g}, beyond {low:g} to {high:g}, which "
                    f"{expression} was fitted to; leave the row out, or fit with {longer}"
                )


def _built(formula: Formula, piece: pd.DataFrame, state: dict[str, Any], what: str) -> Any:
    """formulaic's matrix of rows whose columns are typed as in the whole table."""
    from formulaic import ModelSpec  # late: as above
    from formulaic.parser.types import Factor  # late

    names = formula.names
    functions = {names.aliased(key): _numbered(values) for key, values in state.get("functions", {}).items()}
    kinds = {
        names.aliased(key): (Factor.Kind.CATEGORICAL, {"categories": levels})
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
            built = spec.get_model_matrix(piece.rename(columns=names.aliases), context=_OWN)
    except Exception as error:  # of functions that are given what they do not take
        reason = names.shown(_one_line(error))
        raise _refused(formula.text, f"cannot be worked out of {what}: {reason}") from error
    if state and (new := {*map(names.shown, built.model_spec.transform_state)} - {*state["functions"]}):
        reason = f"was fitted by another version of flyrun, which kept nothing of {min(new)}; fit again"
        raise _refused(formula.text, reason)
    return built


def _coded(piece: pd.DataFrame, sources: list[Column]) -> dict[str, np.ndarray]:
    """Numbers as floats, of categories the numbers of levels, (n,) each."""
    return {source.name: source.coded(piece[source.name]) for source in sources}


def _typed(columns: Mapping[str, np.ndarray], sources: list[Column], rows: int) -> pd.DataFrame:
    """The same as a frame, categories with all levels of the table, the reference first."""
    typed = {
        source.name: columns[source.name]
        if source.levels is None
        else pd.Categorical.from_codes(columns[source.name], categories=source.levels)
        for source in sources
    }
    return pd.DataFrame(typed, index=range(rows))


def _plain(values: object) -> Any:
    """As JSON has it."""
    if isinstance(values, dict):
        return {str(key): _plain(value) for key, value in values.items()}
    if isinstance(values, list | tuple | np.ndarray):
        return [_plain(value) for value in values]
    return values.item() if isinstance(values, np.generic) else values


def _numbered(values: object) -> Any:
    """Undo what JSON makes of dictionaries by number, and of arrays."""
    if not isinstance(values, dict):
        return np.array(values) if isinstance(values, list) else values
    return {int(key) if key.isdigit() else key: _numbered(value) for key, value in values.items()}


def _one_line(error: Exception) -> str:
    line = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
    return line.replace("⧛", "").replace("⧚", "").rstrip(".")[:200]


def _refused(text: str, fault: str) -> ConfigError:
    return ConfigError(f"formula {text.strip()!r} {fault}")


def _some(names: Sequence[str]) -> str:
    return listing(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"
