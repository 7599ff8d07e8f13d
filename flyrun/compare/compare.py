"""Two runs side by side: per arm and metric the difference, its uncertainty, and what to make of it."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flyrun import files
from flyrun.compare.sources import Side, read
from flyrun.config.schema import listing
from flyrun.diagnostics.difference import equivalence, welch
from flyrun.errors import ConfigError
from flyrun.report import render
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
    found = judged([one for pair in pairs for one in _differences(sides, *pair, margin)], level)
    if not found:
        raise ConfigError(f"compare {a} {b}: no metric is known on both sides; finish the runs first")
    lines = [f"A: {sides[0].place}", f"B: {sides[1].place}"]
    remarks = [_meaning(found, level, margin), *_remarks(sides, pairs), *left_out]
    view = _view(found)
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
    render.print_views(console, [view])
    for text in remarks:
        console.print(f"! {text}", soft_wrap=True, markup=False)
    if out is not None:
        with files.writing(f"out={out}", "name another file"):
            files.make_folder(out.parent)
            text = _csv(found) if out.suffix == ".csv" else _markdown(lines, view, remarks)
            files.write_text(out, text)
        console.print(f"wrote {out}", soft_wrap=True, markup=False)
    return found


def _pairs(a: Side, b: Side) -> tuple[list[tuple[tuple[str, str], tuple[str, str]]], list[str]]:
    """Keys of the arms that both have: of one experiment, or of one name where each has one experiment.

    Arms of other data or models are left out and told of in the second list; ConfigError where none is left.
    """
    common = [(key, key) for key in a.rows if key in b.rows]
    if not common and len({key[0] for key in a.rows}) == len({key[0] for key in b.rows}) == 1:
        by_name = {key[1]: key for key in b.rows}
        common = [(key, by_name[key[1]]) for key in a.rows if key[1] in by_name]
    if not common:
        theirs = [listing(dict.fromkeys(arm for _, arm in side.rows)) for side in (a, b)]
        raise ConfigError(
            f"compare: no common arms: {a.place} has {theirs[0]}, {b.place} has {theirs[1]}; "
            "compare runs of the same experiment"
        )
    differing = {pair[0]: told for pair in common if (told := _other_data(a, b, *pair))}
    alike = [pair for pair in common if pair[0] not in differing]
    if not alike:
        told = next(iter(differing.values()))
        raise ConfigError(f"compare: different data: {told}; compare runs of the same data and model")
    return alike, [f"left out, of different data: {told}." for told in differing.values()]


def _other_data(a: Side, b: Side, ours: tuple[str, str], others: tuple[str, str]) -> str:
    """How an arm's data or model differ; empty where they do not."""
    for column in _SAME_DATA:
        one, two = a.rows[ours].get(column), b.rows[others].get(column)
        if one is not None and two is not None and one != two:
            return f"{column} of arm {ours[1]} is {_show(one)} in {a.place} and {_show(two)} in {b.place}"
    return ""


def _differences(
    sides: tuple[Side, Side], ours: tuple[str, str], others: tuple[str, str], margin: float
) -> list[Difference]:
    rows = sides[0].rows[ours], sides[1].rows[others]
    seeds = [_seeds(sides[0], ours), _seeds(sides[1], others)]
    found = []
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
        found.append(Difference(*ours, metric, a, b, *welch(a, b, seeds), p_same))
    return found


def judged(found: list[Difference], level: float) -> list[Difference]:
    """Better or worse by Holm's step-down, else same where p_same is at most `level`, else undecided.

    With equal runs a "better" or "worse" appears with probability at most `level`; each "same" is wrong with
    probability at most `level`. A difference that is sure is told even inside the margin: how small it is
    stands beside it, and counts without spread differ surely or not at all.
    """
    known = sorted((one.p, place) for place, one in enumerate(found) if not math.isnan(one.p))
    verdicts = ["same" if one.p_same <= level else "undecided" for one in found]
    for rank, (p, place) in enumerate(known):
        if p > level / (len(known) - rank):
            break
        more_is_better = METRICS[found[place].metric][1]
        verdicts[place] = "better" if (found[place].value > 0) == more_is_better else "worse"
    return [replace(one, verdict=verdict) for one, verdict in zip(found, verdicts, strict=True)]


def _meaning(found: list[Difference], level: float, margin: float) -> str:
    """What the columns and verdicts mean."""
    said = (
        "B against A; the difference ± its standard error over seeds. `better`, `worse`: by Welch's t-test, "
        f"together at level {level:g} (Holm), so two equal runs get any with probability at most {level:g}. "
        f"`same`: shown to differ by less than {100 * margin:g} % of A's value (margin={margin:g}), by two "
        f"one-sided t-tests of level {level:g} for each metric."
    )
    if any(one.verdict == "undecided" for one in found):
        said += " `undecided`: neither is shown; more seeds could."
    return said


def _remarks(sides: tuple[Side, Side], pairs: list) -> list[str]:
    """What to know before trusting the verdicts."""
    a, b = sides
    said = []
    single = [ours[1] for ours, others in pairs if min(_seeds(a, ours), _seeds(b, others)) < 2]
    if single:
        said.append(f"{listing(single)}: fewer than two seeds on a side, so no uncertainty is known.")
    for column, effect in (
        ("iterations", "ESS per 1,000 iterations depends on a chain's length"),
        ("burn_in", "the shorter one may not have arrived"),
    ):
        lengths = {(a.rows[o].get(column), b.rows[t].get(column)) for o, t in pairs}
        other = [pair for pair in lengths if None not in pair and pair[0] != pair[1]]
        if other:
            said.append(f"{column} differ, {_show(other[0][0])} and {_show(other[0][1])}: {effect}.")
    for group in ("prior", "model", "dataset"):
        settings = [[(p or {}).get(group) for p in (a.problems.get(o), b.problems.get(t))] for o, t in pairs]
        if any(None not in both and both[0] != both[1] for both in settings):
            said.append(f"settings of the {group} differ: the posteriors are not the same.")
    for key in ("cpu", "blas"):
        if a.origin.get(key) and b.origin.get(key) and a.origin[key] != b.origin[key]:
            said.append(f"{key} differs, {a.origin[key]} and {b.origin[key]}: times tell of the machine too.")
    for side, name, mine in ((a, "A", {o for o, _ in pairs}), (b, "B", {t for _, t in pairs})):
        alone = _alone([key for key in side.rows if key not in mine], {key[0] for key in mine})
        if alone:
            said.append(f"only in {name}: {listing(alone)}.")
    return said


def _alone(keys: list[tuple[str, str]], compared: set[str]) -> list[str]:
    """Arms without a match, in words; of an experiment that has no match at all, its name."""
    several = len(compared) > 1
    names = [
        (f"{experiment} / {arm}" if several else arm) if experiment in compared else f"all of {experiment}"
        for experiment, arm in keys
    ]
    return list(dict.fromkeys(names))


def _seeds(side: Side, key: tuple[str, str]) -> float:
    return float(side.rows[key].get("seeds") or 0)


def _show(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _view(found: list[Difference]) -> Any:
    several = len({one.experiment for one in found}) > 1
    rows, last = [], ""
    for one in found:
        arm = f"{one.experiment} / {one.arm}" if several else one.arm
        share = f"{one.value / abs(one.a[0]):+.1%}" if one.a[0] else NOTHING
        sign = "+" if one.value > 0 else ""
        difference = sign + (plus_minus(one.value, one.se) if one.se > 0 else number(one.value))
        cells = (
            METRICS[one.metric][0],
            plus_minus(*one.a),
            plus_minus(*one.b),
            difference,
            share,
            one.verdict,
        )
        rows.append(("" if arm == last else arm, *cells))
        last = arm
    header = ("arm", "metric", "A", "B", "B - A", "relative", "verdict")
    return View("A and B, mean ± sd over seeds", header, tuple(rows))


def _markdown(lines: list[str], view: Any, remarks: list[str]) -> str:
    texts = [*(f"- {escape_markdown(line)}" for line in lines), "", markdown(view)]
    return "\n".join([*texts, *(f"- {escape_markdown(text)}" for text in remarks), ""])


def _csv(found: list[Difference]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        (
            "experiment",
            "arm",
            "metric",
            "a",
            "a_sd",
            "b",
            "b_sd",
            "difference",
            "se",
            "p",
            "p_same",
            "verdict",
        )
    )
    for one in found:
        numbers = [*one.a, *one.b, one.value, one.se, one.p, one.p_same]
        cells = ["" if math.isnan(number) else repr(number) for number in numbers]
        writer.writerow([one.experiment, one.arm, one.metric, *cells, one.verdict])
    return buffer.getvalue()
