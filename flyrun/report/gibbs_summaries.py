"""Numbers of one stored chain on a graph: its error, what its updates cost, and what shows a bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyrun.report.summaries import CELL_SUMMARY, Draws, cached, mark

_CURVE_POINTS = 160


@dataclass(frozen=True)
class GraphSummary:
    """One finished cell.

    n_iterations: sweeps after burn-in.  error: at the end, mean ℓ2 distance of the marginals to uniform.
    nominal, actual: factor evaluations per update.  accepted, changed: shares of updates.
    us_per_update: time of sampling, without what watching costs.  These five over the whole chain.
    energy (⟨ζ⟩/Ψ) and agreement (share of neighbours of one value): means after burn-in.
    curve_*: error at log-spaced numbers of updates, and factor evaluations (nominal) and seconds up to there.
    """

    n_iterations: int
    error: float
    nominal: float
    actual: float
    accepted: float
    changed: float
    us_per_update: float
    energy: float
    agreement: float
    curve_updates: list[float]
    curve_error: list[float]
    curve_factors: list[float]
    curve_seconds: list[float]


def cell_summary(draws: Draws) -> GraphSummary:
    """Summary of a finished cell; raises StoreError when its draws cannot be read."""
    cell = draws.cell
    return cached(cell.folder / CELL_SUMMARY, mark(cell), GraphSummary, lambda: _summarise(draws))


def arm_summary(chains: list[Draws]) -> None:
    """Nothing is asked of all of an arm's chains together but means and sds, which the table takes."""


def _summarise(draws: Draws) -> GraphSummary:
    facts, tree = draws.cell.info["facts"], draws.tree
    n_variables = int(facts["n_variables"])
    burn_in = int(draws.cell.info["burn_in"])

    def whole(name: str) -> np.ndarray:
        groups = [group for group in ("warmup_sample_stats", "sample_stats") if group in tree]
        return np.concatenate([tree[group][name].values[0] for group in groups]).astype(float)

    error, nominal, seconds = whole("error"), whole("nominal"), whole("seconds")
    points = np.unique(np.rint(np.geomspace(1, error.size, _CURVE_POINTS)).astype(int))
    curve = points - 1
    return GraphSummary(
        n_iterations=error.size - burn_in,
        error=float(error[-1]),
        nominal=float(nominal.mean()),
        actual=float(whole("actual").mean()),
        accepted=float(whole("accepted").mean()),
        changed=float(whole("changed").mean()),
        us_per_update=float(1e6 * seconds.mean() / n_variables),
        energy=float(whole("energy")[burn_in:].mean()) / (float(facts["total_energy_bound"]) or 1.0),
        agreement=float(whole("agreement")[burn_in:].mean()),
        curve_updates=(points * float(n_variables)).tolist(),
        curve_error=error[curve].tolist(),
        curve_factors=(n_variables * np.cumsum(nominal))[curve].tolist(),
        curve_seconds=np.cumsum(seconds)[curve].tolist(),
    )
