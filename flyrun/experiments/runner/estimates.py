"""What a cell would have handed in at each budget: snapshots of E f against queries, visits, span, seconds.

Snapshots fall on fixed steps, six to a doubling. Of draws the estimate after k of them is the mean over the
last half, draws k//2 … k − 1 (Angelino, Johnson & Adams 2016, eq. 2.41): what lies before is burn-in.
`mean_all` is over all of them (eq. 2.35).
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from flyrun.experiments.runner.draws import POSITION, Arrays, Chunk

COSTS = ("queries", "visits", "span", "seconds")
_TO_A_DOUBLING = 6
_MOST_NUMBERS = 10_000
"""More than these are no estimands: a method with so many coordinates names functionals of them."""
_BLOCK_BYTES = 16 << 20


def grid(last: int) -> np.ndarray:
    """Steps with a snapshot, (n,), up to the last one, which has one too: at most 200 for 2³³ steps."""
    doublings = np.log2(max(last, 1))
    steps = np.ceil(2.0 ** (np.arange(_TO_A_DOUBLING * doublings + 1) / _TO_A_DOUBLING)).astype(np.int64)
    return np.unique(np.append(steps[steps < last], last)) if last else np.empty(0, np.int64)


def next_snapshot(step: int) -> int:
    """The first step with a snapshot after this one."""
    steps = grid(4 * step + 4)
    return int(steps[steps > step][0])


def of_chunks(
    chunks: Iterable[Chunk],
    steps: int,
    thin: int,
    of_draws: Callable[[np.ndarray], Arrays],
    setup: Sequence[float],
) -> Arrays:
    """Snapshots of a finished cell, by name, (snapshots, ...): `step`, the costs, set-up included, E f.

    chunks: the whole cell, with what its method stored as estimates, or with draws.  setup: its costs.
    """
    spent = np.array(setup, float)
    costs: list[list[float]] = []
    stored: dict[str, list[np.ndarray]] = {}
    where: list[int] = []
    sums = _Sums(grid(steps // thin), of_draws)
    wanted = grid(steps // thin) * thin
    for chunk in chunks:
        ends = np.cumsum(_costs(chunk), axis=1) + spent[:, None]
        end = chunk.first + chunk.n
        inside = wanted[(wanted > chunk.first) & (wanted <= end)]
        for name, value in chunk.estimates.items() if end in inside else ():
            stored.setdefault(name, []).append(value)
        if POSITION in chunk.draws:
            sums.add(chunk.draws[POSITION])
        where += inside.tolist()
        costs += [ends[:, step - chunk.first - 1].tolist() for step in inside]
        spent = ends[:, -1]
    means = {name: np.stack(values) for name, values in stored.items()} or sums.means()
    by_cost = np.array(costs, float).reshape(-1, len(COSTS)).T
    return {"step": np.array(where, np.int64)} | dict(zip(COSTS, by_cost, strict=True)) | means


def _costs(chunk: Chunk) -> np.ndarray:
    """(costs, n): of each step."""
    queries = np.asarray(chunk.draws.get("queries", np.zeros(chunk.n)), float)
    seconds = chunk.draws.get("seconds", np.full(chunk.n, chunk.seconds / max(chunk.n, 1)))
    return np.stack([queries, chunk.draws.get("visits", queries), chunk.draws.get("span", queries), seconds])


class _Sums:
    """Sums of f over the first k draws, kept for those k that a snapshot needs."""

    def __init__(self, ends: np.ndarray, of_draws: Callable[[np.ndarray], Arrays]):
        self.ends, self.of_draws = ends, of_draws
        self.cuts = np.unique(np.concatenate([ends, ends // 2]))
        self.kept: dict[str, dict[int, np.ndarray]] = {}
        self.origin: Arrays = {}  # the first draw's f: sums about it lose no digits
        self.total: Arrays = {}
        self.count = 0

    def add(self, draws: np.ndarray) -> None:
        """Take the next draws, (n, …)."""
        widest = max((value.size for value in self.of_draws(draws[:1]).values()), default=1)
        rows = max(1, _BLOCK_BYTES // max(1, 16 * draws[:1].size, 8 * widest))
        for low in range(0, len(draws), rows):
            self._add(self.of_draws(draws[low : low + rows]), len(draws[low : low + rows]))

    def _add(self, values: Arrays, count: int) -> None:
        if not self.count:
            values = {name: value for name, value in values.items() if value[0].size <= _MOST_NUMBERS}
            self.origin = {name: np.asarray(value[0], float) for name, value in values.items()}
            self.total = {name: np.zeros_like(value) for name, value in self.origin.items()}
            self.kept = {name: {0: value.copy()} for name, value in self.total.items()}
        cuts = self.cuts[(self.cuts > self.count) & (self.cuts <= self.count + count)]
        for name, origin in self.origin.items():
            # One after the other, so that it does not matter where chunks begin.
            sums = np.add.accumulate(np.concatenate([self.total[name][None], values[name] - origin]))
            self.kept[name] |= {int(cut): sums[cut - self.count].copy() for cut in cuts}
            self.total[name] = sums[-1].copy()
        self.count += count

    def means(self) -> Arrays:
        """E f at every end, (ends, ...)."""
        if not self.ends.size:
            return {}
        halves = {
            name: np.stack([self.origin[name] + (kept[k] - kept[k // 2]) / (k - k // 2) for k in self.ends])
            for name, kept in self.kept.items()
        }
        every = {
            f"{name}_all": np.stack([self.origin[name] + kept[k] / k for k in self.ends])
            for name, kept in self.kept.items()
            if name == "mean"
        }
        return halves | every
