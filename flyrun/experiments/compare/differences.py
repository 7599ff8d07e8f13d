"""Two sides' arms, metric by metric: the difference, its uncertainty, and what to make of it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyrun.experiments.compare.sides import Arm, Side
from flyrun.experiments.report.arms import BASELINE
from flyrun.ground.diagnostics.difference import equivalence, welch
from flyrun.ground.page.metrics import mean_sd
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
SAME_DATA = ("dataset", "model", "n_data", "n_params", "n_variables", "n_values")
_SAME_LENGTH = ("iterations", "burn_in")


@dataclass(frozen=True)
class Difference:
    """One metric of one arm. a, b: (mean, sd over seeds; of seconds over runs).  se: of b - a.

    paired: whether se and p are of differences seed by seed, both sides having drawn from the same streams.
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
    paired: bool = False

    @property
    def value(self) -> float:
        """B − A."""
        return self.b[0] - self.a[0]

    @property
    def identical(self) -> bool:
        """Whether both sides have the same digits, sds included where they are known."""
        return self.a[0] == self.b[0] and (self.a[1] == self.b[1] or math.isnan(self.a[1] + self.b[1]))


def contrast(a: dict[str, Any], b: dict[str, Any], keys: Iterable[str]) -> str:
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
    return contrast(a, b, SAME_DATA) or contrast(ours, theirs, ours) or contrast(a, b, _SAME_LENGTH)


def _untimed(cpus: tuple[set[Any], set[Any]], runs: list[int]) -> str:
    """Why seconds get no verdict: the processor, or a side of one run alone; "" where they do."""
    if None in cpus[0] | cpus[1]:
        return "processor unknown"
    if len(cpus[0] | cpus[1]) > 1:
        return f"processors {listing(sorted(map(str, cpus[0])))}; {listing(sorted(map(str, cpus[1])))}"
    return ONE_RUN if min(runs) < 2 else ""


ONE_RUN = "one run a side"


def of_arms(sides: tuple[Side, Side], pair: tuple[Arm, Arm], margin: float) -> list[Difference]:
    """An arm of A against one of B, metric by metric, without verdicts yet."""
    rows = [side.rows[arm] for side, arm in zip(sides, pair, strict=True)]
    seeds = [seeds_of(row) for row in rows]
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
        by_seed = np.empty(0) if metric in TIMES or reason else _by_seed(sides, pair, metric, (a[0], b[0]))
        if reason:
            se, p, p_same = math.nan, math.nan, math.nan
        else:
            ours, theirs = a, b
            if by_seed.size:  # a t-test of their mean against 0, which has no spread
                ours, theirs, numbers = (0.0, 0.0), mean_sd(by_seed), [float(by_seed.size)] * 2
            (se, p), p_same = (
                welch(ours, theirs, numbers),
                equivalence(ours, theirs, numbers, margin * abs(a[0])),
            )
        label = pair[1] if sides[0] is sides[1] else pair[0]
        paired = bool(by_seed.size)
        differences.append(Difference(*label, metric, a, b, se, p, p_same, why=reason, paired=paired))
    return differences


def _by_seed(
    sides: tuple[Side, Side], pair: tuple[Arm, Arm], metric: str, means: tuple[float, float]
) -> np.ndarray:
    """B - A seed by seed, (S,), of two seeds or more with the same random numbers on both sides; else none.

    A metric that is not the mean of the seeds' own values has none.
    """
    streams = [side.streams.get(arm) for side, arm in zip(sides, pair, strict=True)]
    if not streams[0] or streams[0] != streams[1]:
        return np.empty(0)
    ours, theirs = (side.by_seed(arm, metric) for side, arm in zip(sides, pair, strict=True))
    if ours.keys() != theirs.keys() or len(ours) < 2:
        return np.empty(0)
    values = np.array([[ours[seed], theirs[seed]] for seed in ours])
    return values[:, 1] - values[:, 0] if np.allclose(values.mean(0), means, rtol=1e-9) else np.empty(0)


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


def seeds_of(row: dict[str, Any]) -> float:
    """How many finished seeds a row is of."""
    return float(row.get("seeds") or 0)


def _show(value: object) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)
