"""Error of running marginals, and factor evaluations of an update (De Sa et al. 2018, Figures 1 and 2)."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band, common
from flyrun.experiments.report.metrics import EXACT, of_cells, table
from flyrun.experiments.report.section import Plot, Row, Section
from flyrun.experiments.report.sections import arms as heads
from flyrun.ground.page import words
from flyrun.ground.page.figures import axes, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric, mean_sd, word
from flyrun.ground.page.render import View, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE_POINTS = 160
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
    """error: at the end, mean ℓ2 distance of the marginals to uniform; error_early: at a tenth of them.

    nominal, actual: factor evaluations per update.  accepted, changed: shares of updates.  us_per_update:
    time of sampling, without what watching costs. All over the whole chain.  curve_*: error at log-spaced
    numbers of updates, and factor evaluations (nominal) and seconds up to there.
    """
    means = ("nominal", "actual", "accepted", "changed")
    whole = {
        name: values for name in ("error", "seconds", *means) if (values := draws.whole(name)) is not None
    }
    if len(whole) < 6:
        return {}
    error, seconds, nominal = whole["error"], whole["seconds"], whole["nominal"]
    n_variables = int(draws.facts["n_variables"])
    points = np.unique(np.rint(np.geomspace(1, error.size, _CURVE_POINTS)).astype(int))
    return {
        "error": float(error[-1]),
        "error_early": float(error[max(error.size // 10, 1) - 1]),
        **{name: float(whole[name].mean()) for name in means},
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
    """The batch sizes as they were asked: "4 Ψ²", "1 L², 4 Ψ²", "40 factors, Poisson"; "" for plain Gibbs."""
    units = _UNITS.get(sampler_of(arm), ())
    asked = [arm.setting("sampler", key) for key in ("batch", "second_batch")]
    sizes = [f"{size:g} {unit}" for size, unit in zip(asked, units, strict=False)]
    return ", ".join(sizes + ["Poisson"] * (arm.setting("sampler", "batches", default="") == "poisson"))


def note(arm: ArmResult) -> str:
    """What the table notes of an arm."""
    return "biased: has no known stationary distribution" if arm.exact is False else ""


def _ratios(run: Run, arm: ArmResult) -> Row:
    """Error and time relative to plain Gibbs."""
    values: Row = {"note": note(arm)}
    base = plain_gibbs(run)
    if base is not None:
        error = _ratio(arm.each("error"), base.each("error"))
        values["error_ratio"], values["error_ratio_se"] = error if base is not arm else (error[0], 0.0)
        values["time_ratio"] = _ratio(arm.each("us_per_update"), base.each("us_per_update"))[0]
    return values


def mean_se(values: np.ndarray) -> tuple[float, float]:
    """Mean over chains, (C,), and its standard error, from their spread; NaN for one chain."""
    mean, sd = mean_sd(values)
    return mean, sd / math.sqrt(len(values))


def _ratio(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Ratio of two independent means over chains, (C,), and its standard error, to first order."""
    (mean, se), (base, base_se) = mean_se(ours), mean_se(theirs)
    if not base or not mean:
        return math.nan, math.nan
    return mean / base, mean / base * math.hypot(se / mean, base_se / base)


def _views(rows: list[Row]) -> list[View]:
    # L, Ψ and Δ of the graph, to four digits or more
    known = [row for row in rows if row["seeds"]]
    graph = "; L = {L:.5g}, Ψ = {Psi:.5g}, Δ = {Delta:,.0f}".format(**known[0]) if known else ""
    return [
        table(f"Error at the end, mean ± sd{graph}", _ERROR, rows),
        table("Cost of an update (mean ± sd over seeds)", [*_COST, EXACT], rows),
    ]


def updates(run: Run, arm: ArmResult) -> float:
    """Of single variables, in all."""
    return arm.infos[0].get("iterations", 0) * arm.fact("n_variables", 0)


#: the sizes of a graph: column -> fact
SIZES = {
    "n_variables": "n_variables", "n_values": "n_values", "L": "local_energy_bound",
    "Psi": "total_energy_bound", "Delta": "largest_degree",
}  # fmt: skip
_SIZES = [Metric(name, of=lambda run, arm, key=key: arm.fact(key)) for name, key in SIZES.items()]  # type: ignore[misc]
_ERROR = [
    word(
        "batch", "batch (our choice)", of=lambda run, arm: batch_text(arm),
        means="in multiples of L² or Ψ², or in factors; the paper does not tell its own",
    ),
    word(
        "mean_batches", "mean batch", means="of Poisson draws",
        of=lambda run, arm: " + ".join(number(size, 4) for size in arm.fact("batches", [])),
    ),
    of_cells(
        "error", "error",
        "mean over variables of the ℓ2 distance of the running marginal from uniform, after the last "
        "update",
    ),
    Metric("error_ratio", "× Gibbs (± s.e.)", means="relative to plain Gibbs", spread="error_ratio_se"),
    EXACT,
]  # fmt: skip
_COST = [
    word(
        "estimator", "estimator", of=lambda run, arm: arm.fact("estimator"),
        means="faithful: draws a batch factor by factor; superposed: draws its sum as one Poisson number",
    ),
    of_cells(
        "factors_nominal", "factors nominal",
        "factor evaluations per update, each batch at its full size, as the algorithm states it",
        said="nominal", alone=True, digits=4,
    ),
    of_cells(
        "factors_actual", "factors actual", "factor evaluations per update as done",
        said="actual", alone=True, digits=4,
    ),
    of_cells("us_per_update", "µs", "per update, sampling only"),
    of_cells("accept_rate", "accepted", said="accepted", alone=True),
]  # fmt: skip
METRICS = [
    Metric("updates", of=updates), *_SIZES, *_ERROR, Metric("error_ratio_se"), *_COST, Metric("time_ratio"),
    of_cells("changed"), of_cells("error_early"),
]  # fmt: skip


def label(arm: ArmResult) -> str:
    """What the legend calls an arm: its sampler, its batch sizes, and that it is biased where it is."""
    parts = [str(arm.fact("update") or arm.name), batch_text(arm)]
    return ", ".join(part for part in parts if part) + (" (biased)" if arm.exact is False else "")


def mean_curve(arm: ArmResult, name: str) -> np.ndarray:
    """One of the curves, (T,), mean over seeds: they differ in what the same number of updates costs."""
    return common(arm, "curve_updates", name)[1].mean(axis=0)


def plot_error(axis: "Axes", arm: ArmResult, x: str, look: Look) -> Any:
    """An arm's error against the curve x, as a band; returns its line."""
    _, error = common(arm, "curve_updates", "curve_error")
    band(axis, mean_curve(arm, x), error, look, label(arm), positive=True)
    return axis.lines[-1]


def error_axes(axis: "Axes") -> None:
    """The scales of the error against something, and its name."""
    axis.set(xscale="log", yscale="log", ylabel="error: mean ℓ2 distance\nof marginals to uniform")
    round_numbers(axis.yaxis)


def _error_against(x: str, name: str, caption: str) -> Plot:
    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
        figure, (axis,) = axes(1, title, height=3.8)
        for place, arm in enumerate(arms):
            line = plot_error(axis, arm, x, styles[arm.name])
            size = len(line.get_xdata())
            every = max(1, size // _MARKS_PER_LINE)
            places = np.arange(place * 3 % every, size, every)
            line.set(marker=MARKERS[place % len(MARKERS)], markersize=4, markevery=places.tolist())
        axis.set_xlabel(name)
        error_axes(axis)
        legend_below(figure, axis)
        return figure

    plot.__doc__ = f"Error of the running marginals (mean ℓ2 distance to uniform) against {caption}"
    return plot


_FIGURES = {
    "error_updates": _error_against(
        "curve_updates",
        "updates of one variable",
        "single-variable updates, mean ± 1 sd over seeds. It cannot see a bias: by symmetry a biased "
        "sampler may look better than plain Gibbs.",
    ),
    "error_factors": _error_against(
        "curve_factors",
        "factor evaluations (nominal)",
        "factor evaluations, mean ± 1 sd over seeds. Counted nominally: each batch at its full size, as if "
        "every factor in it were looked at, whichever estimator was used.",
    ),
    "error_seconds": _error_against(
        "curve_seconds",
        "seconds of sampling",
        "seconds of sampling, one chain on one core, mean ± 1 sd over seeds. Without compiling and without "
        "what watching the chain costs.",
    ),
}


_LEAD = """
{{ dataset }}, {{ model }}: {{ n_variables | spec(",") }} variables of up to {{ n_values | spec(",") }}
values; L = {{ L | spec(".5g") }}, Ψ = {{ Psi | spec(".5g") }}, Δ = {{ Delta | spec(",") }}.

{{ iterations | spec(",") }} sweeps of {{ n_variables | spec(",") }} updates, {{ updates | spec(",") }} in
all, from variables all equal (error {{ start_error | spec(".3f") }}). The error counts all of them; energy
and agreement leave out the first {{ burn_in | spec(",") }} sweeps.
"""


def _lead(run: Run) -> list[str]:
    arm = SECTION.arms(run)[0]
    values = heads.row(run, arm) | SECTION.cells_of(run, arm)
    return words.lines(_LEAD, **values, start_error=arm.fact("start_error"))


_STICKS = """
its mean batch λ = {{ batch }} is {{ share | spec(".2g") }} Ψ²: it is exact, but below Ψ²/4 the estimate of
the energy that it keeps can vary by an sd above 2, so that it sticks at large ones and mixes very slowly;
raise sampler.{{ key }}, which counts in Ψ².
"""


def sticks(arm: ArmResult) -> list[str]:
    """That a batch is so far below Ψ² that the estimate of the energy, once large, is kept for long."""
    key = _KEPT_BATCH.get(sampler_of(arm))
    if key is None or arm.exact is False:
        return []
    batch, total = arm.fact("batches")[-1], arm.fact("total_energy_bound")
    if math.log1p(total / batch) * math.sqrt(batch) <= _MOST_SPREAD:
        return []
    return words.lines(_STICKS, key=key, batch=number(batch, 4), share=batch / total**2)


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    lines = sticks(arm)
    if arm.fact("n_values", 2) > 1 and not np.min(arm.each("changed")) >= 1e-3:
        lines.append("fewer than one update in 1,000 changed a variable: the batch is too small to move.")
    return lines


_CAVEATS = """
{% if no_gibbs %}
No arm of this run is plain Gibbs with a finished seed; there is nothing to compare with.

{% endif %}
{% if several_lengths %}
The arms differ in length; compare errors at equal numbers of updates only.

{% endif %}
{% if single_seed %}
One seed has no spread: standard deviations and errors are not known.
{% endif %}
"""


def _caveats(run: Run) -> list[str]:
    arms = SECTION.arms(run)
    several_lengths = len({arm.infos[0]["iterations"] for arm in arms}) > 1
    facts = {"no_gibbs": plain_gibbs(run) is None, "single_seed": any(arm.done == 1 for arm in arms)}
    return words.lines(_CAVEATS, several_lengths=several_lengths, **facts)


SECTION: Section = Section(
    "marginal_error", place=110,
    metrics=METRICS, reads=("error", "curve_error"), summarise=summarise, row=_ratios,
    views=_views, figures=_FIGURES, lead=_lead, arm_caveats=_arm_caveats, caveats=_caveats,
)  # fmt: skip
