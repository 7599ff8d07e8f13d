"""What answers are worth for rows that no arm saw, against rows read, and how far they are from the exact
posterior, against queries: two rankings of the same arms (Dai, He, Dai & Song 2016 show the first).

At every snapshot rows are predicted at E θ as it would have been handed in then; at the end also by the
likelihood averaged over the whole answer.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import Answer, at_budget, errors, rms
from flyrun.experiments.accuracy.score import held_out
from flyrun.experiments.accuracy.truth import exact_arm, together, truth_of
from flyrun.experiments.gold.reference import bound
from flyrun.experiments.report import by_size
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band
from flyrun.experiments.report.metrics import (
    EFFECTIVE,
    EXPECTED_SD_RATIO,
    OFF,
    SD_RATIO,
    TRUTH,
    TRUTH_ERROR,
    of_cells,
    table,
)
from flyrun.experiments.report.section import Row, Section
from flyrun.ground.page import words
from flyrun.ground.page.figures import INK, grid, legend_below
from flyrun.ground.page.metrics import Metric, per_cent, put
from flyrun.ground.page.render import View, known, number
from flyrun.ground.schema import listing

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
    scores = [_predicted(code, model, features, data, theta) for theta in mean]
    return {
        "pred_queries": queries.tolist(),
        "pred_visits": visits.tolist(),
        "pred_error": [error for error, _ in scores if error is not None],
        "pred_log_likelihood": [value for _, value in scores],
        "pred_mean": mean.tolist(),
        "pred_sd": np.sqrt(np.maximum(square - mean**2, 0.0)).tolist(),
        "pred_rows": len(data.test_target),
        "averaged": _averaged(draws, arm, problem),
        "effective": math.nan if effective is None else float(effective[-1]),
        "data_note": str(data.info.get("note", "")),
    }


def _predicted(code: Any, model: Any, features: Any, data: Any, theta: np.ndarray) -> tuple[Any, float]:
    """Share of test rows misclassified at θ, (P,), None where there are no classes; mean log likelihood."""
    from flyrun.experiments.models import passes  # late: numba, which most reports do without

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
    off: np.ndarray  # root mean square over coordinates, in sds; (S, 0) where the truth is not known
    ratio: np.ndarray  # of sds, geometric mean over coordinates


def course(run: Run, arm: ArmResult) -> Course:
    """As far as all seeds came."""
    size = min(len(cell.pred_queries) for cell in arm.cells)

    def each(name: str) -> np.ndarray:
        return np.array([getattr(cell, name)[:size] for cell in arm.cells], float)

    off = ratio = np.empty((len(arm.cells), 0))
    truth = truth_of(run, arm)
    known = truth is not None and truth.source != f"arm {arm.name}" and (truth.sd > 0).all()
    if truth is not None and known and truth.mean.shape == each("pred_mean").shape[2:]:
        gap = errors(Answer(each("pred_mean"), each("pred_sd")), truth)
        off, ratio = gap.rms, gap.sd_ratio
    costs = each("pred_queries").mean(axis=0), each("pred_visits").mean(axis=0)
    return Course(*costs, each("pred_error"), off, ratio)


def _row(run: Run, arm: ArmResult) -> Row:
    progress = course(run, arm)
    row: Row = {"visits": float(progress.visits[-1]), "queries": float(progress.queries[-1])}
    for name, budgets, spent, values in (
        ("test_error", VISITS, progress.visits, progress.error),
        ("off", QUERIES, progress.queries, progress.off),
    ):
        reached: Any = at_budget(spent, budgets, values.T) if values.shape[1] else ()
        for budget, by_seed in zip(budgets, reached, strict=False):
            if not np.isnan(by_seed).all():
                put(row, f"{name}_{_power(budget)}", by_seed)
    for name, values in (("test_error", progress.error), ("off", progress.off), ("sd_ratio", progress.ratio)):
        if values.shape[1]:
            put(row, name, values[:, -1])
    if (truth := truth_of(run, arm)) is not None:
        row |= {"truth": truth.source, "truth_error": float(rms(truth.error))}
    expected = arm.fact_mean("expected_sd_ratio")
    return row | ({} if math.isnan(expected) else {"expected_sd_ratio": expected})


def _power(budget: float) -> str:
    return f"1e{round(math.log10(budget))}"


def _powers(name: str, budgets: Sequence[float], of: str, **more: Any) -> list[Metric]:
    columns = [f"{name}_{_power(budget)}" for budget in budgets]
    return [Metric(column, f"{column.rpartition('_')[2]} {of}", by_seed=True, **more) for column in columns]


def _shares(metrics: list[Metric]) -> list[Metric]:
    return [replace(metric, text=per_cent(metric.name, 2)) for metric in metrics]


_ERRORS = [
    *_shares(_powers("test_error", VISITS, "rows")),
    *_shares([
        Metric(
            "test_error", "all", by_seed=True,
            means="share of the test rows whose class E θ misses, as handed in after so many rows were read",
        ),
    ]),
    Metric("visits", "rows read", means="in all, passes of the set-up included"),
    Metric(
        "test_log_likelihood", "log likelihood at E θ", by_seed=True, alone=True, digits=4,
        of=lambda run, arm: np.array([cell.pred_log_likelihood[-1] for cell in arm.cells]),
    ),
    of_cells(
        "averaged", "averaged", alone=True, digits=4,
        means="the log of the test rows' likelihood averaged over the whole answer, mean over rows",
    ),
]  # fmt: skip
_DISTANCES = [
    *_powers("off", QUERIES, "queries"),
    replace(
        OFF, head="all",
        means="distance of E θ from the truth's, in sds of the posterior, root mean square over coordinates",
    ),
    Metric("queries", "queries", means="likelihood queries in all, set-up included"),
    replace(SD_RATIO, means="sds over the posterior's, geometric mean over coordinates"),
    EFFECTIVE,
    replace(
        EXPECTED_SD_RATIO,
        means="sd ratio as expected of a discretised diffusion with steps of that length",
    ),
]  # fmt: skip
METRICS = [*_ERRORS, *_DISTANCES, TRUTH, TRUTH_ERROR]


def _views(rows: list[Row]) -> list[View]:
    views = [table("Test error, by rows read (mean ± sd over seeds)", _ERRORS, rows)]
    if any(known(row.get("off")) for row in rows):
        views.append(table("Distance from the posterior, in its sds, by queries", _DISTANCES, rows))
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
    base = next((match for arm in arms if (match := exact_arm(run, arm)) is not None), None)
    if base is None or base.own_name not in ends or not ends[base.own_name][1].error.shape[1]:
        return None
    exact = float(ends[base.own_name][1].error[:, -1].mean())
    enough = exact + math.sqrt(exact * (1.0 - exact) / base.cells[0].pred_rows)
    rows, far = {}, {}
    for name, (arm, progress) in ends.items():
        there = np.flatnonzero(progress.error.mean(axis=0) <= enough * (1 + 1e-9))
        if arm is base or progress.off.shape[1]:
            rows[name] = float(progress.visits[there[0]]) if len(there) else math.inf
            distance = progress.off[:, -1] if progress.off.shape[1] else rms(np.asarray(together(base).error))
            far[name] = float(np.mean(distance))
    if len(rows) < 4:
        return None
    pairs = [(a, b) for i, a in enumerate(rows) for b in list(rows)[:i] if rows[a] != rows[b]]
    turned = sum((rows[a] < rows[b]) != (far[a] < far[b]) for a, b in pairs)
    first = sorted((name for name in rows if rows[name] < math.inf), key=rows.__getitem__)
    never = [name for name in rows if name not in first]
    return Orders(first, never, sorted(far, key=far.__getitem__), turned, len(pairs))


def _lead(run: Run) -> list[str]:
    noted = [cell.data_note for arm in SECTION.arms(run) for cell in arm.cells if cell.data_note]
    lines = list(dict.fromkeys(noted))
    if (ranks := orders(run)) is not None:
        never = f"; never: {listing(ranks.never)}" if ranks.never else ""
        lines.append(
            f"Two ranks: {ranks.turned} of {ranks.pairs} pairs of arms stand the other way round in the "
            f"second. By rows read until the test error is within its sampling error of the exact arm's: "
            f"{listing(ranks.by_rows)}{never}. By distance from the exact posterior: "
            f"{listing(ranks.by_distance)}."
        )
    return lines


_LEGEND = """
{% if truths %}
The truth is that of {{ truths }}; its mean's own error is {{ floor }} sds.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    truths = [truth for arm in SECTION.arms(run) if (truth := truth_of(run, arm)) is not None]
    floors = [float(rms(truth.error)) for truth in truths]
    floor = " to ".join(dict.fromkeys(number(f(floors), 1) for f in (min, max))) if floors else ""
    return words.lines(_LEGEND, truths=listing(dict.fromkeys(truth.source for truth in truths)), floor=floor)


def _figure(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Test error at E θ against rows read, above in passes (left); errors of means, in sds, and ratios of sds
    against likelihood queries (middle, right). Set-up is included; lines are means over seeds, bands one sd,
    and ratios below 0.01 are not shown.
    """
    run, arms = Run({}, tuple(arms), ""), [arm for arm in arms if arm.sweep is None]
    courses = {arm.name: course(run, arm) for arm in arms}
    if not any(progress.error.shape[1] or progress.off.shape[1] for progress in courses.values()):
        return None
    figure, (left, middle, right) = grid((10.0, 3.8), title, columns=3)
    for arm in arms:
        progress, look = courses[arm.name], styles[arm.name]
        for axis, costs, values in (
            (left, progress.visits, 100 * progress.error),
            (middle, progress.queries, progress.off),
            (right, progress.queries, progress.ratio),
        ):
            if values.shape[1]:
                band(axis, costs, values, look, arm.own_name, positive=True)
    left.set(xscale="log", yscale="log", xlabel="rows read", ylabel="test error, %")
    if len(sizes := {arm.fact("n_data", 0) for arm in arms}) == 1 and (size := sizes.pop()):
        passes = left.secondary_xaxis("top", functions=(lambda rows: rows / size, lambda times: times * size))
        passes.set_xlabel("passes")
    middle.set(xscale="log", yscale="log", xlabel="likelihood queries", ylabel="off, posterior sds")
    right.set(xscale="log", yscale="log", xlabel="likelihood queries", ylabel="sd ratio")
    # weights on one particle have no width: where that is does not matter
    right.set_ylim(bottom=max(right.get_ylim()[0], 1e-2))
    right.axhline(1.0, color=INK, linewidth=0.8)
    legend_below(figure, left, middle)
    return figure


def _by_dimension(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Distance from the exact posterior and ratio of sds at the end, against the number of parameters."""
    run = Run({}, tuple(arms), "")
    ends = {
        arm.name: (path.off[:, -1], path.ratio[:, -1]) for arm in arms if (path := course(run, arm)).off.size
    }
    lines = by_size.lines_of([arm for arm in arms if arm.name in ends], _parameters)
    labels = "parameters", "off, posterior sds", "sd ratio"
    return by_size.draw(lines, _parameters, lambda arm: ends[arm.name], styles, labels, title)


def _parameters(arm: ArmResult) -> float:
    return float(arm.fact("n_params"))


SECTION = Section(
    "held_out", place=60,
    metrics=METRICS, reads=("pred_mean",), only="held_out", summarise=summarise, row=_row,
    views=_views, lead=_lead, legend=_legend,
    figures={"held_out": _figure, "dimension": _by_dimension}, by_sweep=("dimension",),
    code=("flyrun.experiments.accuracy.score", "flyrun.experiments.models.passes"),
)  # fmt: skip
