"""Every method's error against its cost: who is best at a budget, and what errors are made of."""

import math
from typing import Any, NamedTuple

import numpy as np

from flyrun.config.schema import listing
from flyrun.gold import store
from flyrun.report import words
from flyrun.report.arena_curves import Z, curves, regimes
from flyrun.report.arena_errors import PASSES, SHOWN, errors_of, held, pool
from flyrun.report.arms import ArmResult, Run
from flyrun.report.render import ARM, SEEDS, Column, View, known, number, plain, table_view
from flyrun.report.section import Row, Section

MOST = SHOWN[-1]
NOISE = 3.0  # floors: nearer than that is not told from the truth
_AT_THE_END = ("tails", "coverage", "w1", "ks", "ksd", "kl", "pareto_k", "held_out")


class _Standing(NamedTuple):
    """An arm at a budget."""

    arm: ArmResult
    error: float
    se: float
    floor: float

    @property
    def at_floor(self) -> bool:
        """Whether it is not told from the truth."""
        return self.error <= NOISE * self.floor

    @property
    def text(self) -> str:
        """What it is worth."""
        return f"{self.arm.own_name} ({'at least ' * self.at_floor}{number(1 / self.error, 2)})"


def standing(arm: ArmResult, passes: float) -> _Standing | None:
    """An arm by a budget: the larger error, less the reference's own, never below NOISE times that."""
    place = int(np.searchsorted(PASSES, passes * (1 + 1e-9), side="right")) - 1
    arena = errors_of(arm)
    errors = np.array(arena["mse"], float)[:, place]
    if np.isnan(errors).any():
        return None
    floors = np.array(arena["floors"])
    judged = np.where(errors < NOISE * floors, NOISE * floors, errors - floors)
    worse = int(np.argmax(judged))
    return _Standing(
        arm, float(judged[worse]), np.array(arena["se"], float)[worse, place], float(floors[worse])
    )


def tied(one: _Standing, other: _Standing) -> bool:
    """Whether two arms cannot be told apart: neither by their errors' difference nor, as a few seeds that are
    still far off make one error large and unsure, by their ratio."""
    if one.at_floor and other.at_floor:
        return True
    se = math.hypot(*np.nan_to_num([one.se, other.se]))
    if se <= 1e-9 * one.error:
        return max(one.error, other.error) < 1.2 * min(one.error, other.error)
    ratio_se = math.hypot(*np.nan_to_num([one.se / one.error, other.se / other.error]))
    return abs(one.error - other.error) < Z * se and abs(math.log(one.error / other.error)) < Z * ratio_se


def regime(arm: ArmResult) -> str:
    """What an arm's error is made of at its largest budget."""
    last = standing(arm, MOST)
    if last is None:
        return "no estimate yet"
    if last.at_floor:
        return "at the floor"
    arena = errors_of(arm)
    end, before = (int(np.searchsorted(PASSES, passes)) for passes in (MOST, MOST / 4))
    bias, spread = (np.array(arena[name], float) for name in ("bias", "spread"))
    if bias[end] <= spread[end]:
        return "variance"
    # A bias that two doublings of the budget leave where it is stays.
    fell = np.isnan(bias[before]) or bias[end] < 0.5 * bias[before]
    return "transient bias" if arm.fact("exact") is not False or fell else "asymptotic bias"


def _row(run: Run, arm: ArmResult) -> Row:
    if not held([arm]):
        return {}
    arena = errors_of(arm)
    row: Row = {"reference": arena["gold"], "regime": regime(arm)}
    for passes in SHOWN:
        if one := standing(arm, passes):
            row |= {f"error_{passes:g}": one.error, f"error_{passes:g}_se": one.se}
    if one := standing(arm, MOST):
        worst = float(np.max(np.array(arena["worst"], float)[:, np.searchsorted(PASSES, MOST)]))
        row |= {"draws_worth": 1 / one.error, "worst": worst}
    return row | {name: arena[name] for name in _AT_THE_END if name in arena}


def _error(passes: float) -> Column:
    def text(row: Row) -> str:
        value, se = (row.get(f"error_{passes:g}{end}", math.nan) for end in ("", "_se"))
        if not known(value):
            return "-"
        return number(value, 2) + (f" ± {number(se, 1)}" if known(se) and se > 1e-9 * value else "")

    return Column(f"error, {passes:g} {'pass' if passes == 1 else 'passes'}", text)


_RANKING = [
    ARM,
    *map(_error, SHOWN),
    Column(f"draws' worth, {MOST:,g} passes", plain("draws_worth", 2)),
    Column("worst coordinate", plain("worst", 2)),
    Column("regime", lambda row: str(row["regime"])),
    SEEDS,
]
_END = [
    ARM,
    Column("1 and 99 %", plain("tails", 2)),
    Column(
        "90 % interval holds",
        lambda row: f"{100 * row['coverage']:.1f} %" if known(row.get("coverage")) else "-",
    ),
    Column("W1", plain("w1", 2)),
    Column("KS", plain("ks", 2)),
    Column("KSD", plain("ksd", 2)),
    Column("KL", plain("kl", 3)),
    Column("k̂", plain("pareto_k", 2)),
    Column("held-out", plain("held_out", 4)),
]


def _views(rows: list[Row]) -> list[View]:
    views = []
    for name in dict.fromkeys(row["reference"] for row in rows if known_text(row.get("reference"))):
        own = sorted(
            (row for row in rows if row["reference"] == name),
            key=lambda row: -row["draws_worth"] if known(row["draws_worth"]) else math.inf,
        )
        title = store.entry(name)["title"]
        views += [table_view(f"Error: {title}", _RANKING, own), table_view(f"At the end: {title}", _END, own)]
    return views


def known_text(value: Any) -> bool:
    """Whether a value of the table is text."""
    return isinstance(value, str) and bool(value)


def _lead(run: Run) -> list[str]:
    """A sentence for every budget, and the reference's certificate."""
    lines = []
    arms = held(run.arms)
    for name in dict.fromkeys(errors_of(arm)["gold"] for arm in arms):
        own = [arm for arm in arms if errors_of(arm)["gold"] == name]
        several = f"{name}: " if len({errors_of(arm)["gold"] for arm in arms}) > 1 else ""
        for passes in SHOWN:
            if sentence := _sentence([one for arm in own if (one := standing(arm, passes))], passes):
                lines.append(several + sentence)
        gold = store.load(name)
        certificate = "; ".join(
            f"{key.replace('_', ' ')} {said}" for key, said in gold.facts["certificate"].items()
        )
        lines.append(
            f"Reference {name}: {gold.facts['recipe']}; floors {gold.floors[0]:.1g} (means) and "
            f"{gold.floors[1]:.1g} (variances); {certificate}."
        )
    missing = [arm.own_name for arm in run.arms if arm not in arms]
    if missing:
        lines.append(
            f"Not here, for want of estimates of these moments or of finished seeds: {listing(missing)}."
        )
    for file, said in run.info.get("scored", {}).items():
        lines.append(f"Not run or metered by flyrun: {file}: {said}.")
    return lines


def _sentence(standings: list[_Standing], passes: float) -> str:
    """Who is best with so many passes, who cannot be told from it, and who comes after; in draws' worth."""
    if not standings:
        return ""
    best, *others = sorted(standings, key=lambda one: one.error)
    level = [one for one in others if tied(best, one)]
    rest = [one for one in others if one not in level]
    budget = f"With {passes:g} {'pass' if passes == 1 else 'passes'}"
    text = f"{budget} {best.text} is worth the most independent draws"
    if level:
        text += f"; not told from it: {', '.join(one.text for one in level)}"
    if rest:
        text += f"; then {', '.join(one.text for one in rest[:3])}"
    return text + "."


def _legend(run: Any) -> list[str]:
    first, *others = {arm.setting("protocol", "init") for arm in run.arms}
    start = "" if others else {"zero": "θ = 0", "map": "the MAP"}.get(first, "")
    seeds = max((arm.done for arm in run.arms), default=0)
    return words.lines(_LEGEND, seeds=seeds, start=f", all started at {start}," * bool(start))


_LEGEND = """
error: the larger of the mean squared errors of posterior means and variances, over coordinates and
{{ seeds }} seeds{{ start }} so scaled that n independent exact draws have 1/n; the reference's own error is
taken off, and what is below three times that is not told from the truth. draws' worth: 1/error at the
largest of these budgets. ± is a standard error over seeds. Passes are likelihood queries by the number of
data, set-up included.

regime: what the error is made of at the largest budget: transient bias, the start's, which more passes take
away; variance; asymptotic bias, an approximation's, which stays; or at the floor of the reference.

1 and 99 %: how far these quantiles are off, in sds, mean over coordinates; 90 % interval: the share of the
posterior that it holds; W1: Wasserstein distance in sds (two exact sets of 2,000 draws: 0.04); KS: largest
Kolmogorov-Smirnov distance of a coordinate; KSD: kernel Stein discrepancy, U-statistic; KL: of a density from
the posterior, in nats; k̂: of importance weights, trusted below 0.7; held-out: mean log density of the test
rows, shown but never ranked on, for it can be better for a wrong posterior than for the exact one.
"""


def _caveats(run: Run) -> list[str]:
    if held(run.done) or not run.done:
        return []
    return ["No reference is of this posterior, so errors are not known: see `flyrun gold list`."]


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    errors = errors_of(arm) if held([arm]) else {}
    found = errors.get("pareto_k", 0.0)
    # where most weights are alike to the digit, as of draws that read no data, k̂ is of the few others
    heavy = found > 0.7 and errors.get("largest_weight", 1.0) > 0.001
    return [f"k̂ is {found:.2f}: its weights' tail is too heavy for estimates to be trusted."] if heavy else []


SECTION = Section(
    "arena",
    only="arena", inputs=store.digest, 
    replaces=("paper", "ess", "chains", "cost", "bias"),
    pool=pool, row=_row, views=_views, lead=_lead, arm_caveats=_arm_caveats, caveats=_caveats,
    columns="""
        experiment dataset model update arm n_data n_params seeds seeds_wanted exact setup_queries setup_s
        note
        reference error_1 error_1_se error_10 error_10_se error_100 error_100_se error_1000 error_1000_se
        draws_worth worst regime tails coverage w1 ks ksd kl pareto_k held_out
    """,
    legend=_legend,
    code=("flyrun.report.arena_errors", "flyrun.diagnostics.distances", "flyrun.gold.store"),
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
