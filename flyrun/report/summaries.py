"""Numbers of one stored cell, and of all cells of an arm together, kept beside the draws they come from.

A summary is computed once: `summary.json` in the cell's folder and `diagnostics.json` in the arm's are
used again while the draws and the code that made the numbers are the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.diagnostics import coda, ess

if TYPE_CHECKING:
    from flyrun.runner.store import StoredCell

_GROWTH_POINTS = 8
_GROWTH_COORDINATES = 16
_CURVE_BINS = 240
_LAGS = 300
_BLOCK_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CellSummary:
    """One finished cell. Lists are over coordinates or over the points of a figure.

    ess: R-CODA's effective draws by coordinate.  n_iterations: those after burn-in.
    curve_*: queries per iteration averaged in bins of iterations, burn-in included (log-spaced).
    trace_*: log posterior on a grid of iterations.
    lags, autocorrelation: lags in iterations, and the mean over coordinates there.
    growth_s, growth_ess: effective draws (mean over at most 16 coordinates) after so many seconds.
    """

    n_iterations: int
    ess: list[float]
    queries_per_iter: float
    accept_rate: float
    bright_mean: float
    curve_iteration: list[float]
    curve_queries: list[float]
    trace_iteration: list[float]
    trace_log_posterior: list[float]
    lags: list[float]
    autocorrelation: list[float]
    growth_s: list[float]
    growth_ess: list[float]


@dataclass(frozen=True)
class ArmSummary:
    """All finished chains of an arm together; ESS in draws of all chains, lists over coordinates."""

    names: list[str]
    bulk: list[float]
    tail: list[float]
    square: list[float]
    rhat: list[float]


def cell_summary(cell: StoredCell) -> CellSummary:
    """Summary of a finished cell; raises StoreError when its draws cannot be read."""
    return _cached(cell.folder / "summary.json", _mark(cell), CellSummary, lambda: _summarise(cell))


def arm_summary(cells: list[StoredCell]) -> ArmSummary:
    """Cross-chain diagnostics of an arm's finished cells (one or more)."""
    mark = hashlib.sha256(" ".join(_mark(cell) for cell in cells).encode()).hexdigest()
    path = cells[0].folder.parent / "diagnostics.json"
    return _cached(path, mark, ArmSummary, lambda: _pool(cells))


def _summarise(cell: StoredCell) -> CellSummary:
    info = cell.info
    thin = int(info.get("thin", 1))
    with cell.tree() as tree:
        draws = tree["posterior"]["theta"].values[0]
        stats = {name: tree["sample_stats"][name].values[0] for name in ("queries", "accepted", "bright")}
        warm = tree["warmup_sample_stats"]["queries"].values[0] if "warmup_sample_stats" in tree else []
        trace_iteration = tree["trace"]["iteration"].values
        trace_value = tree["trace"]["log_posterior"].values
    n_iterations = stats["queries"].size
    curve = _binned(np.concatenate([warm, stats["queries"]]))
    lags, autocorrelation = _autocorrelation(draws, thin)
    growth_s, growth_ess = _growth(draws, float(info["timings"]["sampling_s"]))
    return CellSummary(
        n_iterations=n_iterations,
        ess=_sizes(draws).tolist(),
        queries_per_iter=float(stats["queries"].mean()),
        accept_rate=float(stats["accepted"].mean()),
        bright_mean=float(stats["bright"].mean()),
        curve_iteration=curve[0].tolist(),
        curve_queries=curve[1].tolist(),
        trace_iteration=np.asarray(trace_iteration, float).tolist(),
        trace_log_posterior=np.asarray(trace_value, float).tolist(),
        lags=lags.tolist(),
        autocorrelation=autocorrelation.tolist(),
        growth_s=growth_s.tolist(),
        growth_ess=growth_ess.tolist(),
    )


def _pool(cells: list[StoredCell]) -> ArmSummary:
    """Bulk, tail and square ESS and R-hat, in blocks of coordinates so that memory stays bounded."""
    trees = [cell.tree() for cell in cells]
    try:
        thetas = [tree["posterior"]["theta"] for tree in trees]
        # Chains of one arm have one length; a shorter one would only be there after a change by hand.
        n_draws = min(theta.shape[1] for theta in thetas)
        dim = thetas[0].dims[2]
        n_params = thetas[0].shape[2]
        names = [str(name) for name in thetas[0][dim].values] if dim in thetas[0].coords else []
        block = max(1, _BLOCK_BYTES // (8 * n_draws * len(cells)))
        parts = []
        for start in range(0, n_params, block):
            chosen = {dim: slice(start, start + block)}
            chains = np.concatenate([theta.isel(chosen).values[:, :n_draws] for theta in thetas])
            parts.append(ess.summary(chains))
    finally:
        for tree in trees:
            tree.close()
    columns = [np.concatenate(values).tolist() for values in zip(*parts, strict=True)]
    return ArmSummary(names or [f"theta[{d}]" for d in range(n_params)], *columns)


def _sizes(draws: np.ndarray) -> np.ndarray:
    """R-CODA's effective draws by coordinate, NaN when there are too few to fit.

    coda calls a chain constant when its sd is below 1.5e-8; columns are brought to unit size first, so
    that a parameter measured in small units is not taken for one.
    """
    if draws.shape[0] < 3:
        return np.full(draws.shape[1], np.nan)
    spread = np.ptp(draws, axis=0)
    return coda.effective_size((draws - draws[0]) / np.where(spread > 0, spread, 1))


def _binned(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean queries in bins of iterations whose widths grow with the logarithm: (centres, means)."""
    edges = np.unique(np.geomspace(1, queries.size + 1, _CURVE_BINS + 1).astype(int)) - 1
    starts, widths = edges[:-1], np.diff(edges)
    return starts + (widths + 1) / 2, np.add.reduceat(queries.astype(float), starts) / widths


def _autocorrelation(draws: np.ndarray, thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Lags in iterations and the autocorrelation there, averaged over coordinates that move."""
    max_lag = max(1, min(draws.shape[0] // 4, 20 * _LAGS))
    covariance = coda.autocovariance(np.ascontiguousarray(draws.T), max_lag)
    moving = covariance[:, 0] > 0
    # A chain at rest keeps its value for ever.
    values = np.ones(max_lag + 1)
    if moving.any():
        values = (covariance[moving] / covariance[moving, :1]).mean(axis=0)
    lags = np.unique(np.linspace(0, max_lag, _LAGS + 1).astype(int))
    return lags * thin, values[lags]


def _growth(draws: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of sampling and effective draws so far, at equal shares of the run."""
    chosen = np.unique(np.linspace(0, draws.shape[1] - 1, _GROWTH_COORDINATES).astype(int))
    shares = np.arange(1, _GROWTH_POINTS + 1) / _GROWTH_POINTS
    sizes = [np.mean(_sizes(draws[: int(share * draws.shape[0]), chosen])) for share in shares]
    return shares * seconds, np.array(sizes)


def _mark(cell: StoredCell) -> str:
    """Digest of what a summary depends on: the code, and which draws these are."""
    size = (cell.folder / "posterior.nc").stat().st_size
    text = f"{_code_digest()} {cell.info.get('finished')} {cell.info.get('timings')} {size}"
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for path in (Path(__file__), Path(coda.__file__), Path(ess.__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cached(path: Path, mark: str, kind: type, compute: Any) -> Any:
    """The summary stored at `path` if its mark is this one, else a new one, stored where that is possible."""
    from flyrun.runner import files

    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("mark") == mark:
            return kind(**stored)
    summary = compute()
    # In a results folder that cannot be written the next report only takes longer.
    with contextlib.suppress(OSError):
        files.write_json(path, {"mark": mark, **asdict(summary)})
    return summary
