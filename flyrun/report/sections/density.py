"""How far a method's density is from a posterior that is known on a grid: at its end, and on the way."""

import math
from typing import Any

import numpy as np

from flyrun.diagnostics.distances import ks
from flyrun.gold.reference import bound
from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.figures import axes, band, common, legend_below, new_figure, round_numbers
from flyrun.report.render import ARM, SEEDS, Column, exact, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put

_PRIOR = 1e-3  # the share of the prior that every density is given, so that its logarithm is finite
_FLOOR_DRAWS, _FLOOR_SETS, _KS_DRAWS = 1_500, 10, 100_000
_COSTS = ("visits", "queries")


def _truth(draws: Draws) -> Any:
    arm, problem = bound(draws.info["settings"], draws.cell.folder.parents[1] / "setup")
    return arm.model.code.truth(problem)


def _distances(truth: Any, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Total variation and KL(truth ‖ density) of densities at the truth's points: (..., M) -> (...) each."""
    variation = np.maximum(truth.density - density, 0.0).sum(axis=-1) * truth.cell
    mixed = (1 - _PRIOR) * density + _PRIOR * truth.prior
    return variation, (truth.density * np.log(truth.density / mixed)).sum(axis=-1) * truth.cell


def _in_its_mode(truth: Any, density: np.ndarray) -> tuple[float, float]:
    """Within the mode that a method gives more to: how far its mean is off, in sds, root mean square over
    both coordinates, and the ratio of sds, their geometric mean. density: by the narrowest kernel, (M,).
    """
    below = truth.points[:, 1] < 0
    mode = below if density[below].sum() > density[~below].sum() else ~below
    if not density[mode].sum() > 0:
        return math.nan, math.nan
    mean, square = _moments(truth.points[mode], density[mode])
    centre, variance = _moments(truth.points[mode], truth.density[mode])
    ratio = np.maximum(square - truth.bandwidths[0] ** 2, 0.0) / variance  # less what the kernel adds
    return float(np.sqrt(np.mean((mean - centre) ** 2 / variance))), float(np.sqrt(ratio).prod() ** 0.5)


def _kolmogorov_smirnov(truth: Any, draws: Draws) -> float:
    """The largest distance of a coordinate's distribution function from the truth's, NaN without draws."""
    answer = draws.answer(_FLOOR_DRAWS)
    if answer is None:
        return math.nan
    theta, weight = answer
    rng = np.random.default_rng(0)
    share = truth.density / truth.density.sum()
    exact_draws = truth.points[rng.choice(len(share), _KS_DRAWS, p=share)]
    exact_draws = exact_draws + np.sqrt(truth.cell) * (rng.random(exact_draws.shape) - 0.5)
    return float(ks(theta, exact_draws, weight).max())


def _moments(points: np.ndarray, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance, (2,) each."""
    share = density / density.sum()
    mean = share @ points
    return mean, share @ (points - mean) ** 2


def summarise(draws: Draws) -> Row:
    """tv, kl, ks, cross_entropy, mode_mass, mode_off, mode_sd_ratio: at the end.  curve_*: tv, kl, mode and
    costs at every snapshot.
    """
    density, mode = draws.values("estimate", "density"), draws.values("estimate", "mode")
    if density is None or mode is None or not len(density):
        return {}
    truth = _truth(draws)
    variation, divergence = (one.min(axis=1) for one in _distances(truth, density))
    kernels = draws.whole("kernel_evaluations")
    off, ratio = _in_its_mode(truth, density[-1, 0])
    every = ((cost, draws.values("estimate", cost)) for cost in (*_COSTS, "seconds"))
    costs = {cost: values for cost, values in every if values is not None}
    effective = draws.values("estimate", "effective")
    return {
        "tv": float(variation[-1]),
        "kl": float(divergence[-1]),
        "ks": _kolmogorov_smirnov(truth, draws),
        "cross_entropy": float(divergence[-1] + truth.entropy),
        "mode_mass": float(mode[-1]),
        "mode_off": off,
        "mode_sd_ratio": ratio,
        "effective": math.nan if effective is None else float(effective[-1]),
        "kernel_evaluations": 0.0 if kernels is None else float(kernels.sum()),
        **{f"total_{cost}": float(values[-1]) for cost, values in costs.items()},
        **{f"curve_{cost}": costs[cost].tolist() for cost in _COSTS},
        "curve_tv": variation.tolist(),
        "curve_kl": divergence.tolist(),
        "curve_mode": mode.tolist(),
    }


def pool(chains: list[Draws]) -> Row:
    """density_shown: of the first seed at its end.  density_truth: points, their density, mass of the mode,
    entropy.  tv_floor: of as many exact draws, mean and sd.
    """
    density = chains[0].values("estimate", "density")
    if density is None:
        return {}
    truth = _truth(chains[0])
    floor, best = _floor(truth), np.argmin(_distances(truth, density[-1])[0])
    return {
        "density_shown": density[-1, best].tolist(),
        "density_truth": [truth.points.tolist(), truth.density.tolist(), truth.mass, truth.entropy],
        "tv_floor": [float(floor.mean()), float(floor.std(ddof=1))],
    }


def _floor(truth: Any) -> np.ndarray:
    """Total variation of sets of exact draws, smoothed as every method's are."""
    rng, side = np.random.default_rng(0), np.sqrt(truth.cell)
    found = []
    for _ in range(_FLOOR_SETS):
        chosen = rng.choice(len(truth.points), _FLOOR_DRAWS, p=truth.density / truth.density.sum())
        draws = truth.points[chosen] + side * (rng.random((_FLOOR_DRAWS, 2)) - 0.5)
        found.append(
            _distances(truth, truth.smoothed(draws, np.full(_FLOOR_DRAWS, 1.0 / _FLOOR_DRAWS)))[0].min()
        )
    return np.array(found)


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"answers": arm.infos[0].get("answers", "draws")}
    costs = [f"total_{cost}" for cost in (*_COSTS, "seconds")]
    kept = ("tv", "kl", "ks", "cross_entropy", "mode_mass", "mode_off", "mode_sd_ratio", "effective")
    for name in (*kept, "kernel_evaluations", *costs):
        put(row, name, arm.each(name))
    return row | {"true_mode_mass": arm.pooled.density_truth[2], "true_entropy": arm.pooled.density_truth[3]}


_COLUMNS = [
    ARM,
    Column("answers", lambda row: str(row["answers"] or "-")),
    Column("total variation", measured("tv")),
    Column("KL", measured("kl")),
    Column("KS", measured("ks")),
    Column("cross entropy", measured("cross_entropy")),
    Column("mass of θ2 < 0", measured("mode_mass")),
    Column("in its mode: off (sds)", measured("mode_off")),
    Column("sd ratio", measured("mode_sd_ratio")),
    Column("effective", measured("effective")),
    Column("visits", plain("total_visits")),
    Column("queries", plain("total_queries")),
    Column("kernels", plain("kernel_evaluations")),
    Column("seconds", measured("total_seconds")),
    exact("biased"),
    SEEDS,
]

_LEGEND = """
total variation: half of ∫|p − q|, p the posterior summed over a grid, q a method's draws smoothed by the best
of three kernels, half of Silverman's bandwidth for 1,500, 90 and 6 draws of one mode; 1,500 exact draws score
{{ floor | spec(".3f") }} ± {{ spread | spec(".3f") }}. KL: ∫ p log(p/q), cross entropy: −∫ p log q, p's own
being {{ entropy | spec(".3f") }}; q is given one thousandth of the prior, so that neither is infinite. KS:
Kolmogorov-Smirnov distance, the larger of both coordinates. mass: of the mode with θ2 < 0, {{ mass |
spec(".3f") }} of the posterior. in its mode: distance of the mean, in sds of the posterior there, and ratio
of sds, within the mode that the method gives more to.
effective: number of weights. visits: rows read. queries: likelihoods evaluated, the particles times the rows.
kernels: evaluations of the kernel between particles.
"""


def _legend(run: Run) -> list[str]:
    arms = SECTION.arms(run)
    if not arms:
        return []
    floor, spread = arms[0].pooled.tv_floor
    _, _, mass, entropy = arms[0].pooled.density_truth
    return words.lines(_LEGEND, floor=floor, spread=spread, mass=mass, entropy=entropy)


def _one_mode(run: Run, arm: ArmResult) -> list[str]:
    """Seeds that gave a mode less than a tenth of what it holds."""
    truth = arm.pooled.density_truth[2]
    share = arm.each("mode_mass")
    lost = int(((share < 0.1 * truth) | (1 - share < 0.1 * (1 - truth))).sum())
    return [f"{lost} of {arm.done} seeds miss a mode."] if lost else []


def _against_cost(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Total variation from the grid's posterior against rows read (above) and likelihood queries (below),
    mean ± 1 sd over seeds. The two axes rank the methods differently.
    """
    figure = new_figure(figsize=(6.4, 6.6), layout="constrained")
    panels = figure.subplots(2, 1)
    panels[0].set_title(title, parse_math=False, wrap=True)
    for panel, cost in zip(panels, _COSTS, strict=True):
        for arm in arms:
            x, values = common(arm, f"curve_{cost}", "curve_tv")
            band(panel, x, values, styles[arm.name], arm.name, positive=True)
        panel.axhline(arms[0].pooled.tv_floor[0], color="grey", linewidth=0.8, linestyle=":")
        label = {"visits": "rows read", "queries": "likelihood queries"}[cost]
        panel.set(xlabel=label, ylabel="total variation", xscale="log", yscale="log")
        round_numbers(panel.yaxis)
    legend_below(figure, panels[0])
    return figure


def _mode_masses(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Mass that the methods give to the mode with θ2 < 0 against rows read, mean ± 1 sd over seeds; the
    dotted line is the posterior's.
    """
    figure, (axis,) = axes(1, title)
    for arm in arms:
        x, values = common(arm, "curve_visits", "curve_mode")
        band(axis, x, values, styles[arm.name], arm.name)
    axis.axhline(arms[0].pooled.density_truth[2], color="grey", linewidth=0.8, linestyle=":")
    axis.set(xlabel="rows read", ylabel="mass of θ2 < 0", xscale="log", ylim=(-0.02, 1.02))
    round_numbers(axis.xaxis)
    legend_below(figure, axis)
    return figure


def _densities(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """The posterior on a grid, and what each method's first seed hands in at its end."""
    points, truth = (np.array(one) for one in arms[0].pooled.density_truth[:2])
    shown = [("posterior", truth), *((arm.name, np.array(arm.pooled.density_shown)) for arm in arms)]
    columns = 4
    rows = -(-len(shown) // columns)
    figure = new_figure(figsize=(7.2, 1.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    (x, column), (y, row) = (np.unique(one.round(6), return_inverse=True) for one in points.T)
    for panel, (name, density) in zip(panels, shown, strict=False):
        image = np.full((len(y), len(x)), np.nan)
        image[row, column] = density
        panel.pcolormesh(x, y, image, cmap="Blues", vmin=0, vmax=1.2 * truth.max(), rasterized=True)
        panel.set_title(name.replace("_", " "), fontsize=8, parse_math=False)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    figure.supxlabel("θ1", fontsize=8)
    figure.supylabel("θ2", fontsize=8)
    return figure


SECTION = Section(
    "density",
    columns="""
        experiment dataset model update arm n_data n_params seeds iterations exact seeds_wanted note
        setup_queries setup_s answers tv tv_sd kl kl_sd ks ks_sd cross_entropy
        cross_entropy_sd mode_mass mode_mass_sd mode_off mode_off_sd mode_sd_ratio mode_sd_ratio_sd
        true_mode_mass true_entropy effective effective_sd total_visits total_visits_sd total_queries
        total_queries_sd kernel_evaluations kernel_evaluations_sd total_seconds total_seconds_sd
    """,
    reads=("tv",), summarise=summarise, pool=pool, row=_row,
    views=lambda rows: [table_view("Distance from the posterior (mean ± sd over seeds)", _COLUMNS, rows)],
    legend=_legend, arm_caveats=_one_mode,
    replaces=("estimates", "paper", "ess", "cost", "chains", "functionals", "bias"),
    figures={"total_variation": _against_cost, "modes": _mode_masses, "densities": _densities},
    code=("flyrun.models.mixture",),
)  # fmt: skip
