"""Weighted graphs from a CSV file of edges `i,j,weight`, for Ising and Potts models.

Variables are numbered from 0. The first line may be the header i,j,weight; empty lines and lines that begin
with # are passed over.
"""

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data.uai import file_bytes, fingerprint, path_of
from flyrun.ground.errors import DataError

__all__ = ["Edges", "fingerprint", "load", "read"]

MOST_VARIABLES = 10_000_000


class Edges(NamedTuple):
    """n variables; ends (F, 2) int64, i < j; weight (F,)."""

    n: int
    ends: np.ndarray
    weight: np.ndarray


def load(config: options.graph_data.EdgeList) -> Edges:
    """Edges of the file config.path; duplicates are summed if config.sum_duplicates, else refused."""
    return read(path_of(config), config.sum_duplicates)


def read(path: Path, sum_duplicates: bool = False) -> Edges:
    """Edges of a file. DataError naming the line of a self-loop, a duplicate or what is no edge."""
    text = file_bytes(path).decode("utf-8-sig", "replace")
    seen: dict[tuple[int, int], int] = {}
    weights: list[float] = []
    lines: list[int] = []
    first = True
    for line, row in enumerate(csv.reader(text.splitlines()), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        header, first = first and [cell.lower() for cell in cells] == ["i", "j", "weight"], False
        if header:
            continue
        i, j, weight = _edge(path, line, cells)
        pair = (min(i, j), max(i, j))
        if pair not in seen:
            seen[pair] = len(weights)
            weights.append(weight)
            lines.append(line)
        elif sum_duplicates:
            weights[seen[pair]] += weight
        else:
            raise DataError(
                f"{path}, line {line}: edge {i},{j} stands in line {lines[seen[pair]]} already; remove one, "
                "or add them up with dataset.sum_duplicates=true"
            )
    if not seen:
        raise DataError(f"{path}: holds no edge; write lines i,j,weight")
    ends = np.array(list(seen), np.int64)
    return Edges(int(ends.max()) + 1, ends, np.array(weights))


def _edge(path: Path, line: int, cells: list[str]) -> tuple[int, int, float]:
    where = f"{path}, line {line}"
    if len(cells) != 3:
        raise DataError(f"{where}: has {len(cells)} cells; an edge is i,j,weight")
    for cell in cells[:2]:
        if not (cell.isascii() and cell.isdigit()) or len(cell) > 9 or int(cell) >= MOST_VARIABLES:
            raise DataError(
                f"{where}: {cell[:20]!r} is no variable; they are numbered from 0 to {MOST_VARIABLES - 1}"
            )
    i, j = int(cells[0]), int(cells[1])
    if i == j:
        raise DataError(f"{where}: edge {i},{j} joins a variable with itself; remove it")
    try:
        weight = float(cells[2])
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise DataError(f"{where}: weight {cells[2][:20]!r} of edge {i},{j} is no finite number; correct it")
    return i, j, weight
