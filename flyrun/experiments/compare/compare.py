"""Two runs side by side: per arm and metric the difference, its uncertainty, and what to make of it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from flyrun.experiments.compare import VERDICTS
from flyrun.experiments.compare.sides import Arm, Side
from flyrun.experiments.report.arms import BASELINE
from flyrun.ground import files
from flyrun.ground.diagnostics.difference import equivalence, welch
from flyrun.ground.errors import ConfigError
from flyrun.ground.page import render, words
from flyrun.ground.page.metrics import mean_sd
from flyrun.ground.page.render import NOTHING, View, escape_markdown, markdown, number, plus_minus
from flyrun.ground.schema import flat, listing

#: column -> heading, and whether more is better
METRICS = {
    "queries_per_iter": ("queries/iter", False),
    "ess_per_1000": ("ESS/1000 iter", True),
    "ess_gauge_free_per_1000": ("gauge-free ESS/1000", True),
    "ess_square_per_1000": ("square ESS/1000", True),
    "speedup": ("speedup", True),
    "us_per_iter": ("µs/iter", False),
    "ess_per_s": ("ESS/s", True),
    "wall_speedup": ("wall speedup", True),
    "off": ("off (sds)", False),
    "error": ("error", False),
    "factors_actual": ("factors actual", False),
    "us_per_update": ("µs/update", False),
}
TIMES = ("us_per_iter", "ess_per_s", "wall_speedup", "us_per_update")
_SAME_DATA = ("dataset", "model", "n_data", "n_params", "n_variables", "n_values")
_SAME_LENGTH = ("iterations", "burn_in")
_UNCHANGED = ("same", "identical")


@dataclass(frozen=True)
class Difference:
    """One metric of one arm. a, b: (mean, sd over seeds; of seconds over runs).  se: of b - a.

    verdict: one of VERDICTS, better and worse being B's against A.  why: of `not compared`.
    p: probability of such a difference or a larger one by luck alone; NaN where nothing tells.
    p_same: of two this close by luck alone, though they differ by the margin or more; NaN likewise.
    """

    experiment: str
    arm: str
    metric: str
    a: tuple[float, float]
    b: tuple[float, float]
    se: float
    p: float
    p_same: float = math.nan
    verdict: str = "undecided"
    why: str = ""

    @property
    def value(self) -> float:
        """B − A."""
        return self.b[0] - self.a[0]

    @property
    def identical(self) -> bool:
        """Whether both sides have the same digits, sds included where they are known."""
        return self.a[0] == self.b[0] and (self.a[1] == self.b[1] or math.isnan(self.a[1] + self.b[1]))


def compare(
    sides: tuple[Side, Side],
    level: float,
    margin: float,
    out: Path | None,
    all_rows: bool,
    console: Console,
) -> list[Difference]:
    """Compare two sides; print what changed, and write it to `out` (.md; .csv: every row).

    all_rows: print what is the same, too.  Raises ConfigError where they have no arm of the same data in
    common, StoreError where the file cannot be written.
    """
    if out is not None and out.suffix not in (".md", ".csv"):
        raise ConfigError(f"out={out}: must end in .md or .csv")
    pairs = _pairs(*sides)
    differences = judged([row for pair in pairs for row in _differences(sides, pair, margin)], level)
    if not differences:
        places = " and ".join(str(side.place) for side in sides)
        raise ConfigError(f"compare: no metric is known of both {places}; finish the runs first")
    several = len({row.experiment for row in differences}) > 1
    shown = [row for row in differences if all_rows or row.verdict not in _UNCHANGED]
    lines = [f"A: {sides[0].place}", f"B: {sides[1].place}"]
    counts, compared = _counts(differences, len(shown)), {(row.experiment, row.arm) for row in shown}
    remarks = [counts, _meaning(shown, level, margin), *_remarks(sides, pairs, compared)]
    views = [_view(shown, several)] if shown else []
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
    render.print_views(console, views)
    for text in remarks:
        console.print(f"! {text}", soft_wrap=True, markup=False)
    if out is not None:
        with files.writing(f"out={out}", "name another file"):
            files.make_folder(out.parent)
            text = _csv(differences) if out.suffix == ".csv" else _markdown(lines, views, remarks)
            files.write_text(out, text)
        console.print(f"wrote {out}", soft_wrap=True, markup=False)
    return differences


def _pairs(a: Side, b: Side) -> list[tuple[Arm, Arm]]:
    """Arms that both have: of one experiment, or of one name where each side has one experiment.

    Raises ConfigError where there is none, or none of the same data.
    """
    common = [(arm, arm) for arm in a.rows if arm in b.rows]
    if not common and len({arm[0] for arm in a.rows}) == len({arm[0] for arm in b.rows}) == 1:
        by_name = {arm[1]: arm for arm in b.rows}
        common = [(arm, by_name[arm[1]]) for arm in a.rows if arm[1] in by_name]
    if not common:
        arms = [listing(dict.fromkeys(arm for _, arm in side.rows)) for side in (a, b)]
        raise ConfigError(
            f"compare: no common arms: {a.place} has {arms[0]}, {b.place} has {arms[1]}; "
            "compare runs of the same experiment"
        )
    contrasts = [_contrast(a.rows[ours], b.rows[theirs], _SAME_DATA) for ours, theirs in common]
    if all(contrasts):
        raise ConfigError(
            f"compare: different data: arm {common[0][0][1]} has {contrasts[0]}; "
            "compare runs of the same data and model"
        )
    return common


def _contrast(a: dict[str, Any], b: dict[str, Any], keys: Iterable[str]) -> str:
    """The first of these values that is known on both sides and differs: "n_data 7, 8"; "" for none."""
    for key in keys:
        ours, theirs = a.get(key), b.get(key)
        if ours is not None and theirs is not None and ours != theirs:
            return f"{key} {_show(ours)}, {_show(theirs)}"
    return ""


def _incomparable(sides: tuple[Side, Side], pair: tuple[Arm, Arm]) -> str:
    """Why an arm's metrics get no verdict: other data, posteriors or lengths; "" where they do."""
    a, b = (side.rows[arm] for side, arm in zip(sides, pair, strict=True))
    ours, theirs = (flat(side.problems.get(arm) or {}) for side, arm in zip(sides, pair, strict=True))
    return _contrast(a, b, _SAME_DATA) or _contrast(ours, theirs, ours) or _contrast(a, b, _SAME_LENGTH)


def _untimed(cpus: tuple[set[Any], set[Any]], runs: list[int]) -> str:
    """Why seconds get no verdict: the processor, or a side of one run alone; "" where they do."""
    if None in cpus[0] | cpus[1]:
        return "processor unknown"
    if len(cpus[0] | cpus[1]) > 1:
        return f"processors {listing(sorted(map(str, cpus[0])))}; {listing(sorted(map(str, cpus[1])))}"
    return _ONE_RUN if min(runs) < 2 else ""


_ONE_RUN = "one run a side"


def _differences(sides: tuple[Side, Side], pair: tuple[Arm, Arm], margin: float) -> list[Difference]:
    rows = [side.rows[arm] for side, arm in zip(sides, pair, strict=True)]
    seeds = [_seeds(row) for row in rows]
    why = _incomparable(sides, pair)
    base = ((pair[0][0], BASELINE), (pair[1][0], BASELINE))
    both = all(arm in side.rows for side, arm in zip(sides, base, strict=True))
    why_base = why or (_incomparable(sides, base) if both else "")  # what ratios are relative to
    differences = []
    for metric in METRICS:
        values = [row[metric] for row in rows if row.get(metric) is not None]
        sds = [row.get(f"{metric}_sd") for row in rows]
        # the arm that ratios are relative to is 1 by definition
        if len(values) < 2 or ("speedup" in metric and sds == [0, 0] and values == [1, 1]):
            continue
        a, b = (
            (float(value), math.nan if sd is None or n < 2 else float(sd))
            for value, sd, n in zip(values, sds, seeds, strict=True)
        )
        numbers, reason = seeds, why_base if "speedup" in metric else why
        if metric in TIMES:  # what else the machine does moves all seeds of a run together
            each = [side.over_runs(arm, metric) for side, arm in zip(sides, pair, strict=True)]
            numbers = [float(len(over_runs)) for over_runs in each]
            cpus = tuple(side.cpus(arm) for side, arm in zip(sides, pair, strict=True))
            reason = reason or _untimed((cpus[0], cpus[1]), list(map(len, each)))
            if not reason:
                a, b = (mean_sd(np.array(over_runs)) for over_runs in each)
        if reason:
            se, p, p_same = math.nan, math.nan, math.nan
        else:
            (se, p), p_same = welch(a, b, numbers), equivalence(a, b, numbers, margin * abs(a[0]))
        differences.append(Difference(*pair[0], metric, a, b, se, p, p_same, why=reason))
    return differences


def judged(differences: list[Difference], level: float) -> list[Difference]:
    """Better or worse by Holm's step-down, else same where p_same is at most `level`, else undecided.

    Identical where every digit is; not compared where `why` says so and, of seconds, the digits differ.
    With equal runs a "better" or "worse" appears with probability at most `level`; each "same" is wrong with
    probability at most `level`. A difference that is sure is reported even inside the margin: how small it is
    stands beside it, and counts without spread differ surely or not at all.
    """
    known = sorted((row.p, place) for place, row in enumerate(differences) if not math.isnan(row.p))
    verdicts = [_without_luck(row) or ("same" if row.p_same <= level else "undecided") for row in differences]
    for rank, (p, place) in enumerate(known):
        if p > level / (len(known) - rank):
            break
        more_is_better = METRICS[differences[place].metric][1]
        verdicts[place] = "better" if (differences[place].value > 0) == more_is_better else "worse"
    return [replace(row, verdict=verdict) for row, verdict in zip(differences, verdicts, strict=True)]


def _without_luck(row: Difference) -> str:
    """The verdict that no test has to find; "" for one that has to be tested."""
    if row.identical and (not row.why or row.metric in TIMES):
        return "identical"
    return "not compared" if row.why else ""


_LEGEND = """
B against A; the difference ± its standard error over seeds, of seconds over runs. `better`, `worse`: by
Welch's t-test, together at level {{ level | spec("g") }} (Holm), so two equal runs get any with probability
at most {{ level | spec("g") }}. `same`: shown to differ by less than {{ (100 * margin) | spec("g") }} % of
A's value (margin={{ margin | spec("g") }}), by two one-sided t-tests of level {{ level | spec("g") }} for
each metric.
`identical`: in every digit.
{% if undecided %}
`undecided`: neither is shown; more seeds could.
{% endif %}
{% if one_run %}
`{{ one_run }}`: seeds of one run share what else the machine did, so seconds get a verdict from two runs of
each side on, as in `flyrun compare a,again b,again_b`.
{% endif %}
"""


def _meaning(shown: list[Difference], level: float, margin: float) -> str:
    """What the columns and verdicts mean."""
    undecided = any(row.verdict == "undecided" for row in shown)
    one_run = _ONE_RUN if any(row.why == _ONE_RUN for row in shown) else ""
    (line,) = words.lines(_LEGEND, level=level, margin=margin, undecided=undecided, one_run=one_run)
    return line


def _counts(differences: list[Difference], shown: int) -> str:
    """How often each verdict was found."""
    kinds = [row.verdict for row in differences]
    counts = ", ".join(f"{kinds.count(kind):,} {kind}" for kind in VERDICTS if kind in kinds)
    hidden = "" if shown == len(kinds) else "; what is the same is left out (all: --all)"
    return f"{counts}{hidden}."


def _remarks(sides: tuple[Side, Side], pairs: list[tuple[Arm, Arm]], shown: set[Arm]) -> list[str]:
    """What to know before trusting the verdicts on the arms that are shown."""
    a, b = sides
    remarks = []
    rows = [(a.rows[ours], b.rows[theirs]) for ours, theirs in pairs]
    single = [
        ours[1]
        for (ours, _), both in zip(pairs, rows, strict=True)
        if ours in shown and min(map(_seeds, both)) < 2
    ]
    if single:
        remarks.append(f"{listing(single)}: fewer than two seeds on a side, so no uncertainty is known.")
    ours, theirs = a.origin.get("blas"), b.origin.get("blas")
    if ours and theirs and ours != theirs:
        remarks.append(f"blas differs, {ours} and {theirs}: times tell of it too.")
    for side, name, compared in zip(sides, "AB", map(set, zip(*pairs, strict=True)), strict=True):
        alone = _alone([arm for arm in side.rows if arm not in compared], {arm[0] for arm in compared})
        if alone:
            remarks.append(f"only in {name}: {listing(alone)}.")
    return remarks


def _alone(arms: list[Arm], compared: set[str]) -> list[str]:
    """Arms without a match, in words; of an experiment that has no match at all, its name."""
    several = len(compared) > 1
    names = [
        (f"{experiment} / {arm}" if several else arm) if experiment in compared else f"all of {experiment}"
        for experiment, arm in arms
    ]
    return list(dict.fromkeys(names))


def _seeds(row: dict[str, Any]) -> float:
    return float(row.get("seeds") or 0)


def _show(value: object) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _view(differences: list[Difference], several: bool) -> View:
    rows, last = [], ""
    for row in differences:
        arm = f"{row.experiment} / {row.arm}" if several else row.arm
        size = plus_minus(row.value, row.se) if row.se > 0 else number(row.value)
        sign = "+" if row.value > 0 else ""
        relative = f"{row.value / abs(row.a[0]):+.1%}" if row.a[0] else NOTHING
        cells = METRICS[row.metric][0], plus_minus(*row.a), plus_minus(*row.b), sign + size, relative
        verdict = f"{row.verdict}: {row.why}" if row.verdict == "not compared" else row.verdict
        rows.append(("" if arm == last else arm, *cells, verdict))
        last = arm
    header = ("arm", "metric", "A", "B", "B - A", "relative", "verdict")
    return View(
        "A and B, mean ± sd over seeds; of seconds over runs where there are several", header, tuple(rows)
    )


def _markdown(lines: list[str], views: list[View], remarks: list[str]) -> str:
    listed, trusted = ([f"- {escape_markdown(text)}" for text in texts] for texts in (lines, remarks))
    return "\n".join([*listed, "", *map(markdown, views), *trusted, ""])


def _csv(differences: list[Difference]) -> str:
    rows = [
        {
            "experiment": row.experiment, "arm": row.arm, "metric": row.metric, "a": row.a[0],
            "a_sd": row.a[1], "b": row.b[0], "b_sd": row.b[1], "difference": row.value, "se": row.se,
            "p": row.p, "p_same": row.p_same, "verdict": row.verdict, "why": row.why,
        }
        for row in differences
    ]  # fmt: skip
    return pd.DataFrame(rows, dtype=object).to_csv(index=False)
