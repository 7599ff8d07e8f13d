"""Bias of samplers on a graph, which their error cannot see: energy and agreement against a long Gibbs run.

Of some graphs one is stored, in results/reference/long_gibbs beside the script that makes it. Elsewhere the
run's own plain Gibbs arm with the most sweeps serves.
"""

import contextlib
import json
import math
from typing import NamedTuple

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import EXACT, table
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections.marginal_error import mean_se, sampler_of
from flyrun.ground import paths
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric, said
from flyrun.ground.page.render import NOTHING, View, known, spec

# Beyond so many standard errors an arm is marked. Few seeds tell standard errors only roughly.
FAR = 4.0
_STORED = "long_gibbs"


class Reference(NamedTuple):
    """energy (⟨ζ⟩/Ψ), agreement: means after burn-in, a value per chain.  arm: its name in the run, or ""."""

    arm: str
    what: str
    energy: np.ndarray
    agreement: np.ndarray


def summarise(draws: Draws) -> Row:
    """energy (⟨ζ⟩/Ψ) and agreement (share of neighbours of one value): means after burn-in."""
    energy, agreement = (draws.values("sample_stats", name) for name in ("energy", "agreement"))
    if energy is None or agreement is None:
        return {}
    total = float(draws.facts["total_energy_bound"]) or 1.0
    return {"energy": float(energy.mean()) / total, "agreement": float(agreement.mean())}


def reference(run: Run) -> Reference | None:
    """What this run's arms are held against; None where no plain Gibbs run is at hand."""
    arms = SECTION.arms(run)
    return _stored(arms[0]) or _own(arms) if arms else None


def _stored(arm: ArmResult) -> Reference | None:
    graph = {group: arm.setting(group) for group in ("dataset", "model")}
    for path in sorted((paths.reference_dir() / _STORED).glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(path.read_text(encoding="utf-8"))
            if all(stored[group] == graph[group] for group in graph):
                energy, agreement = np.array(stored["energy"], float), np.array(stored["agreement"], float)
                what = f"stored, {len(energy)} chains of {stored['sweeps']:,} sweeps after burn-in"
                return Reference("", what, energy, agreement)
    return None


def _own(arms: list[ArmResult]) -> Reference | None:
    plain = [arm for arm in arms if sampler_of(arm) == "gibbs"]
    if not plain:
        return None
    arm = max(plain, key=lambda arm: _sweeps(arm) * arm.done)
    what = f"arm {arm.name}, {arm.done} chains of {_sweeps(arm):,} sweeps after burn-in"
    return Reference(arm.name, what, arm.each("energy"), arm.each("agreement"))


def _sweeps(arm: ArmResult) -> int:
    return arm.infos[0]["iterations"] - arm.infos[0]["burn_in"]


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Difference of two means over chains (C,) in standard errors, both together; NaN for one chain."""
    (mean, se), (base, base_se) = mean_se(ours), mean_se(theirs)
    both = math.hypot(se, base_se)
    return (mean - base) / both if both > 0 else math.nan


def _row(run: Run, arm: ArmResult) -> Row:
    long_run = reference(run)
    row: Row = {"reference": long_run.what if long_run is not None else None}
    for name in ("energy", "agreement"):
        row[name], row[f"{name}_se"] = mean_se(arm.each(name))
        if long_run is not None:
            theirs = getattr(long_run, name)
            row[f"reference_{name}"], row[f"reference_{name}_se"] = mean_se(theirs)
            if long_run.arm != arm.name:
                row[f"{name}_off"] = difference(arm.each(name), theirs)
    return row


def _views(rows: list[Row]) -> list[View]:
    stored = next((row for row in rows if said(row["reference"]).startswith("stored")), None)
    if stored is not None:  # a row for the long run, which is none of the arms
        names = ("energy", "energy_se", "agreement", "agreement_se")
        row = {"arm": "long Gibbs run", "exact": True, "seeds": None, "seeds_wanted": None}
        rows = [row | {name: stored[f"reference_{name}"] for name in names}, *rows]
    return [table(_TITLE, [*METRICS[:6], EXACT], rows)]


def _off(name: str) -> Metric:
    def text(row: Row) -> str:
        value = row.get(name)
        if not known(value):
            return NOTHING
        return f"{spec(value, '+.1f')} s.e." + (" !" if abs(value) > FAR else "")  # type: ignore[arg-type]

    means = "difference to the long run in standard errors, of both together, from the spread over chains"
    return Metric(name, "off", text=text, means=means if name == "energy_off" else "")


_TITLE = f"Bias, which that error cannot see (mean ± s.e.; off a long Gibbs run, ! beyond {FAR:g})"
METRICS = [
    Metric("energy", "⟨ζ⟩/Ψ", spread="energy_se", means="mean energy"),
    Metric("energy_se"),
    _off("energy_off"),
    Metric(
        "agreement", "neighbours agree", spread="agreement_se",
        means="share of neighbouring pairs of one value",
    ),
    Metric("agreement_se"),
    _off("agreement_off"),
    *(Metric(f"reference{end}") for end in ("", "_energy", "_energy_se", "_agreement", "_agreement_se")),
]  # fmt: skip


_LEGEND = """
The long run is of plain Gibbs: {{ reference }}. By symmetry the true marginals are uniform, so a biased
sampler has a small error too; here its bias shows.

{% if biased %}
biased: {{ biased | join(", ") }}; no stationary distribution of it is known.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    long_run = reference(run)
    biased = [arm.name for arm in SECTION.arms(run) if arm.fact("exact") is False]
    what = long_run.what if long_run else "none at hand"
    return words.lines(_LEGEND, reference=what, biased=biased)


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    row = _row(run, arm)
    far = [
        f"{what} is {spec(off, '+.1f')} standard errors off the long Gibbs run"
        for what, name in (("mean energy", "energy"), ("agreement of neighbours", "agreement"))
        if abs(off := row.get(f"{name}_off", 0.0)) > FAR
    ]
    if arm.fact("exact") is False:
        text = "this sampler is biased: its draws do not follow the model exactly"
        return ["; ".join([text, *far]) + "."]
    return [f"{' and '.join(far)}, though it is exact: it has not settled, so run longer."] if far else []


SECTION = Section(
    "long_run",
    place=120,
    metrics=METRICS,
    reads=("energy", "agreement"),
    summarise=summarise,
    row=_row,
    views=_views,
    legend=_legend,
    arm_caveats=_arm_caveats,
)
