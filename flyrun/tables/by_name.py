"""A formula's columns worked out by their names: products of numbers, categories' levels, and functions.

`x:sex[m]` is x where sex is m. This is what formulaic makes of most formulas, without formulaic and pandas,
which take a service's memory and ten milliseconds a call. Splines and the like are left to formulaic.
"""

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from flyrun.tables.layout import Layout

#: a factor of a product, of columns by name: numbers as they are, of categories the numbers of levels
_Factor = Callable[[Mapping[str, np.ndarray]], np.ndarray]
_OF_LEVEL = re.compile(r"(?:C\((?P<c>[^()\[\]]+)\)|(?P<plain>[^()\[\]]+))\[(?P<level>[^\[\]]*)\]")
_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{"log": np.log, "log10": np.log10, "log2": np.log2, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs},
    **{"log1p": np.log1p, "expm1": np.expm1, "I": np.asarray},
}
_SIGNS: dict[type, Callable[..., np.ndarray]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos},
}


def values(layout: Layout, columns: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """The matrix's columns, (n,) each; None where a name says too little, or a number is not finite."""
    products = _products(
        tuple(column.name for column in layout.features),
        tuple((column.name, tuple(column.levels) if column.levels else None) for column in layout.sources),
    )
    if products is None:
        return None
    with np.errstate(all="ignore"):
        matrix = [
            functools.reduce(operator.mul, [factor(columns) for factor in factors]) for factors in products
        ]
    return matrix if all(np.isfinite(column).all() for column in matrix) else None


@functools.lru_cache(maxsize=64)
def _products(
    names: Sequence[str], sources: Sequence[tuple[str, tuple[str, ...] | None]]
) -> list[list[_Factor]] | None:
    """The factors of each; None where one is not known for certain."""
    known = dict(sources)
    if any(re.search(r"[:\[\]()`]", name) for name in known):
        return None
    products = [[_factor(factor, known) for factor in name.split(":")] for name in names]
    certain = [[factor for factor in factors if factor is not None] for factors in products]
    return certain if certain == products else None


def _factor(text: str, known: Mapping[str, tuple[str, ...] | None]) -> _Factor | None:
    if text in known and known[text] is None:
        return operator.itemgetter(text)
    if match := _OF_LEVEL.fullmatch(text):
        name = match["c"] or match["plain"]
        levels = known.get(name)
        if levels is None or levels.count(match["level"]) != 1:
            return None
        return functools.partial(_at_level, name, levels.index(match["level"]))
    try:
        return _expression(ast.parse(text, mode="eval").body, known)
    except SyntaxError:
        return None


def _at_level(name: str, level: int, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    return (columns[name] == level).astype(np.float64)


def _expression(node: ast.expr, known: Mapping[str, tuple[str, ...] | None]) -> _Factor | None:
    """A function of numbers, as Python has it; None for another."""
    if isinstance(node, ast.Name) and node.id in known and known[node.id] is None:
        return operator.itemgetter(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        number = np.asarray(node.value)
        return lambda columns: number
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function, parts = _FUNCTIONS.get(node.func.id), node.args
        of = 1
    elif isinstance(node, ast.BinOp):
        function, parts, of = _SIGNS.get(type(node.op)), [node.left, node.right], 2
    elif isinstance(node, ast.UnaryOp):
        function, parts, of = _SIGNS.get(type(node.op)), [node.operand], 1
    else:
        return None
    within = [part for part in (_expression(part, known) for part in parts) if part is not None]
    if function is None or len(within) != of or len(parts) != of:
        return None
    return lambda columns: function(*(part(columns) for part in within))
