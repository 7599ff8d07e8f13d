"""Chunks of draws -> one netCDF tree that xarray.open_datatree and ArviZ open.

Groups: posterior and sample_stats (after burn-in), warmup_posterior and warmup_sample_stats (burn-in),
trace (values on a grid of iterations), estimate (E f against its cost, runner/estimates.py), and of methods
without draws approximation or weighted; beside the latter resampled, draws of even weight. Written chunk by
chunk, so that memory stays flat however long the chain is. Iterations count from 0; the coordinate `draw` is
the iteration number. Of n iterations n // thin leave positions: those k with (k + 1) % thin == 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flyrun.experiments.runner.draws import POSITION, Arrays, Chunk
from flyrun.ground import netcdf
from flyrun.ground.numerics.resampling import unweighted

# Rejected proposals repeat a row, so light compression takes three quarters off at the speed of the disk.
_COMPRESSION = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
_BLOCK_BYTES = 1 << 18


def grid(iterations: int, thin: int, points: int = 200) -> np.ndarray:
    """About `points` kept iterations at most, (n,): half spaced geometrically, half evenly, and the last."""
    count = iterations // thin
    if count == 0:
        return np.empty(0, np.int64)
    half = max(points // 2, 1)
    both = np.concatenate([np.geomspace(1, count, half), np.linspace(1, count, half), [1, count]])
    index = np.unique(np.rint(both).astype(np.int64))
    return index * thin - 1


class PosteriorFile:
    """Writes one cell's tree to `path` (a temporary name; the caller renames it).

    sizes: iterations, burn_in, thin of the chain.  names: of the components of theta, if known.
    points: about how many positions the trace has.
    """

    def __init__(
        self, path: Path, sizes: tuple[int, int, int], attrs: Mapping[str, Any], names=(), points=200
    ):
        self.iterations, self.burn_in, self.thin = sizes
        self.names = list(names)
        self.sums: dict[str, float] = {}
        self._wanted = grid(self.iterations, self.thin, points)
        self._positions: list[np.ndarray] = []
        self._file = netcdf.create(path)
        for name, value in {**attrs, "iterations": self.iterations, "burn_in": self.burn_in}.items():
            self._file.attrs[name] = int(value) if isinstance(value, bool) else value
        self._file.attrs["thin"] = self.thin

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Append chunks in order; the first decides names, types and shapes."""
        for first, n, draws, *_ in chunks:
            if first == 0:
                self._create(draws, n)
            if POSITION in draws:
                self._add_position(first, draws[POSITION])
            for name, values in draws.items():
                if name != POSITION:
                    self._put("sample_stats", name, values, first, self.burn_in)
                    if values.ndim == 1:
                        total = float(np.sum(values[max(self.burn_in - first, 0) :], dtype=np.float64))
                        self.sums[name] = self.sums.get(name, 0.0) + total

    def _add_position(self, first: int, position: np.ndarray) -> None:
        before = first // self.thin
        self._put("posterior", POSITION, position, before, self.burn_in // self.thin)
        iterations = (before + np.arange(len(position)) + 1) * self.thin - 1
        self._positions.append(position[np.isin(iterations, self._wanted)])

    def trace_points(self) -> tuple[np.ndarray, np.ndarray]:
        """(iterations (G,), theta (G, ...)) on the grid, once all chunks were added; none without draws."""
        if not self._positions:
            return np.empty(0, np.int64), np.empty(0)
        return self._wanted, np.concatenate(self._positions)

    def add_group(self, name: str, values: Arrays, shared: str | None = None) -> None:
        """Write a group of arrays: their first dimension is `shared`, or each array's own."""
        group = netcdf.group(self._file, name)
        for key, array in values.items():
            whole = np.atleast_1d(array)
            dim = shared or f"{key}_row"
            if dim not in group:
                netcdf.dimension(group, dim, len(whole))
            _variable(group, key, whole, (dim,), max(1, len(whole)))[:] = _storable(whole)

    def add_resampled(self, result: Arrays) -> None:
        """Of weighted draws as many unweighted ones as are effective, for tools that know of no weights."""
        index = unweighted(result["log_weight"], result.get("sign"))
        if len(index):
            self._create_group("resampled", np.arange(len(index)), {POSITION: result[POSITION][index]})
            self._file["resampled"].attrs["resampled_from"] = len(result["log_weight"])
            self._file["resampled"][POSITION][0] = result[POSITION][index]

    def means(self) -> dict[str, float]:
        """Mean of each scalar per-iteration stat after burn-in."""
        count = self.iterations - self.burn_in
        return {name: total / count for name, total in self.sums.items()}

    def _create(self, draws: Arrays, n: int) -> None:
        steps, thin = np.arange(self.iterations), self.thin
        for name, array in draws.items():
            if len(array) != (n // thin if name == POSITION else n):
                raise ValueError(f"draws '{name}' have {len(array)} rows for {n} iterations")
        positions = {name: array for name, array in draws.items() if name == POSITION}
        others = {name: array for name, array in draws.items() if name != POSITION}
        for prefix, low, high in (("warmup_", 0, self.burn_in), ("", self.burn_in, self.iterations)):
            if low == high:
                continue
            draw = (np.arange(low // thin, high // thin) + 1) * thin - 1
            self._create_group(f"{prefix}posterior", draw, positions)
            self._create_group(f"{prefix}sample_stats", steps[low:high], others)

    def _create_group(self, name: str, draw: np.ndarray, arrays: Arrays) -> None:
        group = netcdf.group(self._file, name)
        netcdf.dimension(group, "chain", [0])
        netcdf.dimension(group, "draw", draw)
        for key, array in arrays.items():
            named = key == POSITION and self.names and array.shape[1:] == (len(self.names),)
            _variable(group, key, array, ("chain", "draw"), len(draw), self.names if named else ())

    def _put(self, group: str, name: str, values: np.ndarray, start: int, border: int) -> None:
        """Write rows start.. of `values`, (n, …): to `border` into the warm-up group, the rest after it."""
        cut = min(max(border - start, 0), len(values))
        values = _storable(values)
        if cut:
            self._file["warmup_" + group][name][0, start : start + cut] = values[:cut]
        if cut < len(values):
            first = start + cut - border
            self._file[group][name][0, first : first + len(values) - cut] = values[cut:]


def _storable(values: np.ndarray) -> np.ndarray:
    """Netcdf has no booleans."""
    values = np.asarray(values)
    return values.astype(np.uint8) if values.dtype == bool else values


def _variable(
    group: h5py.Group,
    name: str,
    array: np.ndarray,
    leading: tuple[str, ...],
    length: int,
    names: Sequence[str] = (),
) -> h5py.Dataset:
    """Create a compressed variable: `leading` dimensions (the last `length` long), then those of (n, …) rows.

    names: of the places along array's own dimension, if it has one and they are known.
    """
    shape = array.shape[1:]
    dims = [f"{name}_dim" if len(shape) == 1 else f"{name}_dim_{axis}" for axis in range(len(shape))]
    for dim, size in zip(dims, shape, strict=True):
        netcdf.dimension(group, dim, names or size)
    dtype = _storable(array[:0]).dtype
    row_bytes = max(1, dtype.itemsize * int(np.prod(shape)))
    rows = int(min(length, max(1, _BLOCK_BYTES // row_bytes)))
    blocks = (*(1 for _ in leading[1:]), rows, *shape)
    return netcdf.variable(group, name, (*leading, *dims), dtype, chunks=blocks, **_COMPRESSION)
