"""What a chain gains whose next steps several workers evaluate ahead of it, and what is wasted on the way."""

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.render import (
    ARM,
    SEEDS,
    Column,
    View,
    known,
    measured,
    number,
    plain,
    table_view,
)
from flyrun.report.section import Row, Section
from flyrun.report.table import put

_COUNTS = ("queries", "span", "rounds", "bytes")


def summarise(draws: Draws) -> Row:
    """prefetch_*: of an iteration after burn-in queries (wasted ones too), span (those on the longest path),
    rounds, bytes, evaluations or seconds; steps in the time of an evaluation, and in burn-in; share wasted.
    """
    n_data = draws.facts.get("n_data")
    told = {name: draws.values("sample_stats", name) for name in _COUNTS}
    means = {name: float(np.mean(values)) for name, values in told.items() if values is not None}
    if "evaluation_s" not in draws.facts or n_data is None or len(means) < len(told):
        return {}
    found: Row = {f"prefetch_{name}": mean for name, mean in means.items()}
    found["prefetch_steps"] = n_data / found["prefetch_span"]
    # What burn-in had evaluated ahead makes a short run seem to waste less than nothing.
    found["prefetch_wasted"] = max(0.0, 1.0 - n_data / found["prefetch_queries"])
    if (begun := draws.values("warmup_sample_stats", "span")) is not None:
        found["prefetch_steps_burn_in"] = n_data / float(np.mean(begun))
    for name in ("evaluations", "seconds"):
        if (clock := draws.values("sample_stats", name)) is not None:
            found[f"prefetch_{name}"] = float(np.mean(clock))
    return found


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {f"prefetch_{key}": arm.setting("sampler", key) for key in ("workers", "team", "latency")}
    for name in (*_COUNTS, "steps", "wasted", "steps_burn_in", "seconds"):
        if arm.has(f"prefetch_{name}"):
            put(row, f"prefetch_{name}", arm.each(f"prefetch_{name}"))
    row["prefetch_expected"] = arm.fact_mean("expected_steps")
    row["prefetch_wrong"] = arm.fact_mean("foretold_wrong")
    if (speedup := _speedup(run, arm)) is not None:
        put(row, "prefetch_speedup", speedup)
    if not simulated(arm):
        row["prefetch_possible"] = float(np.mean(arm.each("prefetch_steps"))) * _worth(arm)
    return row


def simulated(arm: ArmResult) -> bool:
    """Whether its workers are logical ones, with a clock of their own."""
    return arm.has("prefetch_evaluations")


def _worth(arm: ArmResult) -> float:
    """C/(C + λ): what is left of a round where messages cost λ and an evaluation C; 1 for one worker."""
    if arm.setting("sampler", "workers") == 1:
        return 1.0
    evaluation = arm.fact_mean("evaluation_s")
    return evaluation / (evaluation + arm.fact_mean("message_s"))


def _speedup(run: Run, arm: ArmResult) -> np.ndarray | None:
    """Iterations in the time of one of the chain of one worker, (seeds,).

    On the simulated clock, or by seconds of the arm of one real worker; None where there is none.
    """
    if simulated(arm):
        return 1.0 / arm.each("prefetch_evaluations")
    alone = (one for one in SECTION.arms(run) if one.problem == arm.problem and not simulated(one))
    base = next((one for one in alone if one.setting("sampler", "workers") == 1), None)
    if base is None or base is arm:
        return None if base is None else np.ones(arm.done)
    return np.mean(base.each("prefetch_seconds")) / arm.each("prefetch_seconds")


def _wasted(row: Row) -> str:
    return f"{100 * row['prefetch_wasted']:.0f} %" if known(row["prefetch_wasted"]) else "-"


_COLUMNS = [
    ARM,
    Column("workers", plain("prefetch_workers")),
    Column("steps a round", measured("prefetch_steps")),
    Column("in theory", plain("prefetch_expected")),
    Column("in burn-in", plain("prefetch_steps_burn_in")),
    Column("foretold wrongly", plain("prefetch_wrong", 2)),
    Column("queries/iter", plain("prefetch_queries", 4)),
    Column("wasted", _wasted),
    Column("critical/iter", plain("prefetch_span", 4)),
    Column("rounds/iter", plain("prefetch_rounds")),
    Column("bytes/iter", plain("prefetch_bytes", 4)),
]
_CLOCK = [Column("latency", plain("prefetch_latency")), Column("speedup", measured("prefetch_speedup"))]
_REAL = [
    Column("s/iter", measured("prefetch_seconds")),
    Column("speedup", measured("prefetch_speedup")),
    Column("possible", plain("prefetch_possible")),
]


def _views(rows: list[Row]) -> list[View]:
    made = []
    for kind, own, real in (("simulated", _CLOCK, False), ("real", _REAL, True)):
        ours = [row for row in rows if known(row["prefetch_steps"])]
        if ours := [row for row in ours if known(row["prefetch_possible"]) == real]:
            made.append(table_view(f"Prefetching, {kind} workers", [*_COLUMNS, *own, SEEDS], ours))
    return made


_LEGEND = """
steps a round: iterations that the chain goes in the time of one evaluation of the likelihood, after burn-in
and within; in theory: the sum of the chances to reach the nodes that are evaluated, at the share that was
accepted or foretold wrongly. queries: all workers', wasted ones too; critical: those on the longest path;
rounds: how often work was given out; bytes: positions down, sums up.

{% if simulated %}
Workers are simulated; latency: of a round's messages, in evaluations; speedup: on that clock, against one
worker without messages.
{% endif %}

{% if real %}
s/iter: by the clock, after burn-in; speedup: against one worker; possible: steps a round times C/(C + λ), an
evaluation's time C and an empty round's λ as measured before the run.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    kinds = {simulated(arm) for arm in SECTION.arms(run)}
    return words.lines(_LEGEND, simulated=True in kinds, real=False in kinds)


def _milliseconds(seconds: float) -> str:
    return f"{number(1e3 * seconds, 2)} ms"


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if (workers := arm.setting("sampler", "workers")) == 1:
        return []
    if simulated(arm):
        latency = f"messages of {arm.setting('sampler', 'latency'):g} evaluations cost more than they gain"
        slower = np.mean(arm.each("prefetch_evaluations")) > 1.0
        return [f"{workers} workers are slower than one: {latency}."] if slower else []
    gained = max(float(np.mean(arm.each("prefetch_steps"))) - 1.0, 1e-9)
    evaluation, message = arm.fact_mean("evaluation_s"), arm.fact_mean("message_s")
    if evaluation * gained > message:
        return []
    return [
        f"an evaluation takes {_milliseconds(evaluation)}, messages {_milliseconds(message)} a round: "
        f"{workers} workers pay from {_milliseconds(message / gained)} on."
    ]


def _caveats(run: Run) -> list[str]:
    arms = [arm for arm in SECTION.arms(run) if simulated(arm) and arm.setting("sampler", "workers") != 1]
    if not arms:
        return []
    evaluation = float(np.median([arm.fact_mean("evaluation_s") for arm in arms]))
    gains = [float(np.mean(arm.each("prefetch_steps"))) - 1.0 for arm in arms]
    low, high = (_milliseconds(max(gain, 0.0) * evaluation) for gain in (min(gains), max(gains)))
    return [
        f"Prefetching is simulated: an evaluation takes {_milliseconds(evaluation)} here, and real workers "
        f"would pay only with messages below {low} to {high} a round."
    ]


SECTION = Section(
    "prefetching",
    columns="""
        prefetch_workers prefetch_team prefetch_latency prefetch_steps prefetch_steps_sd prefetch_expected
        prefetch_steps_burn_in prefetch_steps_burn_in_sd prefetch_wrong prefetch_queries prefetch_queries_sd
        prefetch_wasted prefetch_wasted_sd prefetch_span prefetch_span_sd prefetch_rounds prefetch_rounds_sd
        prefetch_bytes prefetch_bytes_sd prefetch_seconds prefetch_seconds_sd prefetch_speedup
        prefetch_speedup_sd prefetch_possible
    """,
    reads=("prefetch_steps",), summarise=summarise, row=_row, views=_views, legend=_legend,
    arm_caveats=_arm_caveats, caveats=_caveats,
)  # fmt: skip
