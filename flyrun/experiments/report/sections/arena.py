"""Every method's error against its cost: who is best at a budget, and what errors are made of."""

import math
import shlex
from typing import NamedTuple

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import at_budget
from flyrun.experiments.gold import store
from flyrun.experiments.report.arena_curves import Z, curves, regimes
from flyrun.experiments.report.arena_errors import MOST, NOISE, PASSES, SHOWN, errors_of, held, pool
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.metrics import k_hat, table
from flyrun.experiments.report.section import Row, Section
from flyrun.ground.diagnostics.psis import heavy
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric, per_cent, said, word
from flyrun.ground.page.render import NOTHING, View, known, number
from flyrun.ground.schema import listing

FALLING = 0.75  # what is left of a squared bias that still falls, of what it was half of the way before
_FALLING = "still falling when it ended"


class _Standing(NamedTuple):
    """An arm at a budget. ended: passes after which it did, where that was before. which: moments have the
    larger error, 0 means, 1 variances.
    """

    arm: ArmResult
    error: float
    se: float
    floor: float
    ended: float | None = None
    which: int = 0

    @property
    def at_floor(self) -> bool:
        """Whether it is not told from the truth."""
        return self.error <= NOISE * self.floor

    @property
    def text(self) -> str:
        """What it is worth."""
        ended = "" if self.ended is None else f", ended after {number(self.ended, 2)}"
        return f"{self.arm.own_name} ({'at least ' * self.at_floor}{number(1 / self.error, 2)}{ended})"


def standing(arm: ArmResult, passes: float) -> _Standing | None:
    """An arm by a budget: the larger error, less the reference's own, never below NOISE times that."""
    arena = errors_of(arm)
    errors, se = (at_budget(PASSES, passes, np.array(arena[name], float).T) for name in ("mse", "se"))
    if np.isnan(errors).any():
        return None
    floors = np.array(arena["floors"])
    judged = np.where(errors < NOISE * floors, NOISE * floors, errors - floors)
    worse = int(np.argmax(judged))
    ended = None if _ran(arm, passes) else float(arena["ended"])
    return _Standing(arm, float(judged[worse]), float(se[worse]), float(floors[worse]), ended, worse)


def _ran(arm: ArmResult, passes: float) -> bool:
    """Whether every seed ran so far; a step may be a little longer than what is left of a budget."""
    return passes <= 1.01 * errors_of(arm)["ended"]


def tied(first: _Standing, other: _Standing) -> bool:
    """Whether two arms cannot be told apart: neither by their errors' difference nor, as a few seeds that are
    still far off make one error large and unsure, by their ratio."""
    if first.at_floor and other.at_floor:
        return True
    se = math.hypot(*np.nan_to_num([first.se, other.se]))
    if se <= 1e-9 * first.error:
        return max(first.error, other.error) < 1.2 * min(first.error, other.error)
    ratio_se = math.hypot(*np.nan_to_num([first.se / first.error, other.se / other.error]))
    return abs(first.error - other.error) < Z * se and abs(math.log(first.error / other.error)) < Z * ratio_se


def regime(arm: ArmResult) -> str:
    """What the larger error of an arm is made of where it ended, or after MOST passes."""
    last = standing(arm, MOST)
    if last is None:
        return "no estimate yet"
    if last.at_floor:
        return "at the floor"
    (bias, spread), (before, _) = (
        np.array(errors_of(arm)[name], float)[:, last.which] for name in ("end", "half")
    )
    if bias <= spread:
        return "variance"
    return _FALLING if bias < FALLING * before else "bias that did not fall"


def falling(arm: ArmResult) -> bool:
    """Whether its error is known, and more steps would have made it less."""
    return bool(held([arm])) and regime(arm) == _FALLING


def _row(run: Run, arm: ArmResult) -> Row:
    if not held([arm]):
        return {}
    arena = errors_of(arm)
    row: Row = {"reference": arena["gold"], "regime": regime(arm), "ended": arena["ended"]}
    for passes in SHOWN:
        if _ran(arm, passes) and (place := standing(arm, passes)):
            row |= {f"error_{passes:g}": place.error, f"error_{passes:g}_se": place.se}
    if place := standing(arm, MOST):
        worst = float(np.max(np.array(arena["worst"], float)[:, np.searchsorted(PASSES, MOST)]))
        row |= {"draws_worth": 1 / place.error, "worst": worst}
    return row | {name: arena[name] for metric in _END if (name := metric.name) in arena}


def _error(passes: float) -> Metric:
    def text(row: Row) -> str:
        value, se = (row.get(f"error_{passes:g}{end}") for end in ("", "_se"))
        if not known(value):
            return NOTHING
        return number(value, 2) + (f" ± {number(se, 1)}" if known(se) and se > 1e-9 * value else "")  # type: ignore[operator]

    means = (
        "the larger of the mean squared errors of posterior means and variances, in units where n exact "
        "draws have 1/n, less the reference's own; ± its standard error over seeds"
    )
    head = f"error, {passes:g} {'pass' if passes == 1 else 'passes'}"
    return Metric(f"error_{passes:g}", head, text=text, means=means if passes == SHOWN[0] else "")


_RANKING = [
    *map(_error, SHOWN),
    Metric("ended", "ended after", digits=2, means="passes"),
    Metric(
        "draws_worth", f"draws' worth, {MOST:,g} passes", digits=2,
        means="1/error: so many independent exact draws would do as well; where it ended before, then",
    ),
    Metric("worst", "worst coordinate", means="the largest squared error of any", digits=2),
    word(
        "regime", "regime",
        means="what the error is made of there: variance; a bias that the last half of the steps took a "
        "quarter of, or more, so that it was still falling when it ended; a bias that did not fall; or none "
        "that the reference can tell, at the floor",
    ),
]  # fmt: skip
_END = [
    Metric(
        "tails", "1 and 99 %", means="errors of these quantiles, in sds, mean over coordinates", digits=2
    ),
    Metric(
        "coverage", "90 % interval holds", text=per_cent("coverage", 1),
        means="share of the posterior in the central 90 % interval",
    ),
    Metric("w1", "W1", means="Wasserstein distance in sds; two exact sets of 2,000 draws: 0.04", digits=2),
    Metric("ks", "KS", means="largest Kolmogorov-Smirnov distance of a coordinate", digits=2),
    Metric("ksd", "KSD", means="kernel Stein discrepancy, U-statistic", digits=2),
    Metric("kl", "KL", means="of a density from the posterior, in nats"),
    k_hat("pareto_k"),
    Metric(
        "held_out", "held-out", digits=4,
        means="mean log density of the test rows; a wrong posterior can have a better one",
    ),
]  # fmt: skip
METRICS = [
    Metric("reference"),
    *(Metric(f"error_{passes:g}{end}") for passes in SHOWN for end in ("", "_se")),
    *_RANKING[len(SHOWN) :],
    *_END,
]


def _views(rows: list[Row]) -> list[View]:
    views = []
    for name in dict.fromkeys(said(row.get("reference")) for row in rows):
        ranked = [row for row in rows if name and row["reference"] == name]
        ranked.sort(key=lambda row: -row["draws_worth"] if known(row["draws_worth"]) else math.inf)
        if ranked:
            title = store.title(name)
            views += [table(f"Error: {title}", _RANKING, ranked), table(f"At the end: {title}", _END, ranked)]
    return views


def _lead(run: Run) -> list[str]:
    """A sentence for every budget, and the reference's certificate."""
    lines = []
    arms = held(run.arms)
    for name in dict.fromkeys(errors_of(arm)["gold"] for arm in arms):
        scored = [arm for arm in arms if errors_of(arm)["gold"] == name]
        several = f"{name}: " if len({errors_of(arm)["gold"] for arm in arms}) > 1 else ""
        for passes in SHOWN:
            if sentence := _sentence([place for arm in scored if (place := standing(arm, passes))], passes):
                lines.append(several + sentence)
        lines.append(errors_of(scored[0])["about"])
    missing = [arm.own_name for arm in run.arms if arm not in arms]
    if missing:
        lines.append(
            f"Not here, for want of estimates of these moments or of finished seeds: {listing(missing)}."
        )
    for file, text in run.info.get("scored", {}).items():
        lines.append(f"Not run or metered by flyrun: {file}: {text}.")
    return lines


def _sentence(standings: list[_Standing], passes: float) -> str:
    """Who is best with so many passes, who cannot be told from it, and who comes after; in draws' worth."""
    if not standings:
        return ""
    best, *others = sorted(standings, key=lambda place: place.error)
    level = [place for place in others if tied(best, place)]
    rest = [place for place in others if place not in level]
    budget = f"With {passes:g} {'pass' if passes == 1 else 'passes'}"
    text = f"{budget} {best.text} is worth the most independent draws"
    if level:
        text += f"; not told from it: {', '.join(place.text for place in level)}"
    if rest:
        text += f"; then {', '.join(place.text for place in rest[:3])}"
    return text + "."


def _legend(run: Run) -> list[str]:
    first, *others = {arm.setting("protocol", "init") for arm in run.arms}
    start = "" if others else {"zero": "θ = 0", "map": "the MAP"}.get(first, "")
    seeds = max((arm.done for arm in run.arms), default=0)
    return words.lines(_LEGEND, seeds=seeds, start=f", all started at {start}," * bool(start))


_LEGEND = """
Errors are over coordinates and {{ seeds }} seeds{{ start }} and those below three times the reference's own
are not told from the truth. A pass is as many likelihood queries as there are data, set-up included.
"""


def _caveats(run: Run) -> list[str]:
    if held(run.done) or not run.done:
        return []
    build = f"flyrun gold build {_words(run)}"
    text = "No reference is of this posterior, so errors are not known: `flyrun gold list` shows those that "
    return [text + f"there are, `{build}` makes one."]


def _words(run: Run) -> str:
    """What chose a run's posterior, as typed."""
    return shlex.join(shlex.split(run.info.get("command", ""))[1:])


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    errors = errors_of(arm) if held([arm]) else {}
    shape = errors.get("pareto_k", 0.0)
    text = f"k̂ is {shape:.2f}: its weights' tail is too heavy for estimates to be trusted."
    return [text] if heavy(shape, errors.get("largest_weight", 1.0), errors.get("weights", math.inf)) else []


SECTION = Section(
    "arena", place=40, metrics=METRICS,
    only="arena", inputs=store.digest,
    replaces=("paper", "ess", "chains", "cost"),
    pool=pool, row=_row, views=_views, lead=_lead, arm_caveats=_arm_caveats, caveats=_caveats,
    legend=_legend,
    code=(
        "flyrun.experiments.report.arena_errors", "flyrun.ground.diagnostics.distances",
        "flyrun.experiments.gold.store",
    ),
    figures={
        "arena": curves("passes", "passes over the data: likelihood queries ÷ N, set-up included",
            "Squared errors of posterior means and variances, in the posterior's units, against likelihood "
            "queries, set-up included (where numbers of data are compared: after it); mean over coordinates "
            "and seeds, bands ± 1.64 standard errors."),
        "arena_seconds": curves("seconds", "seconds, set-up included, compiling left out",
            "The same against seconds, one cell on one core, set-up included."),
        "arena_critical": curves("critical", "passes on the critical path, set-up included",
            "The same against likelihood queries on the longest path, of the busiest worker where several "
            "share them, by N."),
        "regimes_of_error": regimes,
    },
)  # fmt: skip
