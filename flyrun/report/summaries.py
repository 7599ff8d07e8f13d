"""Numbers of one stored cell, and of all cells of an arm together, kept beside the draws they come from.

A summary is computed once: `summary.json` in the cell's folder and `diagnostics.json` in the arm's are
used again while the draws and the code that made the numbers are the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.diagnostics import coda, ess
from flyrun.report import gauge

if TYPE_CHECKING:
    from flyrun.runner.store import StoredCell

CELL_SUMMARY = "summary.json"
_GROWTH_POINTS = 8
GROWTH_COORDINATES = 8
_CURVE_BINS = 240
_SHORT_LAGS, _LONG_LAGS = 100, 250
_MAX_LAG = 6000
_BLOCK_BYTES = 256 * 2**20
_KEPT_BYTES = 64 * 2**20
_ALL = slice(None)


@dataclass(frozen=True)
class CellSummary:
    """One finished cell. Lists are over coordinates or over the points of a figure.

    ess, square: R-CODA's effective draws of θ and of (θ - mean)², by coordinate.
    free, free_square: the same without what the likelihood ignores (gauge.py); empty where there is nothing.
    n_iterations: those after burn-in.
    curve_*: queries per iteration averaged in bins of iterations, burn-in included (log-spaced).
    trace_*: log posterior on a grid of iterations.
    lags, autocorrelation: lags in iterations, and the mean over coordinates there.
    growth_s, growth_ess: effective draws (mean over a few coordinates) after so many seconds.
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
    square: list[float] = field(default_factory=list)
    free: list[float] = field(default_factory=list)
    free_square: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class ArmSummary:
    """All finished chains of an arm together; ESS in draws of all chains, lists over coordinates.

    free_*: without what the likelihood ignores; empty where there is nothing.
    """

    names: list[str]
    bulk: list[float]
    tail: list[float]
    square: list[float]
    rhat: list[float]
    free_bulk: list[float] = field(default_factory=list)
    free_square: list[float] = field(default_factory=list)


class Draws:
    """The draws of a finished cell, opened when first needed; close() it."""

    def __init__(self, cell: StoredCell):
        self.cell = cell
        self._tree: Any = None
        self._positions: np.ndarray | None = None

    @property
    def tree(self) -> Any:
        """The stored groups; raises StoreError when they cannot be read."""
        if self._tree is None:
            self._tree = self.cell.tree()
        return self._tree

    def positions(self, coordinates: slice = _ALL) -> np.ndarray:
        """(T, D) draws after burn-in of these coordinates; small ones stay in memory for the next call."""
        if self._positions is not None:
            return self._positions[:, coordinates]
        theta = self.tree["posterior"]["theta"]
        values = theta.isel({theta.dims[2]: coordinates}).values[0]
        if coordinates == _ALL and values.nbytes <= _KEPT_BYTES:
            self._positions = values
        return values

    def close(self) -> None:
        """Let go of the file and the memory."""
        if self._tree is not None:
            self._tree.close()
        self._tree = self._positions = None


def cell_summary(draws: Draws) -> CellSummary:
    """Summary of a finished cell; raises StoreError when its draws cannot be read."""
    cell = draws.cell
    return cached(cell.folder / CELL_SUMMARY, mark(cell), CellSummary, lambda: _summarise(draws))


def arm_summary(chains: list[Draws]) -> ArmSummary:
    """Cross-chain diagnostics of an arm's finished cells (one or more)."""
    marks = hashlib.sha256(" ".join(mark(draws.cell) for draws in chains).encode()).hexdigest()
    path = chains[0].cell.folder.parent / "diagnostics.json"
    return cached(path, marks, ArmSummary, lambda: _pool(chains))


def _summarise(draws: Draws) -> CellSummary:
    info, tree = draws.cell.info, draws.tree
    stats = {name: tree["sample_stats"][name].values[0] for name in ("queries", "accepted", "bright")}
    warm = tree["warmup_sample_stats"]["queries"].values[0] if "warmup_sample_stats" in tree else []
    positions = draws.positions()
    curve_iteration, curve_queries = _binned(np.concatenate([warm, stats["queries"]]))
    lags, autocorrelation = _autocorrelation(positions, int(info.get("thin", 1)))
    growth_s, growth_ess = _growth(positions, float(info["timings"]["sampling_s"]))
    free = gauge.without(positions, info.get("facts", {}))
    return CellSummary(
        n_iterations=stats["queries"].size,
        ess=_sizes(positions).tolist(),
        queries_per_iter=float(stats["queries"].mean()),
        accept_rate=float(stats["accepted"].mean()),
        bright_mean=float(stats["bright"].mean()),
        curve_iteration=curve_iteration.tolist(),
        curve_queries=curve_queries.tolist(),
        trace_iteration=tree["trace"]["iteration"].values.astype(float).tolist(),
        trace_log_posterior=tree["trace"]["log_posterior"].values.astype(float).tolist(),
        lags=lags.tolist(),
        autocorrelation=autocorrelation.tolist(),
        growth_s=growth_s.tolist(),
        growth_ess=growth_ess.tolist(),
        square=_sizes(_squares(positions)).tolist(),
        free=[] if free is None else _sizes(free).tolist(),
        free_square=[] if free is None else _sizes(_squares(free)).tolist(),
    )


def _pool(chains: list[Draws]) -> ArmSummary:
    """Bulk, tail and square ESS and R-hat, in blocks of coordinates so that memory stays bounded."""
    theta = chains[0].tree["posterior"]["theta"]
    _, n_draws, n_params = theta.shape
    block = max(1, _BLOCK_BYTES // (8 * n_draws * len(chains)))
    parts = []
    for start in range(0, n_params, block):
        coordinates = slice(start, start + block) if block < n_params else _ALL
        parts.append(ess.summary(np.stack([draws.positions(coordinates) for draws in chains])))
    columns = [np.concatenate(values).tolist() for values in zip(*parts, strict=True)]
    free: list[list[float]] = [[], []]
    for classes in gauge.blocks(n_params, block, chains[0].cell.info.get("facts", {})):
        columns_of = [np.concatenate([draws.positions(one) for one in classes], axis=1) for draws in chains]
        found = ess.summary(np.stack([gauge.centred(values, len(classes)) for values in columns_of]))
        free[0] += found.bulk.tolist()
        free[1] += found.square.tolist()
    dim = theta.dims[2]
    names = theta[dim].values if dim in theta.coords else [f"theta[{d}]" for d in range(n_params)]
    return ArmSummary([str(name) for name in names], *columns, *free)


def _sizes(draws: np.ndarray) -> np.ndarray:
    """R-CODA's effective draws by coordinate, NaN when there are too few to fit.

    coda calls a chain constant when its sd is below 1.5e-8; columns are brought to unit size first, so
    that a parameter measured in small units is not taken for one.
    """
    if draws.shape[0] < 3:
        return np.full(draws.shape[1], np.nan)
    spread = np.ptp(draws, axis=0)
    return coda.effective_size((draws - draws[0]) / np.where(spread > 0, spread, 1))


def _squares(draws: np.ndarray) -> np.ndarray:
    """(θ - mean)²: antithetic chains have means that converge fast and hide a spread that does not."""
    return (draws - draws.mean(axis=0)) ** 2


def _binned(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean queries in bins of iterations whose widths grow with the logarithm: (centres, means)."""
    edges = np.unique(np.geomspace(1, queries.size + 1, _CURVE_BINS + 1).astype(int)) - 1
    starts, widths = edges[:-1], np.diff(edges)
    return starts + (widths + 1) / 2, np.add.reduceat(queries.astype(float), starts) / widths


def _autocorrelation(draws: np.ndarray, thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Lags in iterations and the autocorrelation there, averaged over coordinates that move."""
    max_lag = max(1, min(draws.shape[0] // 4, _MAX_LAG))
    covariance = coda.autocovariance(np.ascontiguousarray(draws.T), max_lag)
    moving = covariance[:, 0] > 0
    # A chain at rest keeps its value for ever.
    values = np.ones(max_lag + 1)
    if moving.any():
        values = (covariance[moving] / covariance[moving, :1]).mean(axis=0)
    # Every lag where a fast chain forgets, fewer further out.
    far = np.geomspace(1, max_lag, _LONG_LAGS).astype(int)
    lags = np.union1d(np.arange(min(_SHORT_LAGS, max_lag) + 1), far)
    return lags * thin, values[lags]


def _growth(draws: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of sampling and effective draws so far, at equal shares of the run."""
    chosen = np.unique(np.linspace(0, draws.shape[1] - 1, GROWTH_COORDINATES).astype(int))
    shares = np.arange(1, _GROWTH_POINTS + 1) / _GROWTH_POINTS
    sizes = [np.mean(_sizes(draws[: int(share * draws.shape[0]), chosen])) for share in shares]
    return shares * seconds, np.array(sizes)


def size_of(cell: StoredCell) -> int:
    """Bytes of a finished cell's draws."""
    return (cell.folder / "posterior.nc").stat().st_size


def known(cell: StoredCell) -> bool:
    """Whether a finished cell's summary is stored."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        return json.loads((cell.folder / CELL_SUMMARY).read_text(encoding="utf-8")).get("mark") == mark(cell)
    return False


def mark(cell: StoredCell) -> str:
    """Digest of what a summary depends on: the code, and which draws these are."""
    text = f"{_code_digest()} {cell.info.get('finished')} {cell.info.get('timings')} {size_of(cell)}"
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    here = Path(__file__)
    imported = [Path(str(module.__file__)) for module in (coda, ess, gauge)]
    for path in (here, here.with_name("gibbs_summaries.py"), *imported):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(path: Path, code: str, kind: type, compute: Any) -> Any:
    """The summary stored at `path` if its mark is this one, else a new one, stored where that is possible."""
    from flyrun import files

    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("mark") == code:
            return kind(**stored)
    summary = compute()
    # In a results folder that cannot be written the next report only takes longer.
    with contextlib.suppress(OSError):
        files.write_json(path, {"mark": code, **asdict(summary)})
    return summary
