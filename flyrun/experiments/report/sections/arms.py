"""What every report says of its arms: what they are, which seeds are done, on what machines."""

from collections import Counter

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.section import Row, Section, no_row
from flyrun.ground.page.metrics import Metric

_MACHINE = ("cpu", "cores", "platform")


def row(run: Run, arm: ArmResult) -> Row:
    """An arm's name, settings, sizes and length."""
    values: Row = {
        "experiment": run.info.get("experiment") or run.info.get("name"),
        "arm": arm.name,
        "seeds": arm.done,
        "seeds_wanted": arm.wanted,
    }
    if arm.done < arm.wanted:
        counts = Counter(state for state in arm.states.values() if state != "done")
        missing = ", ".join(f"{n} {state}" for state, n in counts.items())
        values["note"] = f"{arm.done}/{arm.wanted} seeds ({missing})"
    if arm.done:
        values |= {name: arm.setting(name, "name") for name in ("dataset", "model")}
        values |= {name: arm.fact(name) for name in ("update", "n_data", "n_params")}
        values |= {"exact": arm.exact}
        values |= {name: arm.infos[0].get(name) for name in ("iterations", "burn_in")}
        values |= {name: arm.fact_mean(name) for name in ("setup_queries", "setup_s")}
    return values


def _lead(run: Run) -> list[str]:
    lines = [str(run.info["paper"])] if run.info.get("paper") else []
    sized = [arm for arm in run.done if arm.fact("n_data") and arm.fact("n_params")]
    if sized:
        arm, info = sized[0], sized[0].infos[0]
        sizes = sorted({arm.fact("n_data") for arm in sized})
        count = " to ".join(f"{n:,}" for n in dict.fromkeys((sizes[0], sizes[-1])))
        data = f"{arm.setting('dataset', 'name')} ({count} data, {arm.fact('n_params'):,} parameters)"
        parts = [data, str(arm.setting("model", "name")), str(arm.fact("update"))]
        lines.append(", ".join(part for part in parts if part != "None") + ".")
        iterations, burn_in = info.get("iterations"), info.get("burn_in")
        if iterations is not None and burn_in:
            lines.append(f"{iterations:,} iterations, the first {burn_in:,} of them burn-in and left out.")
    return lines


def unfinished(run: Run, arm: ArmResult) -> list[str]:
    """Seeds that are not in an arm's row, and why."""
    if arm.done == arm.wanted:
        return []
    lines = [f"{arm.done} of {arm.wanted} seeds are finished and in its row; the same command runs the rest."]
    for seed, state in arm.states.items():
        if state != "done" and arm.messages.get(seed):
            lines.append(f"seed {seed} is {state}: {arm.messages[seed]}.")
    return lines


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    lines = unfinished(run, arm)
    if arm.done and arm.exact == "unknown":
        lines.append(
            "nobody knows whether it follows the posterior: of another package's sampler, likelihood or "
            "prior tables say so once its class does and `flyrun prove NAME` has passed."
        )
    return lines


def _caveats(run: Run) -> list[str]:
    environments = [info.get("environment", {}) for arm in run.done for info in arm.infos]
    machines = {tuple(str(environment.get(key)) for key in _MACHINE) for environment in environments}
    processors = sorted({str(environment.get("cpu")) for environment in environments})
    lines = []
    if len(machines) > 1:
        lines.append(f"Cells ran on {len(machines)} different machines; times are not comparable.")
    if len(processors) > 1:
        known = "; ".join(processors)
        lines.append(f"Cells ran on different processors ({known}): the same seed may differ in last digits.")
    for arm in run.done:
        times = [
            info["timings"]["sampling_s"] / max(1, info.get("iterations", 0) - info.get("burn_in", 0))
            for info in arm.infos
        ]
        lasts = np.mean([info["timings"]["sampling_s"] for info in arm.infos]) > 0.1  # less tells of nothing
        if lasts and len(times) > 1 and np.std(times) > 0.5 * np.mean(times):
            lines.append(f"{arm.name}: times differ much between seeds; something else used the machine.")
    return lines


#: what every table.csv has first
_COLUMNS = (
    "experiment dataset model update arm n_data n_params seeds seeds_wanted iterations burn_in exact "
    "setup_queries setup_s note"
)
METRICS = [Metric(name) for name in _COLUMNS.split()]
SECTION = Section(
    "arms",
    place=10,
    metrics=METRICS,
    planned=no_row,
    row=row,
    lead=_lead,
    arm_caveats=_arm_caveats,
    caveats=_caveats,
)
