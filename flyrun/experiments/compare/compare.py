"""Two runs side by side: per arm and metric the difference, its uncertainty, and what to make of it."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from flyrun.experiments.compare import VERDICTS
from flyrun.experiments.compare.differences import (
    METRICS,
    ONE_RUN,
    SAME_DATA,
    Difference,
    contrast,
    judged,
    of_arms,
    seeds_of,
)
from flyrun.experiments.compare.sides import Arm, Side
from flyrun.experiments.report.arms import BASELINE
from flyrun.ground.errors import ConfigError
from flyrun.ground.page import document, render, words
from flyrun.ground.page.render import NOTHING, View, number, plus_minus
from flyrun.ground.schema import did_you_mean, listing

_UNCHANGED = ("same", "identical")
_ENDINGS = (".md", ".html", ".csv")


def compare(
    sides: tuple[Side, Side],
    level: float,
    margin: float,
    out: Path | None,
    all_rows: bool,
    console: Console,
    arms: Sequence[str] | None = None,
    command: str = "",
) -> list[Difference]:
    """Compare two sides; print what changed, and write it to `out` (.md or .html; .csv: every row).

    all_rows: print what is the same, too.  command: what .html says was typed.
    arms: both sides are one run, whose first of these arms is held against the others; all of its arms where
    none is named.
    Raises ConfigError where they have no arm of the same data in common, StoreError where the file cannot be
    written.
    """
    document.refuse_ending(out, _ENDINGS)
    pairs = _pairs(*sides) if arms is None else _pairs_of_arms(sides[0], arms)
    differences = judged([row for pair in pairs for row in of_arms(sides, pair, margin)], level)
    if not differences:
        both = " and ".join(str(side.place) for side in sides)
        raise ConfigError(f"compare: no metric is known of both {both}; finish the runs first")
    several = len({row.experiment for row in differences}) > 1
    shown = [row for row in differences if all_rows or row.verdict not in _UNCHANGED]
    places = [str(side.place) for side in sides]
    if arms is not None:
        others = listing(theirs[1] for _, theirs in pairs)
        places = [f"{pairs[0][0][1]} of {places[0]}", f"{others} of it"]
    lines = [f"A: {places[0]}", f"B: {places[1]}"]
    counts, compared = _counts(differences, len(shown)), {(row.experiment, row.arm) for row in shown}
    doubts = _remarks(sides, pairs, compared) if arms is None else []
    remarks = [counts, _meaning(shown, level, margin), *doubts]
    views = [_view(shown, several)] if shown else []
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
    render.print_views(console, views)
    for text in remarks:
        console.print(f"! {text}", soft_wrap=True, markup=False)
    if out is not None:
        parts = lines, views, remarks[:2], remarks[2:], command, _environment(sides)
        document.save(out, document.of_comparison(*parts), {".csv": _csv(differences)})
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
    return _of_one_problem(common, a, b)


def _pairs_of_arms(side: Side, names: Sequence[str]) -> list[tuple[Arm, Arm]]:
    """The first of a run's arms with each of the others: those of these names, or all, the regular one first.

    Raises ConfigError where there is no such arm, fewer than two, or none of the same data.
    """
    there = {arm[1]: arm for arm in side.rows}
    for name in names:
        if name not in there:
            close = did_you_mean(name, there)
            raise ConfigError(f"--arms {name}: {side.place} has no such arm{close}; it has {listing(there)}")
    chosen = list(dict.fromkeys(names)) or sorted(there, key=lambda name: name != BASELINE)
    if len(chosen) < 2:
        remedy = "name two with --arms A,B, another run, or --against COMMIT"
        raise ConfigError(f"compare: one arm of {side.place} is no comparison; {remedy}")
    return _of_one_problem([(there[chosen[0]], there[name]) for name in chosen[1:]], side, side)


def _of_one_problem(common: list[tuple[Arm, Arm]], a: Side, b: Side) -> list[tuple[Arm, Arm]]:
    """The pairs as they are. Raises ConfigError where none is of the same data."""
    contrasts = [contrast(a.rows[ours], b.rows[theirs], SAME_DATA) for ours, theirs in common]
    if all(contrasts):
        raise ConfigError(
            f"compare: different data: arm {common[0][0][1]} has {contrasts[0]}; "
            "compare runs of the same data and model"
        )
    return common


_LEGEND = """
B against A; the difference ± its standard error over seeds, of seconds over runs. `better`, `worse`: by
Welch's t-test, together at level {{ level | spec("g") }} (Holm), so two equal runs get any with probability
at most {{ level | spec("g") }}. `same`: shown to differ by less than {{ (100 * margin) | spec("g") }} % of
A's value (margin={{ margin | spec("g") }}), by two one-sided t-tests of level {{ level | spec("g") }} for
each metric.
`identical`: in every digit.
{% if paired %}
Seeds are paired where both sides draw the same random numbers: there the tests are of the differences seed by
seed.
{% endif %}
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
    one_run = ONE_RUN if any(row.why == ONE_RUN for row in shown) else ""
    paired = any(row.paired for row in shown)
    (line,) = words.lines(
        _LEGEND, level=level, margin=margin, undecided=undecided, one_run=one_run, paired=paired
    )
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
        if ours in shown and min(map(seeds_of, both)) < 2
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


def _environment(sides: tuple[Side, Side]) -> dict[str, str]:
    """Where both sides' numbers came about."""
    a, b = (side.origin for side in sides)
    return {
        key: a[key] if a.get(key) == b.get(key) else f"A {a.get(key, NOTHING)}; B {b.get(key, NOTHING)}"
        for key in {**a, **b}
    }


def _csv(differences: list[Difference]) -> str:
    rows = [
        {
            "experiment": row.experiment, "arm": row.arm, "metric": row.metric, "a": row.a[0],
            "a_sd": row.a[1], "b": row.b[0], "b_sd": row.b[1], "difference": row.value, "se": row.se,
            "p": row.p, "p_same": row.p_same, "verdict": row.verdict, "why": row.why,
            "paired": row.paired,
        }
        for row in differences
    ]  # fmt: skip
    return pd.DataFrame(rows, dtype=object).to_csv(index=False)
