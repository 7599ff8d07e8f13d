"""What a chain gains whose next steps several workers evaluate ahead of it, and what is wasted on the way."""

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import fact, table
from flyrun.experiments.report.section import Row, Section
from flyrun.ground.page.metrics import Metric, per_cent, put
from flyrun.ground.page.render import View, known, number, plain

_COUNTS = ("queries", "span", "rounds", "bytes")


def summarise(draws: Draws) -> Row:
    """prefetch_*: of an iteration after burn-in queries (wasted ones too), span (those on the longest path),
    rounds, bytes, evaluations or seconds; steps in the time of an evaluation, and in burn-in; share wasted.
    """
    n_data = draws.facts.get("n_data")
    recorded = {name: draws.values("sample_stats", name) for name in _COUNTS}
    means = {name: float(np.mean(values)) for name, values in recorded.items() if values is not None}
    if "evaluation_s" not in draws.facts or n_data is None or len(means) < len(recorded):
        return {}
    row: Row = {f"prefetch_{name}": mean for name, mean in means.items()}
    row["prefetch_steps"] = n_data / row["prefetch_span"]
    # What burn-in had evaluated ahead makes a short run seem to waste less than nothing.
    tested = draws.values("sample_stats", "tested")
    needed = n_data * (1.0 if tested is None else float(np.mean(tested)))
    row["prefetch_wasted"] = max(0.0, 1.0 - needed / row["prefetch_queries"])
    if (begun := draws.values("warmup_sample_stats", "span")) is not None:
        row["prefetch_steps_burn_in"] = n_data / float(np.mean(begun))
    for name in ("evaluations", "seconds"):
        if (clock := draws.values("sample_stats", name)) is not None:
            row[f"prefetch_{name}"] = float(np.mean(clock))
    return row


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {f"prefetch_{key}": arm.setting("sampler", key) for key in ("workers", "team", "latency")}
    for metric in METRICS:
        if metric.by_seed and arm.has(metric.name):
            put(row, metric.name, arm.each(metric.name))
    if (speedup := _speedup(run, arm)) is not None:
        put(row, "prefetch_speedup", speedup)
    if not simulated(arm):
        row["prefetch_possible"] = possible(arm)
    return row


def simulated(arm: ArmResult) -> bool:
    """Whether its workers are logical ones, with a clock of their own."""
    return arm.has("prefetch_evaluations")


def possible(arm: ArmResult) -> float:
    """The speedup that real workers could give: steps a round, and what messages leave of them."""
    return float(np.mean(arm.each("prefetch_steps"))) * _worth(arm)


def _worth(arm: ArmResult) -> float:
    """C/(C + λ): what is left of a round where messages cost λ and its work C; 1 for one worker."""
    if arm.setting("sampler", "workers") == 1:
        return 1.0
    evaluation = arm.fact_mean("evaluation_s")
    return evaluation / (evaluation + _shares(arm) * arm.fact_mean("message_s"))


def _shares(arm: ArmResult) -> int:
    """How many rounds' messages an evaluation's work takes: of one that is divided, a worker's share each."""
    return arm.setting("sampler", "workers") if arm.setting("sampler", "scheme") == "divided" else 1


def _speedup(run: Run, arm: ArmResult) -> np.ndarray | None:
    """Iterations in the time of one of the chain of one worker, (seeds,).

    On the simulated clock, or by seconds of the arm of one real worker; None where there is none.
    """
    if simulated(arm):
        return 1.0 / arm.each("prefetch_evaluations")
    alone = (real for real in SECTION.arms(run) if real.problem == arm.problem and not simulated(real))
    base = next((real for real in alone if real.setting("sampler", "workers") == 1), None)
    if base is None or base is arm:
        return None if base is None else np.ones(arm.done)
    return np.mean(base.each("prefetch_seconds")) / arm.each("prefetch_seconds")


_COLUMNS = [
    Metric("prefetch_workers", "workers"),
    Metric("prefetch_team"),
    Metric("prefetch_latency"),
    Metric(
        "prefetch_steps", "steps a round", by_seed=True,
        means="iterations in the time of one evaluation of the likelihood, after burn-in",
    ),
    Metric(
        "prefetch_expected", "in theory", fact("expected_steps"),
        "the sum of the chances to reach the nodes that are evaluated",
    ),
    Metric("prefetch_steps_burn_in", "in burn-in", by_seed=True, alone=True),
    Metric(
        "prefetch_wrong", "foretold wrongly", fact("foretold_wrong"), "share of predicted decisions", digits=2
    ),
    Metric(
        "prefetch_queries", "queries/iter", means="of all workers, wasted ones too", by_seed=True,
        alone=True, digits=4,
    ),
    Metric("prefetch_wasted", "wasted", by_seed=True, text=per_cent("prefetch_wasted", 0)),
    Metric(
        "prefetch_span", "critical/iter", means="queries on the longest path", by_seed=True,
        alone=True, digits=4,
    ),
    Metric(
        "prefetch_rounds", "rounds/iter", means="how often work was given out", by_seed=True, alone=True
    ),
    Metric(
        "prefetch_bytes", "bytes/iter", means="positions sent and sums returned", by_seed=True,
        alone=True, digits=4,
    ),
]  # fmt: skip
_LATENCY = Metric(
    "", "latency", text=plain("prefetch_latency"), means="of a round's messages, in evaluations"
)
_SECONDS = Metric("prefetch_seconds", "s/iter", means="wall-clock time after burn-in", by_seed=True)
_SPEEDUP = Metric(
    "prefetch_speedup", "speedup", by_seed=True,
    means="against one worker, by wall-clock time or on the simulated clock",
)  # fmt: skip
_POSSIBLE = Metric(
    "prefetch_possible",
    "possible",
    means="steps a round times C/(C + λ): an evaluation takes C, an empty round λ, measured before the run",
)
METRICS = [*_COLUMNS, _SECONDS, _SPEEDUP, _POSSIBLE]


def _views(rows: list[Row]) -> list[View]:
    views = []
    for kind, columns, real in (
        ("simulated", [_LATENCY, _SPEEDUP], False),
        ("real", [_SECONDS, _SPEEDUP, _POSSIBLE], True),
    ):
        ours = [row for row in rows if known(row["prefetch_steps"])]
        if ours := [row for row in ours if known(row["prefetch_possible"]) == real]:
            views.append(table(f"Prefetching, {kind} workers", [*_COLUMNS, *columns], ours))
    return views


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
    least = _shares(arm) * message / gained
    if evaluation > least:
        return []
    return [
        f"an evaluation takes {_milliseconds(evaluation)}, messages {_milliseconds(message)} a round: "
        f"{workers} workers pay from {_milliseconds(least)} on."
    ]


def _caveats(run: Run) -> list[str]:
    arms = [arm for arm in SECTION.arms(run) if simulated(arm) and arm.setting("sampler", "workers") != 1]
    if not arms:
        return []
    evaluation = float(np.median([arm.fact_mean("evaluation_s") for arm in arms]))
    gains = [(float(np.mean(arm.each("prefetch_steps"))) - 1.0) / _shares(arm) for arm in arms]
    low, high = (_milliseconds(max(gain, 0.0) * evaluation) for gain in (min(gains), max(gains)))
    return [
        f"Prefetching is simulated: an evaluation takes {_milliseconds(evaluation)} here, and real workers "
        f"would pay only with messages below {low} to {high} a round."
    ]


SECTION = Section(
    "prefetching", place=140,
    metrics=METRICS, reads=("prefetch_steps",), summarise=summarise, row=_row, views=_views,
    arm_caveats=_arm_caveats, caveats=_caveats,
)  # fmt: skip
