"""How often chains are where a method knows they should be, against the share that it designs.

A method says so with the fact "occupation", {stat: {"share": by design, "what": in words, "remedy": …}}, and
stores the stat by iteration, 1 where a chain is there. A stat without a share is a count,
whose expectation at stored positions the method's trace has as `<stat>_expected`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import Value, table
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import ess
from flyrun.ground.diagnostics import occupation
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import View, known

_RARE = 0.01  # a share from which a table shows it


def summarise(draws: Draws) -> Row:
    """occupied: of each stat, its share of the iterations after burn-in, how many effective draws that is
    worth, 0 where it never changes, and how often it changes; of a count its mean, what is expected and how
    many effective draws their difference is worth.
    """
    occupied: Row = {}
    for name, fact in (draws.facts.get("occupation") or {}).items():
        if (values := draws.values("sample_stats", name)) is None:
            continue
        if "share" not in fact:
            occupied |= _counted(draws, name, values)
        else:
            inside = np.asarray(values, float)
            moves = int((np.diff(inside) != 0).sum())
            size = float(ess.sizes(inside[:, None])[0]) if moves else 0.0
            occupied[name] = {"share": float(inside.mean()), "effective": size, "moves": moves}
    return {"occupied": occupied} if occupied else {}


def _counted(draws: Draws, name: str, values: np.ndarray) -> Row:
    grid, expected = (draws.values("trace", key) for key in ("iteration", f"{name}_expected"))
    if grid is None or expected is None:
        return {}
    after = grid >= draws.info["burn_in"]
    observed, expected = values[grid[after] - draws.info["burn_in"]].astype(float), expected[after]
    if not len(observed):
        return {}
    size = float(np.clip(np.nan_to_num(ess.sizes((observed - expected)[:, None])[0]), 1, len(observed)))
    return {name: {"count": float(observed.mean()), "expected": float(expected.mean()), "effective": size}}


def _told(arm: ArmResult) -> dict[str, dict[str, Any]]:
    return {name: fact for name, fact in (arm.fact("occupation") or {}).items() if "share" in fact}


def _each(arm: ArmResult, name: str, what: str) -> np.ndarray:
    return np.array([cell.occupied[name][what] for cell in arm.cells], float)


def _metrics(run: Run) -> Sequence[Metric]:
    names = dict.fromkeys(name for arm in run.arms for name in _told(arm))
    return [metric for name in names for metric in _of(name)]


def _of(name: str) -> Iterator[Metric]:
    def value(what: str) -> Value:
        return lambda run, arm: _each(arm, name, what) if name in _told(arm) else None

    def design(run: Run, arm: ArmResult) -> Any:
        return _told(arm)[name]["share"] if name in _told(arm) else None

    yield Metric(f"{name}_design", f"{name}, by design", design, "share of iterations")
    yield Metric(f"{name}_share", "observed", value("share"), by_seed=True)
    yield Metric(f"{name}_moves", "crossings", value("moves"), "of a chain after burn-in", by_seed=True)


def _views(rows: list[Row]) -> list[View]:
    """Of the stats that are seldom neither: a share of 1e-4 by design tells nothing where no caveat does."""
    names = dict.fromkeys(
        key.removesuffix("_design") for row in rows for key in row if key.endswith("_design")
    )

    def tells(name: str) -> bool:
        shares: Iterator[Any] = (row.get(key) for row in rows for key in (f"{name}_design", f"{name}_share"))
        return any(known(share) and _RARE < float(share) < 1.0 - _RARE for share in shares)

    shown = [name for name in names if tells(name)]
    metrics = [metric for name in shown for metric in _of(name)]
    return [table("Where chains are (mean ± sd over seeds)", metrics, rows)] if shown else []


_ARM_CAVEATS = """
{% if off %}
{{ count | spec(".3g") }} rows are bright on average, where {{ expected | spec(".3g") }} are expected at the
same positions: brightness does not follow them, so do not trust its means and sds; {{ remedy }}.
{% elif stuck %}
{{ share | spec(".2g") }} of its iterations are {{ what }}, where {{ design | spec(".2g") }} are expected,
{{ "and no chain has crossed" if not most else "and chains have crossed %d to %d times" % (least, most) }}:
they have not been everywhere, so do not trust its means and sds; {{ remedy }}.
{% endif %}
"""


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    lines, least = [], np.full(arm.done, np.nan)
    if arm.has("ess"):
        least = np.array([min(cell.ess, default=np.nan) for cell in arm.cells])
    for name, fact in _told(arm).items():
        share, size, moves = (_each(arm, name, what) for what in ("share", "effective", "moves"))
        stuck = occupation.stuck(share, size, least, fact["share"])
        lines += words.lines(
            _ARM_CAVEATS, off=False, stuck=stuck, share=share.mean(), what=fact["what"], design=fact["share"],
            least=int(moves.min()), most=int(moves.max()), remedy=fact["remedy"],
        )  # fmt: skip
    for name, fact in (arm.fact("occupation") or {}).items():
        if "share" not in fact and all(name in cell.occupied for cell in arm.cells):
            count, expected, size = (_each(arm, name, what) for what in ("count", "expected", "effective"))
            off = occupation.counts_off(count, expected, np.fmin(size, least))
            lines += words.lines(
                _ARM_CAVEATS, off=off, stuck=False, count=count.mean(), expected=expected.mean(),
                remedy=fact["remedy"],
            )  # fmt: skip
    return lines


SECTION = Section(
    "whereabouts", place=230, metrics=_metrics, views=_views, reads=("occupied",),
    summarise=summarise, arm_caveats=_arm_caveats,
    code=("flyrun.ground.diagnostics.coda", "flyrun.experiments.report.sections.ess"),
)  # fmt: skip
