"""What every loader returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flyrun.families import domains
from flyrun.families.domains import Domain

#: what a dataset may know of each of its rows besides features and target
BESIDE = ("offset", "trials", "weights", "precision_weights", "censored", "high", "entry", "most")

UNSEEN = ("censored", "high", "entry", "most")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows, ready for a likelihood.

    features: (N, D) float64, C-contiguous, writeable; a loader that adds a bias has it as the last column.
    A loader of rows too many for the memory gives them as a np.memmap of float32, and they stay float32;
    a config's dtype=float32 rounds those of other loaders once they are loaded.
    task: the name of the target's domain, as domains.py has it.
    target: (N,) float64 ±1 (task "binary"), int64 0..K-1 ("classes", "ordered") or float64 (others).
    test_features, test_target: the same for M held-out rows; M may be 0.
    feature_names: D names, shown in reports.  sha256: of the file the rows came from.
    offset, trials, weights: (N,) float64 or None: what is added to the linear predictor; of how many trials
    the target counts the successes; how many rows a row stands for.
    precision_weights: (N,) float64 or None: what the target's variance is divided by.
    censored, high, entry, most: (N,) float64 or None, as of families/censoring.py: how the target is known,
    the upper end where it is between two, and from and up to which target a row would be there.
    folded: whether the rows, of a "binary" task, are t_n x_n already, as logistic regression wants them.
    shown: of a proof: what methods are shown in place of these rows, which the meter alone reads.
    info: plain values for `flyrun info` and the stored cell (title, source, licence, ...).
    """

    name: str
    features: np.ndarray
    target: np.ndarray
    test_features: np.ndarray
    test_target: np.ndarray
    feature_names: tuple[str, ...]
    sha256: str
    info: dict[str, Any] = field(default_factory=dict)
    task: str = "binary"
    folded: bool = False
    offset: np.ndarray | None = None
    trials: np.ndarray | None = None
    weights: np.ndarray | None = None
    precision_weights: np.ndarray | None = None
    censored: np.ndarray | None = None
    high: np.ndarray | None = None
    entry: np.ndarray | None = None
    most: np.ndarray | None = None
    shown: "Dataset | None" = None

    @property
    def domain(self) -> Domain:
        """What its target may hold."""
        return domains.of(self.task)

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 where the target is a number."""
        classes = self.domain.classes
        return int(classes) if classes <= 2 else int(self.target.max()) + 1

    @property
    def unseen(self) -> dict[str, np.ndarray]:
        """What says of targets that they were not seen whole, (N,) each by name."""
        return {name: values for name, values in self.beside.items() if name in UNSEEN}

    @property
    def beside(self) -> dict[str, np.ndarray]:
        """Those of BESIDE that it has, (N,) each."""
        found = {name: getattr(self, name) for name in BESIDE}
        return {name: values for name, values in found.items() if values is not None}


def without_test_rows(**fields: Any) -> Dataset:
    """The data set of these fields, none of whose rows are held out."""
    return Dataset(test_features=fields["features"][:0], test_target=fields["target"][:0], **fields)
