"""What stored draws say of themselves, without a reference: a Stein test, and brackets of log Z.

The kernel Stein discrepancy needs slopes of the log posterior alone (Gorham & Mackey 2017). Annealing from
the prior, and back from a draw of the posterior, brackets log Z (Grosse, Ghahramani & Adams 2015).
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.gold import bdmc
from flyrun.experiments.models.problem import Problem, bind, posterior_curvature, scores
from flyrun.experiments.runner.store import StoredCell
from flyrun.ground.diagnostics.coda import effective_size
from flyrun.ground.diagnostics.distances import stein_terms, stein_test
from flyrun.ground.errors import StoreError
from flyrun.ground.schema import SCHEMAS


class Diagnosis(NamedTuple):
    """Of one cell: used, draws that were looked at; log_z: at most and at least, () where not asked for."""

    used: int
    ksd: float  # squared, by the U-statistic
    p: float
    log_z: tuple[float, ...]


def of_cell(cell: StoredCell, run_dir: Path, draws: int, annealed: bool) -> Diagnosis:
    """Look at as many draws of a finished cell as are effective, evenly, at most so many; a pass each.

    StoreError where it has no draws of real numbers of a model of rows.
    """
    stored = cell.arrays("posterior/theta")
    settings: dict[str, Any] = dict(cell.info["settings"])
    rows = settings.get("prior") is not None
    if not stored or stored[0].dtype.kind != "f" or not rows:
        raise StoreError(f"{cell.arm}: has no draws of a posterior with slopes; name an arm that is a chain")
    theta = np.asarray(stored[0], np.float64)
    used = int(max(2, min(draws, len(theta), effective_size(theta).min())))
    few = theta[np.linspace(0, len(theta) - 1, used).astype(int)]
    arm, problem = _bound(settings, run_dir / "setup", annealed)
    terms = stein_terms(few, scores(arm, problem, few), _root(arm, problem, few))
    ksd = (terms.sum() - np.trace(terms)) / (used * (used - 1))
    log_z = bdmc.bracket(arm, problem, theta[-1], cell.seed) if annealed else ()
    return Diagnosis(used, float(ksd), stein_test(terms, cell.seed), log_z)


def _bound(settings: dict[str, Any], folder: Path, needs_map: bool) -> tuple[Any, Problem]:
    choices = {group: SCHEMAS[group][settings[group]["name"]] for group in ("dataset", "model", "prior")}
    arm: Any = SimpleNamespace(**{group: cls(**settings[group]) for group, cls in choices.items()})
    return arm, bind(arm, folder, needs_map)


def _root(arm: Arm, problem: Problem, theta: np.ndarray) -> np.ndarray:
    """R, (P, P), R Rᵀ the precision that whitens draws (M, P): the curvature at their mean, or their own."""
    try:
        return np.linalg.cholesky(posterior_curvature(arm, problem, theta.mean(axis=0)))
    except LinAlgError:
        return np.diag(1.0 / np.maximum(theta.std(axis=0), 1e-300))
