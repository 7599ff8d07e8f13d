"""Cross-validation by folds of row groups: each fold's rows under the posterior of all others.

That posterior is of the other folds' sums, and of those of their rows that travelled: one scan has it of all
folds. What is left out is read once more, under some draws of it.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from flyrun.fitting import even_draws
from flyrun.fitting.scan.block_sums import Look
from flyrun.fitting.scan.encoded_rows import Encoding
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.row_groups import Part, tree
from flyrun.fitting.scan.second_order import predictors, with_offsets
from flyrun.fitting.weighted_draws import Weighted
from flyrun.ground.errors import ConfigError

_DRAWS = 64  # a row's log mean over draws is short of its expectation by a 128th of its variance


class HeldOut(NamedTuple):
    """Of rows: how many, those left out for missing values, and how many they stand for; the sum of their log
    densities given all other folds, in nats, and of the squares of these.
    """

    rows: int
    dropped: int
    copies: float
    total: float
    square: float

    def plus(self, other: "HeldOut") -> "HeldOut":
        """Of both."""
        return HeldOut._make([a + b for a, b in zip(self, other, strict=True)])

    @property
    def mean(self) -> float:
        """A row's."""
        return self.total / self.copies

    @property
    def error(self) -> float:
        """The standard error of that, as of rows that are drawn at random."""
        return math.sqrt(max(self.square / self.copies - self.mean**2, 0.0) / self.copies)


@dataclass(frozen=True)
class HeldOutLook(Look):
    """Log densities of rows under some draws, (M, P), of a posterior that knows none of them."""

    encoding: Encoding
    model: str
    draws: np.ndarray

    def of(self, block: Block, part: Part) -> HeldOut:
        """As a call, of some rows of a row group."""
        post = self.encoding.blank(self.model)
        form = self.encoding.form(post.family)
        held_out = HeldOut(0, 0, 0.0, 0.0, 0.0)
        for x, y, beside, _, _, lost, _ in self.encoding.batches(block, part):
            rows = form.bare(y, beside)
            p = with_offsets(predictors(post, form, self.draws, x), rows, post.linear)
            value = post.of_rows(replace(rows, weights=1.0), p)
            value = np.nan_to_num(value, nan=-1e300, neginf=-1e300)
            each = logsumexp(value, axis=0) + post.family.constant(y, rows.trials)
            each -= math.log(len(self.draws) * self.encoding.layout.target.sd)  # in the target's own units
            copies = rows.whole("weights")
            sums = float(copies.sum()), float(copies @ each), float(copies @ each**2)
            held_out = held_out.plus(HeldOut(len(y), lost, *sums))
        return held_out


def ranges(folds: int, groups: int) -> list[tuple[int, int]]:
    """Each fold's groups of row groups, in the order in which they are read. ConfigError for too few."""
    if folds > groups:
        raise ConfigError(
            f"--folds {folds}: folds are of whole row groups, and there are {groups}; ask for fewer, or "
            "write shorter row groups"
        )
    ends = [k * groups // folds for k in range(folds + 1)]
    return list(pairwise(ends))


def by_fold(parts: list[Any], begun: int, folds: list[tuple[int, int]]) -> list[list[Any]]:
    """Each fold's sum of parts, in a list, or nothing; begun: the first part's number."""
    pieces = (parts[max(first - begun, 0) : max(last - begun, 0)] for first, last in folds)
    return [[tree(piece)] if piece else [] for piece in pieces]


def without(fold: int, stages: list[list[list[Any]]]) -> list[list[Any]]:
    """Of each stage the sum of other folds, in a list, or nothing. stages: as of `by_fold`."""
    others = ([part for k, sums in enumerate(stage) if k != fold for part in sums] for stage in stages)
    return [[tree(rest)] if rest else [] for rest in others]


def some(weighted: Weighted) -> np.ndarray:
    """A few draws of even weight, (M, P)."""
    even = even_draws.resampled(weighted.weights, np.random.default_rng(0)).ravel()
    return weighted.x[even[np.arange(_DRAWS) * len(even) // _DRAWS]]
