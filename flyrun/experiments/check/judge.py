"""Found against stored: equal to the last bit where it must be, else alike by a statistical test.

The same code at the same seed gives the same draws on the same arithmetic. So where the digest of the set-up
and the machine are as stored, counts and draws must be too. Elsewhere the last bits differ, chains part
sooner or later, and means over the seeds are compared instead.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from flyrun.ground.diagnostics.difference import welch

LEVEL = 0.001
"""Probability that any of a check's statistical comparisons fails although nothing differs but luck."""

STATISTICS = ("queries", "moves", "level")
EXACT, ALIKE, DIFFERS, NEW = "exact", "alike", "differs", "new"


@dataclass(frozen=True)
class Verdict:
    """kind: EXACT, ALIKE (statistically), DIFFERS or NEW.  why: one sentence; "" where exact."""

    kind: str
    why: str = ""


def judge(stored: dict[str, Any] | None, measured: dict[str, Any], apart: str, comparisons: int) -> Verdict:
    """Judge one arm; the statistical level is LEVEL / comparisons.

    apart: why bits may differ though the set-up is the same; "" where they must not.
    """
    if stored is None:
        return Verdict(NEW, "nothing is stored of it")
    if stored == measured:
        return Verdict(EXACT)
    same_setup = stored["setup"] == measured["setup"]
    if same_setup and not apart:
        return Verdict(DIFFERS, f"from the same set-up: {changes(stored, measured)}")
    reason = apart or "the set-up has other bits"
    level = LEVEL / max(1, comparisons)
    if min(len(each["queries"]) for each in (stored, measured)) < 2:
        few = "one seed does not tell luck from a difference"
        return Verdict(DIFFERS, f"{reason}, and {few}: {changes(stored, measured)}")
    p_of = {name: p_value(stored[name], measured[name]) for name in STATISTICS}
    off = [
        f"{_means(name, stored, measured)} ({apart_by(stored[name], measured[name])}, p = {p:.1g})"
        for name, p in p_of.items()
        if not p >= level
    ]
    if off:
        return Verdict(DIFFERS, f"{reason}, and means differ more than luck allows: {', '.join(off)}")
    seen = ", ".join(f"{name} {_visible(stored[name], measured[name], level)}" for name in STATISTICS)
    parts = ", ".join(f"{name} {apart_by(stored[name], measured[name])}" for name in STATISTICS)
    means = f"agree at level {level:.1g}, which would have seen off by: {seen}; they are apart by: {parts}"
    return Verdict(ALIKE, f"{reason}; {means}")


def changes(stored: dict[str, Any], measured: dict[str, Any]) -> str:
    """What changed, in words: means over seeds of what did."""
    parts = [_means(name, stored, measured) for name in STATISTICS if stored[name] != measured[name]]
    digests = {"draws": "other draws", "setup": "other set-up"}
    parts += [text for name, text in digests.items() if stored[name] != measured[name]]
    return ", ".join(parts) or "nothing"


def _means(name: str, stored: dict[str, Any], measured: dict[str, Any]) -> str:
    return f"{name} {np.mean(stored[name]):,.6g} to {np.mean(measured[name]):,.6g}"


def apart_by(ours: list[float], theirs: list[float]) -> str:
    """The difference of two means in its standard errors over the seeds."""
    a, b = (np.asarray(values, float) for values in (ours, theirs))
    se = float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
    difference = abs(float(a.mean() - b.mean()))
    return f"{difference / se:.2g} se" if se else "0 se" if not difference else "no spread to hold it against"


def _visible(ours: list[float], theirs: list[float], level: float) -> str:
    """The least difference of two means that the test at this level finds in half of all cases."""
    a, b = (np.asarray(values, float) for values in (ours, theirs))
    se = float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
    return f"{stats.t.isf(level / 2, len(a) + len(b) - 2) * se:.2g}"


def p_value(ours: list[float], theirs: list[float]) -> float:
    """Two-sided p of equal means, Welch's t-test over seeds; 0 or 1 where neither varies."""
    a, b = (np.asarray(values, float) for values in (ours, theirs))
    if np.allclose([*a, *b], a[0], rtol=1e-9, atol=0):  # as many digits as rounding leaves
        return 1.0
    summaries = [(float(x.mean()), float(x.std(ddof=1))) for x in (a, b)]
    return welch(summaries[0], summaries[1], [len(a), len(b)])[1]
