"""Effective draws: R-CODA's of each chain, ArviZ's of all together, and R-hat.

Where the likelihood ignores directions the posterior is the prior there, and chains mix well or badly
whatever the data say: a softmax likelihood knows nothing of Θ + 1vᵀ, Θ of K rows, a row a class. ESS is
counted without it too: each column of Θ minus its mean over classes. A method says so with the fact "gauge":
{"classes": K}, θ being Θ row by row.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.gaussian_caveats import about_a_gaussian
from flyrun.experiments.report.metrics import ARM, EXACT, Value, mean, table
from flyrun.experiments.report.section import Row, Section, no_row
from flyrun.ground.diagnostics import coda, ess
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric, mean_sd
from flyrun.ground.page.render import View, bounded, decimals, known

FEW_DRAWS = 100
# Of chains that have not been everywhere ESS is too high; such as these may enter a ratio.
SETTLED_RHAT, SETTLED_DRAWS = 1.1, 200
# Efficiency of random-walk and Langevin steps is flat around the target; a quarter off is still harmless.
ACCEPTANCE_SLACK = 0.25
_MEANS = {"queries_per_iter": "queries", "accept_rate": "accepted", "bright_mean": "bright"}
_BLOCK_BYTES = 256 * 2**20


def summarise(draws: Draws) -> Row:
    """R-CODA's effective draws of θ (ess) and of (θ - mean)² (square), by coordinate; free, free_square: the
    same without the gauge, empty where there is none. Means of queries, acceptance, bright data.
    """
    if not draws.real():
        return {}
    positions = draws.positions()
    classes = _classes(draws.facts)
    free = centred(positions, classes) if classes else None
    stats = {name: draws.values("sample_stats", stat) for name, stat in _MEANS.items()}
    return {
        "n_iterations": len(draws.file["sample_stats/draw"]),
        "ess": sizes(positions).tolist(),
        "square": sizes(squares(positions)).tolist(),
        "free": [] if free is None else sizes(free).tolist(),
        "free_square": [] if free is None else sizes(squares(free)).tolist(),
        **{name: math.nan if stat is None else float(stat.mean()) for name, stat in stats.items()},
    }


def pool(chains: list[Draws]) -> Row:
    """ESS in draws of all chains, and R-hat, by coordinate, in blocks; of unequal chains the last draws."""
    if not all(draws.real() for draws in chains):
        return {}
    n_draws, n_params = min(draws.shape for draws in chains)
    block = max(1, _BLOCK_BYTES // (8 * n_draws * len(chains)))
    parts = []
    for start in range(0, n_params, block):
        span = slice(start, start + block) if block < n_params else slice(None)
        largest = max(x for draws in chains for x in (0.0, *draws.kept.ess[span]) if x >= 0)
        parts.append(ess.summary(np.stack([draws.positions(span)[-n_draws:] for draws in chains]), largest))
    columns = [np.concatenate(values).tolist() for values in zip(*parts, strict=True)]
    free: list[list[float]] = [[], []]
    for rows in _blocks(n_params, block, _classes(chains[0].facts)):
        whole = [np.hstack([draws.positions(span)[-n_draws:] for span in rows]) for draws in chains]
        part = ess.summary(
            np.stack([centred(values, len(rows)) for values in whole]), wanted=("bulk", "square")
        )
        free[0] += part.bulk.tolist()
        free[1] += part.square.tolist()
    keys = (*ess.Summary._fields, "free_bulk", "free_square")
    return {"names": chains[0].labels()} | dict(zip(keys, [*columns, *free], strict=True))


def sizes(draws: np.ndarray) -> np.ndarray:
    """R-CODA's effective draws by coordinate, (T, D) to (D,), NaN when there are too few to fit.

    coda calls a chain constant when its sd is below 1.5e-8; columns are brought to unit size first, so
    that a parameter measured in small units is not taken for one.
    """
    if draws.shape[0] < 3:
        return np.full(draws.shape[1], np.nan)
    spread = np.ptp(draws, axis=0)
    return coda.effective_size((draws - draws[0]) / np.where(spread > 0, spread, 1))


def squares(draws: np.ndarray) -> np.ndarray:
    """(θ - mean)², (T, D): means of antithetic chains converge fast and hide a spread that does not."""
    return (draws - draws.mean(axis=0)) ** 2


def centred(draws: np.ndarray, n_classes: int) -> np.ndarray:
    """(T, K·W) draws of W columns of Θ, minus their means over classes."""
    rows = draws.reshape(len(draws), n_classes, -1)
    return (rows - rows.mean(axis=1, keepdims=True)).reshape(draws.shape)


def _blocks(n_params: int, size: int, n_classes: int) -> Iterator[list[slice]]:
    """Coordinates about `size` at a time, all classes of a column together: a slice for each class."""
    if not n_classes:
        return
    width = n_params // n_classes
    step = max(1, size // n_classes)
    for start in range(0, width, step):
        end = min(start + step, width)
        yield [slice(k * width + start, k * width + end) for k in range(n_classes)]


def _classes(facts: dict[str, Any]) -> int:
    return int((facts.get("gauge") or {}).get("classes", 0))


def per_seed(arm: ArmResult, name: str) -> np.ndarray:
    """One value per finished seed, (S,), of a column of the table; NaN for what its cells do not have."""
    means, square, free, free_square = (
        np.array([np.mean(values) if (values := getattr(cell, key)) else math.nan for cell in arm.cells])
        for key in ("ess", "square", "free", "free_square")
    )
    gauge_free = np.where(np.isnan(free), means, free)
    squares_ = np.where(np.isnan(free), square, free_square)
    queries, n_iterations = arm.each("queries_per_iter"), arm.each("n_iterations")
    seconds = np.array([info["timings"]["sampling_s"] for info in arm.infos], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "queries_per_iter": queries,
            "ess_per_1000": 1000 * means / n_iterations,
            "ess_gauge_free_per_1000": 1000 * free / n_iterations,
            "ess_square_per_1000": 1000 * squares_ / n_iterations,
            "ess_worse_per_1000": 1000 * np.minimum(gauge_free, squares_) / n_iterations,
            "queries_per_ess": queries * n_iterations / means,
            "us_per_iter": 1e6 * seconds / n_iterations,
            "ess_per_s": means / seconds,
        }[name]


def each(name: str) -> Value:
    """A metric's value by seed."""
    return lambda run, arm: per_seed(arm, name)


def base_of(run: Run, arm: ArmResult) -> ArmResult | None:
    """The finished arm with draws that this one is relative to: the baseline, or what was swept from it, on
    this arm's own data and model.

    None where there is none, and for a biased arm, whose draws are not of the posterior.
    """
    if arm.fact("exact") is False or run.baseline is None:
        return None
    swept = (other for other in run.arms if other.sweep and other.sweep["arm"] == run.baseline.own_name)
    base = next((candidate for candidate in (run.baseline, *swept) if candidate.problem == arm.problem), None)
    return base if base is not None and SECTION.about(base) else None


def put_speedup(row: Row, name: str, arm: ArmResult, base: ArmResult | None, ess: str) -> None:
    """The column `name`: the ratio of the arms' `ess` per query."""
    put_ratio(row, name, arm, base, lambda side: (per_seed(side, ess), per_seed(side, "queries_per_iter")))


def put_ratio(
    row: Row,
    name: str,
    arm: ArmResult,
    base: ArmResult | None,
    of: Callable[[ArmResult], tuple[np.ndarray, ...]],
) -> None:
    """The column `name`: the ratio of the arms' gains per cost, of which `of` gives one each by seed, (S,).

    Its sd takes them as independent: speedup · sqrt(cv² + cv_base²), cv = sd / mean over seeds.
    """
    if base is None:
        return
    (ours, queries), (theirs, base_queries) = of(arm), of(base)
    row[name] = ratio(ratio(ours.mean(), queries.mean()), ratio(theirs.mean(), base_queries.mean()))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = cv_of_ratio(ours / queries, theirs / base_queries)
    # A ratio of a number with itself has no spread.
    row[f"{name}_sd"] = 0.0 * row[name] if arm is base else row[name] * spread


def _ratio_bound(arm: ArmResult, base: ArmResult | None) -> str:
    """What a ratio of ESS is where chains are unsettled, whose ESS is less than it seems: ≥, ≤, ~ or ""."""
    if base is None or base is arm:
        return ""
    return {(True, True): "", (True, False): "≥", (False, True): "≤"}.get(
        (_settled(arm), _settled(base)), "~"
    )


def _settled(arm: ArmResult) -> bool:
    """Whether an arm's chains agree and have drawn enough for ESS to be known, without the gauge if any."""
    rhat = float(np.nanmax([1.0, *arm.pooled.rhat]))
    return rhat <= SETTLED_RHAT and float(np.min(arm.pooled.free_bulk or arm.pooled.bulk)) >= SETTLED_DRAWS


def ratio(a: float, b: float) -> float:
    """a / b; NaN for nothing."""
    return float(a / b) if b else math.nan


def cv_of_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Coefficient of variation of a ratio of two independent means, of (S,) each, to first order."""
    return math.hypot(*(ratio(sd, mean) for mean, sd in (mean_sd(a), mean_sd(b))))


def _smallest(kind: str) -> Value:
    """ArviZ's ESS of the worst coordinate, of all chains together, per 1,000 iterations."""

    def value(run: Run, arm: ArmResult) -> float:
        sizes = getattr(arm.pooled, kind)
        return 1000 * float(np.min(sizes or math.nan)) / sum(cell.n_iterations for cell in arm.cells)

    return value


def _largest_rhat(run: Run, arm: ArmResult) -> float:
    rhat = np.array(arm.pooled.rhat)
    return float(np.nanmax(rhat)) if not np.isnan(rhat).all() else math.nan


def _over_coordinates(statistic: Callable[[list[float]], Any]) -> Value:
    return lambda run, arm: np.mean([1000 * statistic(cell.ess) / cell.n_iterations for cell in arm.cells])


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"gradients": arm.fact("gradients"), "accept_target": arm.setting("sampler", "target_accept")}
    base = base_of(run, arm)
    row["ratio_bound"] = _ratio_bound(arm, base)
    for kind in ("gauge_free", "worse"):
        put_speedup(row, f"speedup_{kind}", arm, base, f"ess_{kind}_per_1000")
    return row


def judged_by_the_worse(rows: list[Row], first: Metric) -> list[View]:
    """ESS without the gauge, and of squares; nothing for runs with neither a gauge nor gradients."""
    gauge = any(known(row["ess_gauge_free_per_1000"]) for row in rows)
    if not gauge and not any(row["gradients"] is True for row in rows):
        return []
    title = ("Without the gauge, and by" if gauge else "By") + " the worse of means and squares"
    return [table(f"{title} (ESS/1000 iter)", _WORSE if gauge else _WORSE[2:], rows, first)]


_WORSE = [
    Metric(
        "ess_gauge_free_per_1000", "gauge-free ESS", each("ess_gauge_free_per_1000"),
        "of Θ less its mean over classes, which the likelihood ignores", by_seed=True,
    ),
    Metric(
        "speedup_gauge_free", "speedup", means="of these per query, relative to the regular arm",
        by_seed=True, text=bounded("speedup_gauge_free"),
    ),
    Metric(
        "ess_square_per_1000", "square ESS", each("ess_square_per_1000"),
        "R-CODA's of (θ - mean)², mean over coordinates", by_seed=True,
    ),
    Metric(
        "ess_worse_per_1000", "worse ESS", each("ess_worse_per_1000"),
        "the smaller of means' and squares'", by_seed=True,
    ),
    Metric(
        "speedup_worse", "speedup", means="of the worse per query, relative to the regular arm",
        by_seed=True, text=bounded("speedup_worse"),
    ),
]  # fmt: skip
_DIAGNOSTICS = [
    EXACT,
    Metric("rhat_max", "R-hat max", _largest_rhat, text=decimals("rhat_max", 3)),
    Metric(
        "ess_bulk_min_per_1000", "bulk ESS", _smallest("bulk"), "ArviZ's, of all chains together", digits=2
    ),
    Metric("ess_tail_min_per_1000", "tail ESS", _smallest("tail"), digits=2),
    Metric(
        "ess_square_min_per_1000", "square ESS", _smallest("square"),
        "of (θ - mean)², which antithetic chains cannot flatter", digits=2,
    ),
    Metric("accept_rate", "accept rate", mean("accept_rate"), text=decimals("accept_rate", 3)),
    Metric("bright_mean", "bright mean", mean("bright_mean")),
]  # fmt: skip
METRICS = [
    *_DIAGNOSTICS,
    *_WORSE,
    Metric("ess_median_per_1000", of=_over_coordinates(np.median)),
    Metric("ess_min_per_1000", of=_over_coordinates(np.min)),
    Metric("ess_bulk_min", of=lambda run, arm: float(np.min(arm.pooled.bulk))),
    Metric("ess_gauge_free_bulk_min_per_1000", of=_smallest("free_bulk")),
    Metric("ess_gauge_free_square_min_per_1000", of=_smallest("free_square")),
    *(Metric(name) for name in ("accept_target", "ratio_bound", "gradients")),
]


def _views(rows: list[Row]) -> list[View]:
    title = "Diagnostics (ESS of the worst coordinate, per 1,000 iterations)"
    return [*judged_by_the_worse(rows, ARM), table(title, _DIAGNOSTICS, rows)]


_LEGEND = """
{% if bounds %}
≥, ≤: a bound, because a chain has R-hat above {{ rhat }} or fewer than {{ draws }} bulk-effective draws, and
so less ESS than it seems: lower where the regular arm is such, upper where this arm is. ~: both are.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    bounds = any(_ratio_bound(arm, base_of(run, arm)) for arm in SECTION.arms(run))
    return words.lines(_LEGEND, bounds=bounds, rhat=SETTLED_RHAT, draws=SETTLED_DRAWS)


_ARM_CAVEATS = """
{% if biased %}
this sampler is biased: its draws do not follow the posterior exactly.

{% endif %}
{% if still %}
the chain of seed {{ still | join(", ") }} never moved; it counts with an ESS of 0.

{% endif %}
{% if few %}
low ESS (mean {{ total | spec(",.0f") }}, worst {{ worst | spec(",.0f") }}, over {{ n_runs }}
{{ "chain" if n_runs == 1 else "chains" }}): treat its means and ESS as rough.

{% endif %}
{% if several %}
seeds have targets of their own, so R-hat and the ESS of all runs together tell of these too.

{% elif rhat.max(initial=1.0) > high %}
the runs do not agree yet: R-hat is {{ rhat.max() | spec(".2f") }} for {{ names[rhat.argmax()] }} and above {{
high }} for {{ (rhat > high).sum() }} of {{ rhat.size }} coordinates; run longer.

{% endif %}
{% for text in gaussian %}
{{ text }}

{% endfor %}
{% if mistuned %}
acceptance is {{ rate | spec(".2f") }}, not near its target {{ target | spec("g") }}; a longer burn-in tunes
better.
{% endif %}
"""


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    pooled, seeds = arm.pooled, [info["seed"] for info in arm.infos]
    # The ESS itself is an estimate: with few effective draws it may be off by half.
    worst = float(np.min(pooled.free_bulk or pooled.bulk))
    total = float(sum(np.mean(cell.free or cell.ess) for cell in arm.cells))
    target, rate = arm.setting("sampler", "target_accept"), arm.each("accept_rate").mean()
    tuned = target and arm.setting("sampler", "step") is None
    several = arm.fact("one_target") is False
    least = total if several else np.minimum(total, worst)
    return words.lines(
        _ARM_CAVEATS,
        biased=arm.fact("exact") is False,
        still=[seed for seed, cell in zip(seeds, arm.cells, strict=True) if np.max(cell.ess) == 0],
        few=not least >= FEW_DRAWS, several=several,
        mistuned=tuned and abs(rate - target) > ACCEPTANCE_SLACK * target,
        gaussian=about_a_gaussian(arm),
        rhat=np.nan_to_num(np.array(pooled.rhat), nan=1.0, posinf=np.inf),
        names=pooled.names, high=ess.HIGH_RHAT, n_runs=arm.done, total=total, worst=worst, rate=rate,
        target=target,
    )  # fmt: skip


_CAVEATS = """
{% if lengths|unique|list|length > 1 %}
The arms differ in iterations after burn-in ({{ counted }}); compare ESS at equal length only.

{% endif %}
{% for every, names in thinned %}
R-CODA sees one of {{ every }} draws of {{ names | join(", ") }} (protocol.thin={{ every }}), as others are
not kept: of all draws it would find another ESS.

{% endfor %}
"""


def _caveats(run: Run) -> list[str]:
    lengths = {arm.name: arm.cells[0].n_iterations for arm in SECTION.arms(run)}
    thinned: dict[int, list[str]] = {}
    for arm in SECTION.arms(run):
        if (every := int(arm.infos[0].get("thin") or 1)) > 1:
            thinned.setdefault(every, []).append(arm.name)
    counted = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
    return words.lines(_CAVEATS, lengths=lengths.values(), counted=counted, thinned=thinned.items())


SECTION = Section(
    "ess", place=220,
    metrics=METRICS, reads=("ess",), summarise=summarise, pool=pool, row=_row, planned=no_row,
    views=_views, legend=_legend, arm_caveats=_arm_caveats, caveats=_caveats,
    code=("flyrun.ground.diagnostics.coda", "flyrun.ground.diagnostics.ess"),
)  # fmt: skip
