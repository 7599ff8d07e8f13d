"""How far a method's density is from a posterior that is known on a grid: at its end, and on the way."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import Answer, Truth, errors
from flyrun.experiments.gold.reference import bound
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws, at_cost
from flyrun.experiments.report.figures import band, bands, common
from flyrun.experiments.report.metrics import (
    EFFECTIVE,
    EXACT,
    KERNELS,
    TOTAL_QUERIES,
    TOTAL_SECONDS,
    TOTAL_VISITS,
    Value,
    each,
    of_cells,
)
from flyrun.experiments.report.section import Plot, Row, Section
from flyrun.ground.diagnostics.distances import ks
from flyrun.ground.page import words
from flyrun.ground.page.figures import axes, grid, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric, word

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
    sd = np.sqrt(np.maximum(square - truth.bandwidths[0] ** 2, 0.0))  # less what the kernel adds
    off = errors(Answer(mean, sd), Truth(centre, np.sqrt(variance), np.zeros(2), "the grid"))
    return float(off.rms), float(off.sd_ratio)


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
    """tv, kl, ks, cross_entropy, mode_mass, mode_off, mode_sd_ratio: at the end.  tv_one_pass: after as many
    rows as there are.  curve_*: tv, kl, mode and costs at every snapshot.
    """
    density, mode = draws.values("estimate", "density"), draws.values("estimate", "mode")
    if density is None or mode is None or not len(density):
        return {}
    truth = _truth(draws)
    variation, divergence = (distance.min(axis=1) for distance in _distances(truth, density))
    kernels = draws.whole("kernel_evaluations")
    off, ratio = _in_its_mode(truth, density[-1, 0])
    every = ((cost, draws.values("estimate", cost)) for cost in (*_COSTS, "seconds"))
    costs = {cost: values for cost, values in every if values is not None}
    effective = draws.values("estimate", "effective")
    return {
        "tv": float(variation[-1]),
        "tv_one_pass": at_cost(costs["visits"], variation, draws.facts["n_data"]),
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
    """density_shown, density_average: of the first seed at its end, and the mean over seeds.  density_truth:
    points, their density, mass of the mode, entropy.  tv_floor: of as many exact draws, mean and sd.
    """
    every = [density for chain in chains if (density := chain.values("estimate", "density")) is not None]
    if not every:
        return {}
    truth = _truth(chains[0])
    floor, ends = _floor(truth), [density[-1] for density in every]
    shown = np.array([end[np.argmin(_distances(truth, end)[0])] for end in ends])
    return {
        "density_shown": shown[0].tolist(),
        "density_average": shown.mean(axis=0).tolist(),
        "density_truth": [truth.points.tolist(), truth.density.tolist(), truth.mass, truth.entropy],
        "tv_floor": [float(floor.mean()), float(floor.std(ddof=1))],
    }


_floors: dict[tuple[bytes, ...], np.ndarray] = {}


def _floor(truth: Any) -> np.ndarray:
    """Total variation, (sets,), of exact draws, smoothed as every method's are; the same for every arm."""
    key = (truth.points.tobytes(), truth.density.tobytes(), truth.bandwidths.tobytes())
    if key not in _floors:
        rng, side = np.random.default_rng(0), np.sqrt(truth.cell)
        least = []
        for _ in range(_FLOOR_SETS):
            chosen = rng.choice(len(truth.points), _FLOOR_DRAWS, p=truth.density / truth.density.sum())
            draws = truth.points[chosen] + side * (rng.random((_FLOOR_DRAWS, 2)) - 0.5)
            smoothed = truth.smoothed(draws, np.full(_FLOOR_DRAWS, 1.0 / _FLOOR_DRAWS))
            least.append(_distances(truth, smoothed)[0].min())
        _floors[key] = np.array(least)
    return _floors[key]


def _truths(which: int) -> Value:
    return lambda run, arm: arm.pooled.density_truth[which]


def _lost(run: Run, arm: ArmResult) -> int:
    """Seeds that gave a mode less than a tenth of what it holds."""
    truth = arm.pooled.density_truth[2]
    share = arm.each("mode_mass")
    return int((~((share >= 0.1 * truth) & (1 - share >= 0.1 * (1 - truth)))).sum())


METRICS = [
    word("answers", "answers", of=lambda run, arm: arm.infos[0].get("answers", "draws")),
    of_cells(
        "tv", "total variation",
        "half of ∫|p − q|, p the posterior on a grid, q a method's draws smoothed by the best of three "
        "kernels: half of Silverman's bandwidth for 1,500, 90 and 6 draws of one mode",
    ),
    of_cells("tv_one_pass", "after one pass", "total variation after as many rows as there are"),
    of_cells("kl", "KL", "∫ p log(p/q), q given one thousandth of the prior"),
    of_cells("ks", "KS", "Kolmogorov-Smirnov distance, the larger of both coordinates"),
    of_cells("cross_entropy", "cross entropy", "−∫ p log q"),
    of_cells("mode_mass", "mass of θ2 < 0", "of the mode with θ2 < 0"),
    Metric("seeds_missing_a_mode", "seeds missing a mode", of=_lost),
    of_cells(
        "mode_off", "in its mode: off (sds)",
        "error of the mean, in sds of the posterior there, within the mode that has more of the draws",
    ),
    of_cells("mode_sd_ratio", "sd ratio", "of sds within that mode"),
    Metric("true_mode_mass", of=_truths(2)),
    Metric("true_entropy", of=_truths(3)),
    EFFECTIVE,
    replace(TOTAL_VISITS, of=each("total_visits")),
    replace(TOTAL_QUERIES, of=each("total_queries"), means="likelihoods evaluated: particles times rows"),
    replace(
        KERNELS, head="kernels", of=each("kernel_evaluations"),
        means="evaluations of the kernel between particles",
    ),
    replace(TOTAL_SECONDS, of=each("total_seconds")),
    replace(
        EXACT,
        means="whether the answer tends to the posterior as its draws or particles grow in number; that of a "
        "descent, which stops after some steps, need not",
    ),
]  # fmt: skip

_LEGEND = """
1,500 exact draws have a total variation of {{ floor | spec(".3f") }} ± {{ spread | spec(".3f") }} and a cross
entropy of {{ entropy | spec(".3f") }}. {{ mass | spec(".3f") }} of the posterior are in the mode with θ2 < 0.
"""


def _legend(run: Run) -> list[str]:
    arms = SECTION.arms(run)
    if not arms:
        return []
    floor, spread = arms[0].pooled.tv_floor
    _, _, mass, entropy = arms[0].pooled.density_truth
    return words.lines(_LEGEND, floor=floor, spread=spread, mass=mass, entropy=entropy)


def _one_mode(run: Run, arm: ArmResult) -> list[str]:
    lost = _lost(run, arm)
    return [f"{lost} of {arm.done} seeds miss a mode."] if lost else []


def _against_cost(of: str, label: str, caption: str) -> Plot:
    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
        figure, panels = grid((6.4, 6.6), rows=2)
        panels[0].set_title(title, parse_math=False, wrap=True)
        for panel, cost in zip(panels, _COSTS, strict=True):
            bands(panel, arms, styles, f"curve_{cost}", f"curve_{of}", positive=True)
            if of == "tv":
                panel.axhline(arms[0].pooled.tv_floor[0], color="grey", linewidth=0.8, linestyle=":")
            across = {"visits": "rows read", "queries": "likelihood queries"}[cost]
            panel.set(xlabel=across, ylabel=label, xscale="log", yscale="log")
            round_numbers(panel.yaxis)
        legend_below(figure, panels[0])
        return figure

    plot.__doc__ = caption
    return plot


def _mode_masses(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Mass that the methods give to the mode with θ2 < 0 against rows read: its mean over seeds (above; the
    dotted line is the posterior's), and its sd over seeds (below): 0.5 where each seed is in one mode.
    """
    figure, (top, bottom) = axes(2, title, height=5.0)
    for arm in arms:
        x, values = common(arm, "curve_visits", "curve_mode")
        band(top, x, values.mean(axis=0)[None], styles[arm.name], arm.name)
        if len(values) > 1:
            band(bottom, x, values.std(axis=0, ddof=1)[None], styles[arm.name], arm.name)
    top.axhline(arms[0].pooled.density_truth[2], color="grey", linewidth=0.8, linestyle=":")
    top.set(ylabel="mass of θ2 < 0", xscale="log", ylim=(-0.02, 1.02))
    bottom.set(xlabel="rows read", ylabel="its sd over seeds", ylim=(-0.02, 0.73))
    round_numbers(bottom.xaxis)
    legend_below(figure, top)
    return figure


def _densities(name: str, caption: str) -> Plot:
    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
        points, truth = (np.array(values) for values in arms[0].pooled.density_truth[:2])
        named = ((arm.name, np.array(getattr(arm.pooled, name))) for arm in arms)
        return _panels(points, truth, [("posterior", truth), *named])

    plot.__doc__ = caption
    return plot


def _panels(points: np.ndarray, truth: np.ndarray, shown: list[tuple[str, np.ndarray]]) -> Any:
    columns = 4
    rows = -(-len(shown) // columns)
    figure, panels = grid((7.2, 1.9 * rows), "", rows, columns, sharex=True, sharey=True)
    (x, column), (y, row) = (np.unique(axis.round(6), return_inverse=True) for axis in points.T)
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
    "density", place=50,
    metrics=METRICS, title="Distance from the posterior (mean ± sd over seeds)", reads=("tv",),
    summarise=summarise, pool=pool,
    legend=_legend, arm_caveats=_one_mode,
    replaces=("accuracy", "paper", "ess", "cost", "chains", "functionals"),
    figures={
        "total_variation": _against_cost(
            "tv", "total variation",
            "Total variation from the grid's posterior against rows read (above) and likelihood queries "
            "(below), mean ± 1 sd over seeds. The two axes rank the methods differently.",
        ),
        "cross_entropy": _against_cost(
            "kl", "cross entropy less entropy, nats",
            "Cross entropy −∫ p log q, less the posterior's own entropy, against rows read (above) and "
            "likelihood queries (below), mean ± 1 sd over seeds.",
        ),
        "modes": _mode_masses,
        "densities": _densities(
            "density_shown", "The posterior on a grid, and what each method's first seed hands in at its end."
        ),
        "average_densities": _densities(
            "density_average",
            "The posterior on a grid, and the mean over seeds of what each method hands in at its end: two "
            "modes here need not be found by one seed.",
        ),
    },
    code=("flyrun.experiments.models.mixture",),
)  # fmt: skip
