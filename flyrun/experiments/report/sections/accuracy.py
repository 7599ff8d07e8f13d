"""How far an arm's answer is from the posterior, and what it cost: of any answers, and of biased draws."""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from flyrun.experiments.accuracy.posterior_errors import Answer, Errors, Truth, errors, rms
from flyrun.experiments.accuracy.truth import (
    answer_by_draws,
    answer_of,
    apart,
    chains_alone,
    exact_arm,
    truth_of,
    with_draws,
)
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import (
    EXACT,
    EXPECTED_SD_RATIO,
    OFF,
    OFF_WORST,
    SD_RATIO,
    SD_RATIO_LEAST,
    SD_RATIO_MOST,
    TOTAL_QUERIES,
    TOTAL_SECONDS,
    TOTAL_VISITS,
    TRUTH,
    TRUTH_ERROR,
)
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import ess
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric, put, word
from flyrun.ground.page.render import NOTHING, known, number, plus_minus, spec
from flyrun.ground.schema import listing

DRAWS = 1_000
"""Over so many effective draws set-up is spread."""

FEW_EFFECTIVE = 200  # below it means and sds are too rough to tell a small bias
_FEW = 8  # coordinates, whose quantiles are kept
_LEVELS = (np.arange(200) + 0.5) / 200
_BEYOND = NormalDist().cdf(-3.0)  # what of a normal distribution is above 3 sds


def summarise(draws: Draws) -> Row:
    """total_queries, total_visits, total_seconds: set-up included.  final_mean, final_sd: as handed in at the
    end.  draws_mean, draws_sd: of the draws after burn-in, by coordinate; empty where there are none.
    quantiles: of draws of few coordinates, (Q, D).
    """
    mean, queries, seconds = (draws.values("estimate", name) for name in ("mean", "queries", "seconds"))
    if mean is None or queries is None or seconds is None or not len(mean):
        return {}
    square, visits = draws.values("estimate", "square"), draws.values("estimate", "visits")
    positions = draws.positions() if draws.real() else None
    few = {}
    if positions is not None and positions.shape[1] <= _FEW:
        few = {"quantiles": np.quantile(positions, _LEVELS, axis=0).tolist()}
    return few | {
        "total_visits": float("nan") if visits is None else float(visits[-1]),
        "final_sd": [] if square is None else np.ravel(_sd(mean[-1], square[-1])).tolist(),
        "total_queries": float(queries[-1]),
        "total_seconds": float(seconds[-1]),
        "final_mean": np.ravel(mean[-1]).tolist(),
        "draws_mean": [] if positions is None else positions.mean(axis=0).tolist(),
        "draws_sd": [] if positions is None else positions.std(axis=0).tolist(),
    }


def _sd(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(square - mean**2, 0.0))


def _biased(arm: ArmResult) -> bool:
    return arm.exact is False and arm.has("ess") and with_draws(arm)


def _wanted(run: Run) -> bool:
    """Whether an arm answers with something else than draws, or its draws are biased."""
    draws = not run.info.get("arena") and any(map(_biased, run.arms))
    return draws or not chains_alone(run)


def _row(run: Run, arm: ArmResult) -> Row:
    alone = chains_alone(run)
    row = {} if alone else _costs(arm) | {"answers": arm.infos[0].get("answers", "draws")}
    if arm.has("ess"):
        row |= _costs_of_draws(arm)
    if not math.isnan(expected := arm.fact_mean("expected_sd_ratio")):
        row["expected_sd_ratio"] = expected
    if alone:
        row["ks"], row["ks_error"] = _kolmogorov_smirnov(run, arm)
    truth = truth_of(run, arm)
    if truth is None:
        return row
    row |= {"truth": truth.source, "truth_error": rms(truth.error), "truth_error_worst": np.max(truth.error)}
    answer = answer_of(run, arm, truth)
    if answer is not None:
        row |= distances(errors(answer, truth))
    draws = answer_by_draws(arm, truth)
    if draws is not None:
        names = arm.pooled.names
        judged = (
            _by_split(draws, truth, names) if apart(arm) else _together(draws, truth, names, len(run.arms))
        )
        row |= judged | {"judged": _JUDGED[apart(arm)]} if alone else {key: judged[key] for key in _FAR}
    return row


_FAR = ("off_z", "off_z_of", "off_the_truth")
"""What is told of draws beside other answers, too: theirs alone tell a bias from chance."""

_JUDGED = {False: "all draws", True: "each split"}


def distances(gap: Errors) -> Row:
    """off: root mean square over coordinates, off_worst: the largest size; mean over answers. sd_ratio:
    geometric mean, and of each coordinate's mean over answers the least and the most.
    """
    row: Row = {}
    put(row, "off", gap.rms)
    put(row, "off_worst", gap.worst)
    if gap.ratio.size:
        each = gap.ratio.mean(axis=0)
        put(row, "sd_ratio", gap.sd_ratio)
        row |= {"sd_ratio_least": float(each.min()), "sd_ratio_most": float(each.max())}
    return row


def _together(answer: Answer, truth: Truth, names: list[str], arms: int) -> Row:
    """Of draws put together: the worst coordinate, with its sign, and the mean or sd that is most of its own
    standard errors off; far off, where the largest of all arms' is as rarely so large as one normal number
    is beyond 3.
    """
    gap = errors(answer, truth)
    off, error = gap.off[0], gap.error[0]
    worst = int(np.argmax(np.abs(off)))
    with np.errstate(divide="ignore", invalid="ignore"):
        both = {"mean": off / error, "sd": np.log(gap.ratio[0]) / gap.ratio_error[0]}
    what = max(both, key=lambda name: np.nanmax(np.abs(both[name])))
    farthest = int(np.nanargmax(np.abs(both[what])))
    limit = -NormalDist().inv_cdf(_BEYOND / (2 * len(off) * arms))
    return {
        "off_error": float(rms(error)),
        "off_by_chance": float(rms(error)),
        "off_worst": float(off[worst]),
        "off_worst_error": float(error[worst]),
        "off_worst_of": names[worst],
        "off_z": float(both[what][farthest]),
        "off_z_of": f"{what} of {names[farthest]}",
        "off_the_truth": bool(abs(both[what][farthest]) > limit),
    }


def _by_split(answer: Answer, truth: Truth, names: list[str]) -> Row:
    """Of splits that are judged one by one: standard errors over them, and the coordinate that is the worst
    on average; far off, where means or sds are surely more than twice as far off as chance makes them.
    """
    gap, n = errors(answer, truth), len(answer.mean)
    size = np.abs(gap.off).mean(axis=0)
    row: Row = {"off_worst_of": names[int(np.argmax(size))], "off_by_chance": float(rms(gap.error).mean())}
    surely = float(stdtrit(n - 1, 0.975)) if n > 1 else math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        both = {"mean": (gap.rms, gap.error), "sd": (rms(np.log(gap.ratio)), gap.ratio_error)}
        far = {}
        for what, (each, error) in both.items():
            chance = rms(error).mean()
            far[what] = each.mean() / chance, each.mean() - surely * _se(each) > 2 * chance
    what = max(far, key=lambda name: far[name])
    return row | {
        "off_error": _se(gap.rms),
        "off_worst_error": _se(gap.worst),
        "sd_ratio_error": _se(gap.sd_ratio),
        "off_z": float(far[what][0]),
        "off_z_of": f"{what}s, over chance",
        "off_the_truth": any(bool(sure) for _, sure in far.values()),
    }


def _se(each: np.ndarray) -> float:
    """Standard error of the mean over seeds, (S,); NaN of one."""
    return float(np.std(each, ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan


def _costs(arm: ArmResult) -> Row:
    row: Row = {}
    for name in ("total_queries", "total_seconds", "total_visits"):
        put(row, name, arm.each(name))
    return row


def _costs_of_draws(arm: ArmResult) -> Row:
    """What an effective draw costs, by the worse of means and squares."""
    queries, size = arm.each("queries_per_iter").mean(), ess.per_seed(arm, "ess_worse_per_1000").mean()
    # a test that reads a datum at both ends asks twice; a step that no test came to (delayed) reads none
    bright = (
        arm.each("bright_mean").mean() if arm.setting("acceptance", "terms", default="") != "both" else np.nan
    )
    read = np.nanmin([bright, queries])
    per_draw = ess.ratio(1000.0 * queries, size)
    return {
        "data_read": read / arm.fact("n_data", math.nan),
        "queries_per_draw": per_draw,
        "queries_per_draw_with_setup": per_draw + arm.fact_mean("setup_queries") / DRAWS,
        "effective_draws": size * sum(cell.n_iterations for cell in arm.cells) / 1000.0,
    }


def _kolmogorov_smirnov(run: Run, arm: ArmResult) -> tuple[float, float]:
    """Distance of draws' distribution functions from those of the exact arm, to 0.005: the largest over
    coordinates, mean over seeds and its standard error; NaN where it is not known.
    """
    base = exact_arm(run, arm)
    if base is None or base is arm or not (base.has("quantiles") and arm.has("quantiles")):
        return math.nan, math.nan
    right = np.mean([cell.quantiles for cell in base.cells], axis=0)
    gaps = []
    for cell in arm.cells:
        columns = zip(np.array(cell.quantiles).T, right.T, strict=True)
        gaps.append(max(np.abs(np.interp(ours, other, _LEVELS) - _LEVELS).max() for ours, other in columns))
    return float(np.mean(gaps)), _se(np.array(gaps))


def _off(row: Row) -> str:
    error = row.get("off_error")
    return plus_minus(row.get("off"), error if known(error) else row.get("off_sd"))


def _worst(row: Row) -> str:
    if not known(row.get("off_worst_error")):
        return plus_minus(row.get("off_worst"), row.get("off_worst_sd"))
    signed = "" if row.get("judged") == _JUDGED[True] else "+"  # over splits signs would cancel
    ends = spec(row["off_worst"], f"{signed}.2f"), spec(row["off_worst_error"], ".2f")
    return f"{ends[0]} ± {ends[1]}, {row['off_worst_of']}"


def _farthest(row: Row) -> str:
    if not known(row.get("off_z")):
        return NOTHING
    signed = "" if row.get("judged") == _JUDGED[True] else "+"
    off = spec(row["off_z"], f"{signed}.1f")
    return "off the truth: " * bool(row["off_the_truth"]) + f"{off}, {row['off_z_of']}"


def _ratio(row: Row) -> str:
    error = row.get("sd_ratio_error")
    return plus_minus(row.get("sd_ratio"), error if known(error) else row.get("sd_ratio_sd"))


def _ks(row: Row) -> str:
    value, error = row.get("ks"), row.get("ks_error")
    return plus_minus(value, error) if known(error) else number(value, 2)


METRICS = [
    word("answers", "answers"),
    EXACT,
    word("judged", "judged by", means="all draws of all seeds together, or each split of the data by itself"),
    replace(
        OFF, text=_off,
        means="error of the mean, in sds of the posterior, root mean square over coordinates",
    ),
    Metric("off_error"),
    replace(OFF_WORST, text=_worst, means="the same of the worst coordinate"),
    Metric("off_worst_error"),
    Metric("off_worst_of"),
    replace(
        SD_RATIO, text=_ratio,
        means="sds over the posterior's, geometric mean over coordinates, least and most",
    ),
    Metric("sd_ratio_error"),
    SD_RATIO_LEAST,
    SD_RATIO_MOST,
    replace(EXPECTED_SD_RATIO, means="as expected of a Gaussian posterior and such steps"),
    Metric(
        "ks", "KS", text=_ks,
        means="Kolmogorov-Smirnov distance from the exact arm, largest coordinate, ± its error over seeds",
    ),
    Metric("ks_error"),
    Metric(
        "off_z", "farthest (its se)", text=_farthest,
        means="the mean or sd that is most of its own standard errors off; off the truth: by what is as rare "
        "for the largest of all arms' as 3 is for one. Of splits, root mean squares over what chance makes "
        "of them; off the truth: at 95 % more than twice that",
    ),
    Metric("off_z_of"),
    Metric("off_the_truth"),
    Metric("data_read", "data read", means="share of the data that a test or a step looked at", digits=2),
    Metric(
        "queries_per_draw", "queries/draw", means="for an effective draw, by the worse of means and squares"
    ),
    Metric("queries_per_draw_with_setup", "with set-up", means=f"set-up spread over {DRAWS:,} draws"),
    Metric("effective_draws"),
    TOTAL_QUERIES,
    TOTAL_VISITS,
    TOTAL_SECONDS,
    replace(
        TRUTH_ERROR, head="truth's error", digits=2,
        means="Monte Carlo error of the truth's own mean, below which nothing is seen",
    ),
    Metric("truth_error_worst", "its worst", digits=2),
    TRUTH,
]  # fmt: skip

_LEGEND = """
{% if truths %}
{% if alone %}
All draws of an arm are judged together against {{ truths }}, ± Monte Carlo error, or what seeds differ by
where that is more. Where every seed has a split of the data of its own, each is judged by itself, in absolute
value, mean ± standard error over splits.
{% else %}
Each seed is judged by what it hands in (off ± sd over seeds) against {{ truths }}; farthest is of all draws
of an arm together, or of each split by itself.
{% endif %}
{% if biased %}
An effective draw of a biased arm is one of another distribution, so it has no speedup.
{% endif %}
{% else %}
off is not known: no exact arm with draws is finished.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    truths = dict.fromkeys(truth.source for arm in SECTION.arms(run) if (truth := truth_of(run, arm)))
    biased = any(map(_biased, run.arms))
    return words.lines(_LEGEND, truths=listing(truths), alone=chains_alone(run), biased=biased)


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not (arm.has("ess") and any(map(_biased, run.arms))):
        return []
    drawn = _costs_of_draws(arm)["effective_draws"]
    text = f"its bias rests on {drawn:,.0f} effective draws, by the worse of means and squares."
    return [text] if not drawn >= FEW_EFFECTIVE else []


def _caveats(run: Run) -> list[str]:
    others = [arm for arm in run.done if arm.infos[0].get("answers", "draws") != "draws"]
    biased = [arm.name for arm in others if arm.exact is False]
    lines = [f"Approximations, which never become the posterior however long they run: {listing(biased)}."]
    if any(truth_of(run, arm) for arm in run.done):
        return lines if biased else []
    unknown = "No exact arm of this run has draws, so how far the others are from the posterior is not known."
    return [*(lines if biased else []), unknown]


SECTION = Section(
    "accuracy", place=150,
    metrics=METRICS, title="How far answers are from the posterior", reads=("final_mean",),
    when=_wanted, summarise=summarise, row=_row, legend=_legend, arm_caveats=_arm_caveats, caveats=_caveats,
)  # fmt: skip
