"""Error of running marginals, and factor evaluations of an update (De Sa et al. 2018, Figures 1 and 2)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.figures import axes, band, common, legend_below, round_numbers
from flyrun.report.render import ARM, NOTHING, SEEDS, Column, View, measured, number, plain, table_view
from flyrun.report.section import Figures, Row, Section
from flyrun.report.table import mean_sd, put

_CURVE_POINTS = 160
# Summary -> column of its mean over seeds; its sd is beside it.
_MEASURED = {
    "error": "error",
    "nominal": "factors_nominal",
    "actual": "factors_actual",
    "us_per_update": "us_per_update",
    "accepted": "accept_rate",
    "changed": "changed",
}
# What the options batch, second_batch of a sampler are multiples of.
_UNITS = {
    "min_gibbs": ("Ψ²",),
    "local_minibatch": ("factors",),
    "mgpmh": ("L²",),
    "double_min": ("L²", "Ψ²"),
    "poisson_gibbs": ("L²",),
}
# Which option sets the batch of the energy's estimate, and what the sd of that estimate can be at λ = Ψ²/4.
# On the paper's Ising model 0.15 of MIN-Gibbs' updates changed a variable there (of plain Gibbs' 0.38), 0.001
# at Ψ²/16 and 0.0001 at Ψ²/100.
_KEPT_BATCH = {"min_gibbs": "batch", "double_min": "second_batch"}
_MOST_SPREAD = 2.0
# Marks tell arms apart without colour.
MARKERS = "os^Dv<>P"
_MARKS_PER_LINE = 8


def summarise(draws: Draws) -> Row:
    """error: at the end, mean ℓ2 distance of the marginals to uniform.  nominal, actual: factor evaluations
    per update.  accepted, changed: shares of updates.  us_per_update: time of sampling, without what watching
    costs. All over the whole chain.  curve_*: error at log-spaced numbers of updates, and factor evaluations
    (nominal) and seconds up to there.
    """
    names = ("error", "nominal", "actual", "accepted", "changed", "seconds")
    known = [values for name in names if (values := draws.whole(name)) is not None]
    if len(known) < len(names):
        return {}
    error, nominal, actual, accepted, changed, seconds = known
    n_variables = int(draws.facts["n_variables"])
    points = np.unique(np.rint(np.geomspace(1, error.size, _CURVE_POINTS)).astype(int))
    return {
        "error": float(error[-1]),
        "nominal": float(nominal.mean()),
        "actual": float(actual.mean()),
        "accepted": float(accepted.mean()),
        "changed": float(changed.mean()),
        "us_per_update": float(1e6 * seconds.mean() / n_variables),
        "curve_updates": (points * float(n_variables)).tolist(),
        "curve_error": error[points - 1].tolist(),
        "curve_factors": (n_variables * np.cumsum(nominal))[points - 1].tolist(),
        "curve_seconds": np.cumsum(seconds)[points - 1].tolist(),
    }


def sampler_of(arm: ArmResult) -> str:
    """Its name; "" where no seed is done."""
    return arm.setting("sampler", "name", default="")


def plain_gibbs(run: Run) -> ArmResult | None:
    """The arm that the others are compared with: the first of plain Gibbs sampling that has a seed."""
    return next((arm for arm in run.arms if sampler_of(arm) == "gibbs"), None)


def batch_text(arm: ArmResult) -> str:
    """The batch sizes as they were asked: "4 Ψ²", "1 L², 4 Ψ²", "40 factors"; "" for plain Gibbs."""
    units = _UNITS.get(sampler_of(arm), ())
    asked = [arm.setting("sampler", key) for key in ("batch", "second_batch")]
    return ", ".join(f"{size:g} {unit}" for size, unit in zip(asked, units, strict=False))


def row(run: Run, arm: ArmResult) -> Row:
    """Sizes of the graph, batches, and what was measured."""
    values: Row = {
        "updates": arm.infos[0].get("iterations", 0) * arm.fact("n_variables", 0),
        "n_variables": arm.fact("n_variables"),
        "n_values": arm.fact("n_values"),
        "L": arm.fact("local_energy_bound"),
        "Psi": arm.fact("total_energy_bound"),
        "Delta": arm.fact("largest_degree"),
        "batch": batch_text(arm),
        "mean_batches": " + ".join(number(size, 4) for size in arm.fact("batches", [])),
        "estimator": arm.fact("estimator"),
        "note": "biased: has no known stationary distribution" if arm.fact("exact") is False else "",
    }
    for name, column in _MEASURED.items():
        put(values, column, arm.each(name))
    base = plain_gibbs(run)
    if base is not None:
        error = _ratio(arm.each("error"), base.each("error"))
        values["error_ratio"], values["error_ratio_se"] = error if base is not arm else (error[0], 0.0)
        values["time_ratio"] = _ratio(arm.each("us_per_update"), base.each("us_per_update"))[0]
    return values


def mean_se(values: np.ndarray) -> tuple[float, float]:
    """Mean over chains and its standard error, from their spread; NaN for one chain."""
    mean, sd = mean_sd(values)
    return mean, sd / math.sqrt(len(values))


def _ratio(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Ratio of two independent means and its standard error, to first order."""
    (mean, se), (base, base_se) = mean_se(ours), mean_se(theirs)
    if not base or not mean:
        return math.nan, math.nan
    return mean / base, mean / base * math.hypot(se / mean, base_se / base)


def _views(rows: list[Row]) -> list[View]:
    return [
        table_view(f"Error at the end, mean ± sd{_constants(rows)}", _ERROR, rows),
        table_view("Cost of an update (mean ± sd over seeds)", _COST, rows),
    ]


def _constants(rows: list[Row]) -> str:
    """L, Ψ and Δ of the graph, to four digits or more."""
    known = next((row for row in rows if row["seeds"]), None)
    if known is None:
        return ""
    return f"; L = {known['L']:.5g}, Ψ = {known['Psi']:.5g}, Δ = {known['Delta']:,.0f}"


def _text(name: str, head: str) -> Column:
    def text(row: Row) -> str:
        return row[name] if isinstance(row[name], str) and row[name] else NOTHING

    return Column(head, text)


def _exact(row: Row) -> str:
    return {True: "yes", False: "no: biased"}.get(row["exact"], NOTHING)


EXACT = Column("exact", _exact)
_ERROR = [
    ARM,
    _text("batch", "batch (our choice)"),
    _text("mean_batches", "mean batch"),
    Column("error", measured("error")),
    Column("× Gibbs (± s.e.)", measured("error_ratio", "error_ratio_se")),
    EXACT,
    SEEDS,
]
_COST = [
    ARM,
    _text("estimator", "estimator"),
    Column("factors nominal", plain("factors_nominal", 4)),
    Column("factors actual", plain("factors_actual", 4)),
    Column("µs", measured("us_per_update")),
    Column("accepted", plain("accept_rate", 3)),
    EXACT,
]


def label(arm: ArmResult) -> str:
    """What the legend calls an arm: its sampler, its batch sizes, and that it is biased where it is."""
    words = [str(arm.fact("update") or arm.name), batch_text(arm)]
    return ", ".join(word for word in words if word) + ("" if arm.fact("exact", True) else " (biased)")


def _error_against(x: str, name: str, arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    figure, (axis,) = axes(1, title, height=3.8)
    for place, arm in enumerate(arms):
        _, error = common(arm, "curve_updates", "curve_error")
        # Seeds differ in what the same number of updates costs.
        along = common(arm, "curve_updates", x)[1].mean(axis=0)
        band(axis, along, error, styles[arm.name], label(arm), positive=True)
        every = max(1, len(along) // _MARKS_PER_LINE)
        places = np.arange(place * 3 % every, len(along), every)
        axis.lines[-1].set(marker=MARKERS[place % len(MARKERS)], markersize=4, markevery=places.tolist())
    axis.set(xlabel=name, ylabel="error: mean ℓ2 distance\nof marginals to uniform")
    axis.set(xscale="log", yscale="log")
    round_numbers(axis.yaxis)
    legend_below(figure, axis)
    return figure


_CAPTION = "Error of the running marginals (mean ℓ2 distance to uniform) against {}, mean ± 1 sd over seeds. "
_FIGURES: Figures = {
    "error_updates": (
        _CAPTION.format("single-variable updates") + "It cannot see a bias: by symmetry a biased sampler may "
        "look better than plain Gibbs. Batch sizes are our choice.",
        partial(_error_against, "curve_updates", "updates of one variable"),
    ),
    "error_factors": (
        _CAPTION.format("factor evaluations") + "Counted nominally: each batch at its full size, as if every "
        "factor in it were looked at, whichever estimator was used.",
        partial(_error_against, "curve_factors", "factor evaluations (nominal)"),
    ),
    "error_seconds": (
        _CAPTION.format("seconds of sampling, one chain on one core")
        + "Without compiling and without what watching the chain costs.",
        partial(_error_against, "curve_seconds", "seconds of sampling"),
    ),
}


def _about(run: Run) -> list[ArmResult]:
    return [arm for arm in run.arms if SECTION.about(arm)]


def _lead(run: Run) -> list[str]:
    arm = _about(run)[0]
    info, n = arm.infos[0], arm.fact("n_variables", 0)
    sweeps, burn_in = info["iterations"], info["burn_in"]
    return [
        f"{arm.setting('dataset', 'name')}, {arm.setting('model', 'name')}: {n:,} variables of up to "
        f"{arm.fact('n_values'):,} values; L = {arm.fact('local_energy_bound'):.5g}, "
        f"Ψ = {arm.fact('total_energy_bound'):.5g}, Δ = {arm.fact('largest_degree'):,}.",
        f"{sweeps:,} sweeps of {n:,} updates, {sweeps * n:,} in all, from variables all equal (error "
        f"{arm.fact('start_error'):.3f}). The error counts all of them; energy and agreement leave out the "
        f"first {burn_in:,} sweeps.",
    ]


def _legend(run: Run) -> list[str]:
    return [
        "error: mean over variables of the ℓ2 distance between the running marginal and uniform, after the "
        "last update. × Gibbs: relative to plain Gibbs. Batch sizes are our choice (the paper's are not "
        "known to us), in multiples of L² or Ψ², or in factors; a mean batch is of Poisson draws.",
        "factors: factor evaluations per update. Nominal charges each batch at its full size, as the "
        "algorithm states it; actual is what was done. estimator: faithful draws a batch factor by factor, "
        "superposed draws the same sum as one Poisson number, in O(1). µs: per update, sampling only.",
    ]


def sticks(arm: ArmResult) -> list[str]:
    """That a batch is so far below Ψ² that the estimate of the energy, once large, is kept for long."""
    key = _KEPT_BATCH.get(sampler_of(arm))
    if key is None:
        return []
    batch, total = arm.fact("batches")[-1], arm.fact("total_energy_bound")
    if math.log1p(total / batch) * math.sqrt(batch) <= _MOST_SPREAD:
        return []
    return [
        f"its mean batch λ = {number(batch, 4)} is {batch / total**2:.2g} Ψ²: it is exact, but below Ψ²/4 "
        "the estimate of the energy that it keeps can vary by an sd above 2, so that it sticks at large ones "
        f"and mixes very slowly; raise sampler.{key}, which counts in Ψ²."
    ]


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    lines = sticks(arm)
    if arm.fact("n_values", 2) > 1 and np.min(arm.each("changed")) < 1e-3:
        lines.append("fewer than one update in 1,000 changed a variable: the batch is too small to move.")
    return lines


def _caveats(run: Run) -> list[str]:
    lines, arms = [], _about(run)
    if plain_gibbs(run) is None:
        lines.append(
            "No arm of this run is plain Gibbs with a finished seed; there is nothing to compare with."
        )
    if len({arm.infos[0]["iterations"] for arm in arms}) > 1:
        lines.append("The arms differ in length; compare errors at equal numbers of updates only.")
    if any(arm.done == 1 for arm in arms):
        lines.append("One seed has no spread: standard deviations and errors are not known.")
    return lines


# fmt: off
SECTION = Section(
    "marginal_error",
    reads=("error", "curve_error"), summarise=summarise,
    columns=(
        "experiment", "dataset", "model", "update", "arm", "exact", "seeds", "seeds_wanted", "iterations",
        "burn_in", "updates", "n_variables", "n_values", "L", "Psi", "Delta", "batch", "mean_batches",
        "estimator", "error", "error_sd", "error_ratio", "error_ratio_se", "factors_nominal",
        "factors_nominal_sd", "factors_actual", "factors_actual_sd", "us_per_update", "us_per_update_sd",
        "time_ratio", "accept_rate", "accept_rate_sd", "changed", "changed_sd",
    ),
    row=row, views=_views, figures=_FIGURES, lead=_lead, legend=_legend, arm_caveats=_arm_caveats,
    caveats=_caveats,
)
# fmt: on
