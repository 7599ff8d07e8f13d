"""Statistics of published arms with their standard errors over seeds."""

import ast
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import stats

from flyrun.ground.errors import ConfigError
from tools.results.published import Row, sig

#: how sure a rule is before it decides: by Student's t of the seeds, on two sides
LEVEL = 0.05
#: columns that are held against a reference -> the column of its own error
REFERENCE = {"off": "truth_error", "off_worst": "truth_error_worst"}
#: columns of which `ratio_bound` says what unsettled chains make of them
BOUNDED = ("speedup", "speedup_worse", "wall_speedup")
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class Estimate:
    """A statistic, its standard error over seeds, and of how many; bound: "≤", "≥", "~" where unsettled."""

    value: float
    error: float = 0.0
    seeds: float = math.inf
    bound: str = ""

    def __str__(self) -> str:
        """As a page writes it."""
        spread = f" ± {sig(self.error, 2)}" if self.error else ""
        return sig(self.value, 3, self.bound) + spread

    def within(self, low: float, high: float) -> bool | None:
        """Whether it is between low and high, or outside, but for LEVEL; None where neither is sure."""
        margin = self.error * float(stats.t.ppf(1 - LEVEL / 2, max(self.seeds - 1, 1))) if self.error else 0.0
        least = -math.inf if self.bound in ("≤", "~") else self.value - margin
        most = math.inf if self.bound in ("≥", "~") else self.value + margin
        if low <= least and most <= high:
            return True
        return False if most < low or least > high else None


def estimated(row: Row, formula: str) -> Estimate:
    """A formula of a row's columns, its standard error by first differences of each column's own."""
    tree = ast.parse(formula, mode="eval").body
    columns = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"abs"} - {"abs"}
    values = {name: float(getattr(row, name)) for name in columns}
    value, squares = _evaluated(tree, values), 0.0
    for name in columns:
        if error := standard_error(row, name):
            squares += (_evaluated(tree, values | {name: values[name] + error}) - value) ** 2
    bound = row.get("ratio_bound") or ""
    return Estimate(value, math.sqrt(squares), row.seeds, bound if formula in BOUNDED else "")


def standard_error(row: Row, column: str) -> float:
    """Of a mean over seeds: as it is stored, or by the seeds' sd, 0 where the table has neither; with the
    error of the reference that it is held against.
    """
    stored, spread = row.get(f"{column}_se"), row.get(f"{column}_sd")
    stored = row.get(f"{column}_error") if not isinstance(stored, float) else stored
    error = spread / math.sqrt(row.seeds) if isinstance(spread, float) else 0.0
    error = error if error > 1e-12 * abs(row[column]) else 0.0  # equal values, whose mean rounds
    known = row.get(REFERENCE.get(column, ""), 0.0)
    return math.hypot(
        stored if isinstance(stored, float) else error, known if isinstance(known, float) else 0.0
    )


def _evaluated(node: ast.AST, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return float(
            _OPERATIONS[type(node.op)](_evaluated(node.left, values), _evaluated(node.right, values))
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "abs":
        return abs(_evaluated(node.args[0], values))
    raise ConfigError(f"a value is a column, or a sum, product or quotient of some, not {ast.unparse(node)}")


def quotient(ours: Estimate, theirs: Estimate) -> Estimate:
    """ours ÷ theirs, of independent seeds."""
    value = ours.value / theirs.value
    error = abs(value) * math.hypot(ours.error / ours.value, theirs.error / theirs.value)
    return Estimate(value, error, min(ours.seeds, theirs.seeds))


def difference(ours: Estimate, theirs: Estimate) -> Estimate:
    """ours − theirs, of independent seeds."""
    error = math.hypot(ours.error, theirs.error)
    return Estimate(ours.value - theirs.value, error, min(ours.seeds, theirs.seeds))
