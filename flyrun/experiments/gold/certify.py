"""Whether a reference can be believed: each check, whether it holds, and what it measured."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.gold.recipe import Moments
from flyrun.experiments.gold.reference import free
from flyrun.experiments.samplers.method import prepare

LEVEL = 1e-3
HIGH_Z = 4.0
PLANTED = 0.1  # sds, of an error that must be found
#: batches of a chain: more than twice as many as coordinates that are tested together
MOST_TOGETHER = 60


class Check(NamedTuple):
    """One of them."""

    name: str
    holds: bool
    figures: str


def agreement(first: Moments, other: Moments) -> tuple[float, float]:
    """Root mean square and largest |z| of two estimates' means."""
    z = (first.mean - other.mean) / np.hypot(first.mean_se, other.mean_se)
    return float(np.sqrt(np.mean(z**2))), float(np.abs(z).max())


def chain(arm: Arm, folder: Path, iterations: int, classes: int, seed: int = 11) -> np.ndarray:
    """Draws (T, D) of an arm's chain after its burn-in, in the reference's coordinates."""
    method = prepare(arm, folder)
    state = method.init(seed)
    state, _ = method.advance(state, arm.protocol.burn_in)
    kept = []
    for _ in range(10):
        state, draws = method.advance(state, iterations // 10)
        kept.append(draws["theta"])
    theta = np.concatenate(kept)
    return free(theta, classes)


def hotelling(draws: np.ndarray, mean: np.ndarray, mean_se: np.ndarray) -> float:
    """p of the hypothesis that the mean of draws (T, D) is `mean`, (D,), by Hotelling's T² on batch means.

    Of many coordinates the largest z of each alone, Bonferroni: batches are too few for their covariance.
    """
    size = draws.shape[1]
    together = size <= MOST_TOGETHER
    n = max(40, 3 * size) if together else 50
    batches = np.stack([part.mean(axis=0) for part in np.array_split(draws, n)])
    off = batches.mean(axis=0) - mean
    if together:
        covariance = np.cov(batches.T).reshape(size, size) / n + np.diag(mean_se**2)
        t2 = off @ np.linalg.solve(covariance, off)
        return float(stats.f.sf(t2 * (n - size) / (size * (n - 1)), size, n - size))
    z = off / np.sqrt(batches.var(axis=0, ddof=1) / n + mean_se**2)
    return float(min(1.0, size * 2 * stats.t.sf(np.abs(z).max(), n - 1)))


def checks(moments: Moments, other: Moments, k: float, draws: np.ndarray) -> list[Check]:
    """All of them. moments, other: by two proposals; k: of the first; draws: an exact chain's, (T, D)."""
    rms, largest = agreement(moments, other)
    p = hotelling(draws, moments.mean, moments.mean_se)
    sd = np.sqrt(moments.variance)
    # where the chain sees least: in the coordinate that it moves through most slowly
    slowest = int(
        np.argmax(np.array([part.mean(axis=0) for part in np.array_split(draws, 40)]).std(axis=0) / sd)
    )
    planted = moments._replace(mean=moments.mean + PLANTED * sd * (np.arange(len(sd)) == slowest))
    by_other, by_chain = agreement(planted, other)[1], hotelling(draws, planted.mean, moments.mean_se)
    return [
        Check("pareto_k", k < 0.5, f"k̂ = {k:.2f} < 0.5"),
        Check(
            "two_proposals",
            largest < HIGH_Z and rms < 2.0,
            f"rms z {rms:.2f}, largest {largest:.2f} < {HIGH_Z:g}",
        ),
        Check("exact_chain", p > LEVEL, f"p = {p:.2g} > {LEVEL:g}, {len(draws):,} iterations"),
        Check(
            "planted_error",
            by_other > HIGH_Z and by_chain < LEVEL,
            f"{PLANTED:g} sd in one mean: z = {by_other:.0f}, p = {by_chain:.1g}",
        ),
    ]
