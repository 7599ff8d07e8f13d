"""What answers are worth for rows that no arm saw, against rows read, and how far they are from the exact
posterior, against queries: two rankings of the same arms (Dai, He, Dai & Song 2016 show the first).

At every snapshot rows are predicted at E θ as it would have been handed in then; at the end also by the
likelihood averaged over the whole answer.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flyrun.config.schema import listing
from flyrun.gold.reference import bound
from flyrun.gold.score import held_out
from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.figures import INK, band, legend_below, new_figure
from flyrun.report.render import ARM, SEEDS, Column, View, known, measured, number, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.sections.estimates import posterior, reference
from flyrun.report.table import put

VISITS, QUERIES = (1e3, 1e4, 1e5, 1e6, 1e7), (1e5, 1e6, 1e7, 1e8, 1e9)
_MOST = 1_000  # coordinates whose course is kept
_DRAWS = 400


def summarise(draws: Draws) -> Row:
    """pred_*: by snapshot, queries and visits until then, set-up included, error (share misclassified; none
    for a regression) and mean log likelihood of the test rows at E θ, mean and sd of θ; rows: their number.
    averaged: the mean over test rows of the log of their likelihood's average, at the end; effective: number
    of weights then.  data_note: what is to be said of the data wherever results are shown.
    """
    names = ("queries", "visits", "mean", "square")
    queries, visits, mean, square = (draws.values("estimate", name) for name in names)
    if mean is None or queries is None or visits is None or square is None:
        return {}
    if mean.ndim != 2 or not len(mean) or mean.shape[1] > _MOST:
        return {}
    effective = draws.values("estimate", "effective")
    arm, problem = bound(draws.info["settings"], draws.cell.folder.parents[1] / "setup")
    data, code = problem.dataset, arm.model.code
    if not len(data.test_target):
        return {}
    model, features = code.rebind(problem.model, data.test_features, data.test_target)
    told = [_predicted(code, model, features, data, theta) for theta in mean]
    return {
        "pred_queries": queries.tolist(),
        "pred_visits": visits.tolist(),
        "pred_error": [error for error, _ in told if error is not None],
        "pred_log_likelihood": [value for _, value in told],
        "pred_mean": mean.tolist(),
        "pred_sd": np.sqrt(np.maximum(square - mean**2, 0.0)).tolist(),
        "pred_rows": len(data.test_target),
        "averaged": _averaged(draws, arm, problem),
        "effective": math.nan if effective is None else float(effective[-1]),
        "data_note": str(data.info.get("note", "")),
    }


def _predicted(code: Any, model: Any, features: Any, data: Any, theta: np.ndarray) -> tuple[Any, float]:
    """Share of the test rows misclassified, None where there are no classes; mean log likelihood."""
    from flyrun.models import passes  # late: numba, which most reports do without

    values = passes.likelihoods(code, model, features, theta)[0]
    error = None
    if data.task == "binary":
        error = float(np.mean(values < np.log(0.5)))
    elif data.task == "classes":
        eta = passes.block_predictors(model, features, theta, slice(0, len(values)))
        error = float(np.mean(eta.argmax(axis=1) != data.test_target))
    return error, float(values.mean())


def _averaged(draws: Draws, arm: Any, problem: Any) -> float:
    answer = draws.answer(_DRAWS)
    if answer is None:
        return math.nan
    theta, weight = answer
    if weight is None:
        return held_out(
            arm, problem, theta[np.linspace(0, len(theta) - 1, min(len(theta), _DRAWS)).astype(int)]
        )
    return held_out(arm, problem, theta, weight)


class Course(NamedTuple):
    """An arm from snapshot to snapshot, by seed: costs (T,), what it hands in (S, T)."""

    queries: np.ndarray
    visits: np.ndarray
    error: np.ndarray  # share misclassified; (S, 0) of a regression
    off: np.ndarray  # root mean square over coordinates of (E θ − μ)/σ; (S, 0) where μ is not known
    ratio: np.ndarray  # geometric mean over coordinates of sd/σ


def course(run: Run, arm: ArmResult) -> Course:
    """As far as all seeds came."""
    size = min(len(cell.pred_queries) for cell in arm.cells)

    def each(name: str) -> np.ndarray:
        return np.array([getattr(cell, name)[:size] for cell in arm.cells], float)

    off = ratio = np.empty((len(arm.cells), 0))
    base = reference(run, arm)
    if base is not None and base is not arm:
        mean, sd, _ = posterior(base)
        if len(mean) == each("pred_mean").shape[2] and (sd > 0).all():  # not a chain at rest
            off = np.sqrt((((each("pred_mean") - mean) / sd) ** 2).mean(axis=2))
            with np.errstate(divide="ignore"):
                ratio = np.exp(np.log(each("pred_sd") / sd).mean(axis=2))
    costs = each("pred_queries").mean(axis=0), each("pred_visits").mean(axis=0)
    return Course(*costs, each("pred_error"), off, ratio)


def _at(costs: np.ndarray, budget: float, values: np.ndarray) -> np.ndarray | None:
    """What the seeds would have handed in by a budget, (S,); None before the first snapshot."""
    place = int(np.searchsorted(costs, budget * (1 + 1e-9), side="right")) - 1
    return values[:, place] if place >= 0 and values.shape[1] else None


def _row(run: Run, arm: ArmResult) -> Row:
    one = course(run, arm)
    row: Row = {"visits": float(one.visits[-1]), "queries": float(one.queries[-1])}
    for budget in VISITS:
        if (found := _at(one.visits, budget, one.error)) is not None:
            put(row, f"test_error_{_power(budget)}", found)
    for budget in QUERIES:
        if (found := _at(one.queries, budget, one.off)) is not None:
            put(row, f"off_{_power(budget)}", found)
    for name, values in (("test_error", one.error), ("off_end", one.off), ("sd_ratio", one.ratio)):
        if values.shape[1]:
            put(row, name, values[:, -1])
    put(row, "test_log_likelihood", np.array([cell.pred_log_likelihood[-1] for cell in arm.cells]))
    for name in ("averaged", "effective"):
        put(row, name, arm.each(name))
    base = reference(run, arm)
    if base is not None:
        row |= {"off_reference": base.name, "off_floor": _floor(base)}
    expected = arm.fact_mean("expected_sd_ratio")
    return row | ({} if math.isnan(expected) else {"expected_sd_ratio": expected})


def _power(budget: float) -> str:
    return f"1e{round(math.log10(budget))}"


def _per_cent(name: str) -> Any:
    """A share in per cent ± its sd over seeds."""

    def text(row: Row) -> str:
        value: Any = row.get(name)
        sd: Any = row.get(f"{name}_sd")
        if not known(value):
            return "-"
        return f"{100 * float(value):.2f}" + (f" ± {100 * float(sd):.2f}" if known(sd) else "") + " %"

    return text


def _views(rows: list[Row]) -> list[View]:
    def some(names: Sequence[str]) -> list[str]:
        return [name for name in names if any(known(row.get(name)) for row in rows)]

    def powers(name: str, budgets: Sequence[float], text: Any, of: str) -> list[Column]:
        found = some([f"{name}_{_power(budget)}" for budget in budgets])
        return [Column(f"{column.rpartition('_')[2]} {of}", text(column)) for column in found]

    first = [ARM, *powers("test_error", VISITS, _per_cent, "rows"), Column("all", _per_cent("test_error"))]
    first += [
        Column("rows read", plain("visits")),
        Column("log likelihood at E θ", plain("test_log_likelihood", 4)),
    ]
    first += [Column("averaged", plain("averaged", 4)), SEEDS]
    views = [table_view("Test error, by rows read (mean ± sd over seeds)", first, rows)]
    if some(["off_end"]):
        second = [ARM, *powers("off", QUERIES, measured, "queries"), Column("all", measured("off_end"))]
        second += [Column("queries", plain("queries")), Column("sd ratio", measured("sd_ratio"))]
        if some(["effective"]):
            second.append(Column("effective", measured("effective")))
        if some(["expected_sd_ratio"]):
            second.append(Column("by the step", plain("expected_sd_ratio")))
        views.append(table_view("Distance from the exact posterior, in its sds, by queries", second, rows))
    return views


class Orders(NamedTuple):
    """Two rankings of arms by name, best first, and how many of all pairs are turned round in the second."""

    by_rows: list[str]
    never: list[str]  # that did not get as far as by_rows asks for
    by_distance: list[str]
    turned: int
    pairs: int


def orders(run: Run) -> Orders | None:
    """By rows read until the test error was within its own sampling error of the exact arm's last, and by the
    last distance, the exact arm's being its mean's own error. None for fewer than three arms besides; arms
    that were swept stay out.
    """
    arms = [arm for arm in SECTION.arms(run) if arm.sweep is None]
    ends = {arm.own_name: (arm, course(run, arm)) for arm in arms}
    base = next((found for arm in arms if (found := reference(run, arm)) is not None), None)
    if base is None or base.own_name not in ends or not ends[base.own_name][1].error.shape[1]:
        return None
    exact = float(ends[base.own_name][1].error[:, -1].mean())
    enough = exact + math.sqrt(exact * (1.0 - exact) / base.cells[0].pred_rows)
    rows, far = {}, {}
    for name, (arm, one) in ends.items():
        there = np.flatnonzero(one.error.mean(axis=0) <= enough * (1 + 1e-9))
        if arm is base or one.off.shape[1]:
            rows[name] = float(one.visits[there[0]]) if len(there) else math.inf
            far[name] = _floor(base) if arm is base else float(one.off[:, -1].mean())
    if len(rows) < 4:
        return None
    pairs = [(a, b) for i, a in enumerate(rows) for b in list(rows)[:i] if rows[a] != rows[b]]
    turned = sum((rows[a] < rows[b]) != (far[a] < far[b]) for a, b in pairs)
    first = sorted((name for name in rows if rows[name] < math.inf), key=rows.__getitem__)
    never = [name for name in rows if name not in first]
    return Orders(first, never, sorted(far, key=far.__getitem__), turned, len(pairs))


def _floor(arm: ArmResult) -> float:
    """The error of an exact arm's mean, in sds of its posterior."""
    return float(np.sqrt(np.mean(posterior(arm)[2] ** 2)))


def _lead(run: Run) -> list[str]:
    noted = [cell.data_note for arm in SECTION.arms(run) for cell in arm.cells if cell.data_note]
    lines = list(dict.fromkeys(noted))
    if (found := orders(run)) is not None:
        never = f"; never: {listing(found.never)}" if found.never else ""
        lines.append(
            f"Two rankings: {found.turned} of {found.pairs} pairs of arms stand the other way round in the "
            f"second. By rows read until the test error is within its sampling error of the exact arm's: "
            f"{listing(found.by_rows)}{never}. By distance from the exact posterior: "
            f"{listing(found.by_distance)}."
        )
    return lines


_LEGEND = """
Test error: share of the test rows whose class E θ misses, E θ as it would have been handed in after so many
rows were read, passes of the set-up included. averaged: mean over test rows of the log of their likelihood
averaged over the answer, not at E θ alone.

{% if reference %}
Distance: how far E θ is from that of the exact arm on the same data ({{ reference }}), in sds of its
posterior, root mean square over coordinates, after so many likelihood queries, set-up included; that mean's
own error is {{ floor }} sds. sd ratio: geometric mean over coordinates of the answer's sd by the posterior's.
effective: number of weights.
{% if expected %}
by the step: the same as expected of a discretised diffusion with steps of that length.
{% endif %}
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    arms = SECTION.arms(run)
    bases = {base.name: base for arm in arms if (base := reference(run, arm)) is not None}
    floors = [_floor(base) for base in bases.values()]
    expected = any(not math.isnan(arm.fact_mean("expected_sd_ratio")) for arm in arms)
    return words.lines(
        _LEGEND,
        reference=listing(bases),
        floor=" to ".join(dict.fromkeys(number(f(floors), 1) for f in (min, max))) if floors else "",
        expected=expected,
    )


def _figure(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Left: test error at E θ against rows read. Middle and right: distance from the exact posterior in its
    sds, and sds by its own, against likelihood queries. Set-up included; means over seeds, bands one sd;
    ratios below 0.01 are cut off.
    """
    run, arms = Run({}, tuple(arms), ""), [arm for arm in arms if arm.sweep is None]
    courses = {arm.name: course(run, arm) for arm in arms}
    if not any(one.error.shape[1] or one.off.shape[1] for one in courses.values()):
        return None
    figure = new_figure(figsize=(10.0, 3.8), layout="constrained")
    figure.suptitle(title, parse_math=False, fontsize=10)
    left, middle, right = figure.subplots(1, 3)
    for arm in arms:
        one, look = courses[arm.name], styles[arm.name]
        for axis, costs, values in (
            (left, one.visits, 100 * one.error),
            (middle, one.queries, one.off),
            (right, one.queries, one.ratio),
        ):
            if values.shape[1]:
                band(axis, costs, values, look, arm.own_name, positive=True)
    left.set(xscale="log", yscale="log", xlabel="rows read", ylabel="test error, %")
    middle.set(xscale="log", yscale="log", xlabel="likelihood queries", ylabel="off, posterior sds")
    right.set(xscale="log", yscale="log", xlabel="likelihood queries", ylabel="sd ratio")
    # weights on one particle have no width: where that is does not matter
    right.set_ylim(bottom=max(right.get_ylim()[0], 1e-2))
    right.axhline(1.0, color=INK, linewidth=0.8)
    legend_below(figure, left, middle)
    return figure


def _by_dimension(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Distance from the exact posterior and ratio of sds at the end, against the number of parameters."""
    run, bases = Run({}, tuple(arms), ""), {arm.sweep["arm"] for arm in arms if arm.sweep}
    lines: dict[str, list[tuple[int, Course]]] = {}
    for arm in sorted(arms, key=lambda arm: arm.fact("n_params", 0)):
        base = arm.sweep["arm"] if arm.sweep else arm.name
        if base in bases and (one := course(run, arm)).off.shape[1]:
            lines.setdefault(base, []).append((arm.fact("n_params"), one))
    lines = {base: points for base, points in lines.items() if len({size for size, _ in points}) > 2}
    if not lines:
        return None
    figure = new_figure(figsize=(8.0, 3.6), layout="constrained")
    figure.suptitle(title, parse_math=False, fontsize=10)
    left, right = figure.subplots(1, 2)
    for base, points in lines.items():
        look = (
            styles.get(base)
            or styles[next(arm.name for arm in arms if arm.sweep and arm.sweep["arm"] == base)]
        )
        for axis, name in ((left, "off"), (right, "ratio")):
            values = np.array([getattr(one, name)[:, -1] for _, one in points]).T
            band(axis, [size for size, _ in points], values, look, base, positive=True, marker="o")
    left.set(xscale="log", yscale="log", xlabel="parameters", ylabel="off, posterior sds")
    right.set(xscale="log", yscale="log", xlabel="parameters", ylabel="sd ratio")
    sizes = sorted({size for points in lines.values() for size, _ in points})
    for axis in (left, right):
        axis.set_xticks([], minor=True)
        axis.set_xticks(sizes, [str(size) for size in sizes])
    right.axhline(1.0, color=INK, linewidth=0.8)
    legend_below(figure, left)
    return figure


SECTION = Section(
    "held_out",
    reads=("pred_mean",), only="held_out", summarise=summarise,
    columns="""
        test_error_1e3 test_error_1e3_sd test_error_1e4 test_error_1e4_sd test_error_1e5 test_error_1e5_sd
        test_error_1e6 test_error_1e6_sd test_error_1e7 test_error_1e7_sd test_error test_error_sd
        test_log_likelihood test_log_likelihood_sd averaged averaged_sd visits queries off_1e5 off_1e5_sd
        off_1e6 off_1e6_sd off_1e7 off_1e7_sd off_1e8 off_1e8_sd off_1e9 off_1e9_sd off_end off_end_sd
        sd_ratio sd_ratio_sd expected_sd_ratio effective effective_sd off_reference off_floor
    """,
    row=_row, views=_views, lead=_lead, legend=_legend,
    figures={"held_out": _figure, "dimension": _by_dimension},
    code=("flyrun.gold.score", "flyrun.models.passes"),
)  # fmt: skip
