"""The long Gibbs run that arms on a graph are held against, and how far off it they are.

Of some graphs one is stored, in results/reference/long_gibbs beside the script that makes it. Elsewhere the
run's own plain Gibbs arm with the most sweeps serves.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from flyrun import paths
from flyrun.report.table import mean_sd

if TYPE_CHECKING:
    from flyrun.report.arms import ArmResult, Run

# Beyond so many standard errors an arm is marked. Few seeds tell standard errors only roughly.
FAR = 4.0
STORED = "long_gibbs"


class Reference(NamedTuple):
    """energy (⟨ζ⟩/Ψ), agreement: means after burn-in, a value per chain.  arm: its name in the run, or ""."""

    arm: str
    what: str
    energy: np.ndarray
    agreement: np.ndarray


def reference(run: Run) -> Reference | None:
    """What this run's arms are held against; None where no plain Gibbs run is at hand."""
    arm = next((arm for arm in run.arms if arm.done), None)
    return None if arm is None else _stored(arm) or _own(run)


def _stored(arm: ArmResult) -> Reference | None:
    graph = {group: arm.setting(group) for group in ("dataset", "model")}
    for path in sorted((paths.reference_dir() / STORED).glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            if all(found[group] == graph[group] for group in graph):
                energy, agreement = np.array(found["energy"], float), np.array(found["agreement"], float)
                what = f"stored, {len(energy)} chains of {found['sweeps']:,} sweeps after burn-in"
                return Reference("", what, energy, agreement)
    return None


def _own(run: Run) -> Reference | None:
    plain = [arm for arm in run.arms if arm.done and arm.setting("sampler", "name") == "gibbs"]
    if not plain:
        return None
    arm = max(plain, key=lambda arm: arm.cells[0].n_iterations * arm.done)
    energy, agreement = (
        np.array([getattr(cell, name) for cell in arm.cells]) for name in Reference._fields[2:]
    )
    sweeps = arm.cells[0].n_iterations
    return Reference(
        arm.name, f"arm {arm.name}, {arm.done} chains of {sweeps:,} sweeps after burn-in", energy, agreement
    )


def mean_se(values: np.ndarray) -> tuple[float, float]:
    """Mean over chains and its standard error, from their spread; NaN for one chain."""
    mean, sd = mean_sd(values)
    return mean, sd / math.sqrt(len(values))


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Difference of two means over chains in standard errors, both errors together; NaN for one chain."""
    (mean, se), (base, base_se) = mean_se(ours), mean_se(theirs)
    both = math.hypot(se, base_se)
    return (mean - base) / both if both > 0 else math.nan
