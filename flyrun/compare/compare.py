"""Two runs side by side: per arm and metric the difference, its uncertainty, and what to make of it."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from flyrun import files
from flyrun.compare.sources import Arm, Side, read
from flyrun.config.schema import listing
from flyrun.diagnostics.difference import equivalence, welch
from flyrun.errors import ConfigError
from flyrun.report import render, words
from flyrun.report.render import NOTHING, View, escape_markdown, markdown, number, plus_minus

LEVEL = 0.05
#: a difference that does not matter, as a share of A's value
MARGIN = 0.05
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
    "error": ("error", False),
    "factors_actual": ("factors actual", False),
    "us_per_update": ("µs/update", False),
}
_TIMES = ("us_per_iter", "ess_per_s", "wall_speedup", "us_per_update")
_SAME_DATA = ("dataset", "model", "n_data", "n_params", "n_variables", "n_values")


@dataclass(frozen=True)
class Difference:
    """One metric of one arm. a, b: (mean, sd over seeds).  se: of b - a.

    verdict: better, worse (B against A), same or undecided.
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

    @property
    def value(self) -> float:
        """B − A."""
        return self.b[0] - self.a[0]


def compare(
    a: str, b: str, results_dir: str, level: float, margin: float, out: Path | None, console: Any
) -> list[Difference]:
    """Compare two runs, tables or commits; print the result, and write it to `out` (.md or .csv).

    Raises ConfigError where they have no arm of the same data in common, StoreError where one is neither run,
    table nor commit, or the file cannot be written.
    """
    if out is not None and out.suffix not in (".md", ".csv"):
        raise ConfigError(f"out={out}: must end in .md or .csv")
    sides = read(a, results_dir), read(b, results_dir)
    pairs, left_out = _pairs(*sides)
    differences = judged([one for pair in pairs for one in _differences(sides, pair, margin)], level)
    if not differences:
        raise ConfigError(f"compare {a} {b}: no metric is known on both sides; finish the runs first")
    lines = [f"A: {sides[0].place}", f"B: {sides[1].place}"]
    remarks = [_meaning(differences, level, margin), *_remarks(sides, pairs), *left_out]
    view = _view(differences)
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
    render.print_views(console, [view])
    for text in remarks:
        console.print(f"! {text}", soft_wrap=True, markup=False)
    if out is not None:
        with files.writing(f"out={out}", "name another file"):
            files.make_folder(out.parent)
            text = _csv(differences) if out.suffix == ".csv" else _markdown(lines, view, remarks)
            files.write_text(out, text)
        console.print(f"wrote {out}", soft_wrap=True, markup=False)
    return differences


def _pairs(a: Side, b: Side) -> tuple[list[tuple[Arm, Arm]], list[str]]:
    """Arms that both have: of one experiment, or of one name where each side has one experiment.

    Arms of other data or models are left out and named in the second list; ConfigError where none is left.
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
    contrasts = {pair: _other_data(a, b, *pair) for pair in common}
    alike = [pair for pair, contrast in contrasts.items() if not contrast]
    differing = [contrast for contrast in contrasts.values() if contrast]
    if not alike:
        raise ConfigError(f"compare: different data: {differing[0]}; compare runs of the same data and model")
    return alike, [f"left out, of different data: {contrast}." for contrast in differing]


def _other_data(a: Side, b: Side, ours: Arm, theirs: Arm) -> str:
    """How an arm's data or model differ; empty where they do not."""
    for column in _SAME_DATA:
        one, two = a.rows[ours].get(column), b.rows[theirs].get(column)
        if one is not None and two is not None and one != two:
            return f"{column} of arm {ours[1]} is {_show(one)} in {a.place} and {_show(two)} in {b.place}"
    return ""


def _differences(sides: tuple[Side, Side], pair: tuple[Arm, Arm], margin: float) -> list[Difference]:
    rows = [side.rows[arm] for side, arm in zip(sides, pair, strict=True)]
    seeds = [_seeds(row) for row in rows]
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
        p_same = equivalence(a, b, seeds, margin * abs(a[0]))
        differences.append(Difference(*pair[0], metric, a, b, *welch(a, b, seeds), p_same))
    return differences


def judged(differences: list[Difference], level: float) -> list[Difference]:
    """Better or worse by Holm's step-down, else same where p_same is at most `level`, else undecided.

    With equal runs a "better" or "worse" appears with probability at most `level`; each "same" is wrong with
    probability at most `level`. A difference that is sure is reported even inside the margin: how small it is
    stands beside it, and counts without spread differ surely or not at all.
    """
    known = sorted((one.p, place) for place, one in enumerate(differences) if not math.isnan(one.p))
    verdicts = ["same" if one.p_same <= level else "undecided" for one in differences]
    for rank, (p, place) in enumerate(known):
        if p > level / (len(known) - rank):
            break
        more_is_better = METRICS[differences[place].metric][1]
        verdicts[place] = "better" if (differences[place].value > 0) == more_is_better else "worse"
    return [replace(one, verdict=verdict) for one, verdict in zip(differences, verdicts, strict=True)]


_LEGEND = """
B against A; the difference ± its standard error over seeds. `better`, `worse`: by Welch's t-test, together at
level {{ level | spec("g") }} (Holm), so two equal runs get any with probability at most {{ level | spec("g")
}}. `same`: shown to differ by less than {{ (100 * margin) | spec("g") }} % of A's value (margin={{ margin |
spec("g") }}), by two one-sided t-tests of level {{ level | spec("g") }} for each metric.
{% if undecided %}
`undecided`: neither is shown; more seeds could.
{% endif %}
"""


def _meaning(differences: list[Difference], level: float, margin: float) -> str:
    """What the columns and verdicts mean."""
    undecided = any(one.verdict == "undecided" for one in differences)
    (line,) = words.lines(_LEGEND, level=level, margin=margin, undecided=undecided)
    return line


def _remarks(sides: tuple[Side, Side], pairs: list[tuple[Arm, Arm]]) -> list[str]:
    """What to know before trusting the verdicts."""
    a, b = sides
    remarks = []
    rows = [(a.rows[ours], b.rows[theirs]) for ours, theirs in pairs]
    single = [arm for ((_, arm), _), both in zip(pairs, rows, strict=True) if min(map(_seeds, both)) < 2]
    if single:
        remarks.append(f"{listing(single)}: fewer than two seeds on a side, so no uncertainty is known.")
    for column, effect in (
        ("iterations", "ESS per 1,000 iterations depends on a chain's length"),
        ("burn_in", "the shorter one may not have arrived"),
    ):
        lengths = {(one.get(column), two.get(column)) for one, two in rows}
        unequal = [pair for pair in lengths if None not in pair and pair[0] != pair[1]]
        if unequal:
            remarks.append(f"{column} differ, {_show(unequal[0][0])} and {_show(unequal[0][1])}: {effect}.")
    for group in ("prior", "model", "dataset"):
        settings = [[(p or {}).get(group) for p in (a.problems.get(o), b.problems.get(t))] for o, t in pairs]
        if any(None not in both and both[0] != both[1] for both in settings):
            remarks.append(f"settings of the {group} differ: the posteriors are not the same.")
    for key in ("cpu", "blas"):
        ours, theirs = a.origin.get(key), b.origin.get(key)
        if ours and theirs and ours != theirs:
            remarks.append(f"{key} differs, {ours} and {theirs}: times tell of the machine too.")
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


def _show(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _view(differences: list[Difference]) -> View:
    several = len({one.experiment for one in differences}) > 1
    rows, last = [], ""
    for one in differences:
        arm = f"{one.experiment} / {one.arm}" if several else one.arm
        difference = plus_minus(one.value, one.se) if one.se > 0 else number(one.value)
        sign = "+" if one.value > 0 else ""
        relative = f"{one.value / abs(one.a[0]):+.1%}" if one.a[0] else NOTHING
        cells = METRICS[one.metric][0], plus_minus(*one.a), plus_minus(*one.b), sign + difference, relative
        rows.append(("" if arm == last else arm, *cells, one.verdict))
        last = arm
    header = ("arm", "metric", "A", "B", "B - A", "relative", "verdict")
    return View("A and B, mean ± sd over seeds", header, tuple(rows))


def _markdown(lines: list[str], view: View, remarks: list[str]) -> str:
    listed, trusted = ([f"- {escape_markdown(text)}" for text in texts] for texts in (lines, remarks))
    return "\n".join([*listed, "", markdown(view), *trusted, ""])


def _csv(differences: list[Difference]) -> str:
    rows = [
        {
            "experiment": one.experiment, "arm": one.arm, "metric": one.metric, "a": one.a[0],
            "a_sd": one.a[1], "b": one.b[0], "b_sd": one.b[1], "difference": one.value, "se": one.se,
            "p": one.p, "p_same": one.p_same, "verdict": one.verdict,
        }
        for one in differences
    ]  # fmt: skip
    return pd.DataFrame(rows, dtype=object).to_csv(index=False)
