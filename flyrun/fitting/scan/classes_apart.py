"""Whether columns tell a target's classes apart in every row of many files: a look at all rows, where columns
do so in a pilot's.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting import identified
from flyrun.fitting.column_scales import contrasts
from flyrun.fitting.scan.block_sums import Look
from flyrun.fitting.scan.encoded_rows import Encoding
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.row_groups import Part
from flyrun.fitting.scan.row_weights import Surrogate


class Apart(NamedTuple):
    """Of some rows. low, high: (K, D), ends of each column in each class; wrong: rows to whose own class θ
    does not give the largest probability; rows: of them.
    """

    low: np.ndarray
    high: np.ndarray
    wrong: int
    rows: int

    def plus(self, other: "Apart") -> "Apart":
        """Of both."""
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Apart(*ends, self.wrong + other.wrong, self.rows + other.rows)

    @property
    def separates(self) -> bool:
        """Whether a column tells classes apart, or all do together."""
        return bool(identified.separating_ends(self.low, self.high)) or not self.wrong


def of_rows(x: np.ndarray, y: np.ndarray, theta: np.ndarray, classes: int) -> Apart:
    """Of columns x (D + 1, n), that of ones the last, classes y (n,) and θ (P,)."""
    width = len(x) - 1
    low = np.full((classes, width), np.inf)
    high = -low
    for k in np.unique(y).astype(int):
        inside = x[:width, y == k]
        low[k], high[k] = inside.min(axis=1), inside.max(axis=1)
    eta = theta.reshape(-1, width + 1) @ x
    likeliest = eta[0] > 0 if len(eta) == 1 else eta.argmax(axis=0)
    return Apart(low, high, int((likeliest != y).sum()), len(y))


@dataclass(frozen=True)
class ApartLook(Look):
    """Look at a row group's classes. theta: (P,), of the columns as they are encoded."""

    encoding: Encoding
    theta: np.ndarray

    def of(self, block: Block, part: Part) -> Apart:
        """As a call, of some rows of a row group."""
        classes = len(self.encoding.values)
        none = np.empty((len(self.encoding.mean) + 1, 0))
        apart = of_rows(none, np.empty(0), self.theta, classes)
        for batch in self.encoding.batches(block, part):
            apart = apart.plus(of_rows(batch.x, batch.y, self.theta, classes))
        return apart


def theta_of(posterior: Surrogate, mean: np.ndarray) -> np.ndarray:
    """θ of a posterior's mean (P,), of each class but the first of two."""
    theta = mean[: posterior.n_coefficients]
    if posterior.family.contrasts is None:
        return theta
    return np.append(np.zeros(posterior.width), contrasts(posterior, theta))  # the first class's are 0


def looks(
    encoding: Encoding, posterior: Surrogate, mean: np.ndarray, x: np.ndarray, y: np.ndarray, groups: int
) -> Generator[tuple[Any, tuple[int, int], str], Any, list[Apart]]:
    """Parts of a look at all rows, where a pilot's rows x (n, D + 1) of classes y (n,) ask for one."""
    layout = encoding.layout
    if layout.target.levels is None or layout.domain.ordered or layout.parameters:
        return []
    theta = theta_of(posterior, mean)
    if not of_rows(x.T, y, theta, len(encoding.values)).separates:
        return []
    return (yield ApartLook(encoding, theta), (0, groups), "classes that are told apart")
