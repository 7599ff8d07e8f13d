"""What stored draws or densities say of themselves, without a reference: a Stein test, log Z, and KL.

The kernel Stein discrepancy needs slopes of the log posterior alone (Gorham & Mackey 2017). Annealing from
the prior, and back from a draw of the posterior, brackets log Z (Grosse, Ghahramani & Adams 2015), and with
it KL(q ‖ p) = E_q[log q − log p̃] + log Z of a density q: (6.4) of the survey.
"""

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.special import logsumexp

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.gold import bdmc
from flyrun.experiments.models.factors import Gaussian
from flyrun.experiments.models.problem import Problem, bind, log_densities, posterior_curvature, scores
from flyrun.experiments.runner.store import StoredCell, open_cells
from flyrun.experiments.samplers.approximations.importance import Proposal
from flyrun.ground.diagnostics.coda import effective_size
from flyrun.ground.diagnostics.distances import stein_terms, stein_test
from flyrun.ground.errors import StoreError
from flyrun.ground.schema import SCHEMAS

_GROUPS = ("dataset", "model", "prior")
#: where annealing back begins
TRUE, CHAIN, LAST = "the truth, drawn from the prior", "the last draw of {}, an exact chain", "its last draw"


class Divergence(NamedTuple):
    """KL(q ‖ p), in nats: at least and at most, but for chance; standard error of the latter."""

    least: float
    most: float
    error: float


class Diagnosis(NamedTuple):
    """Of one cell: used, draws that were evaluated; log_z, kl: None where not asked for, kl of a density
    alone.  start: the draw of the posterior that log Z is bounded by.
    """

    used: int
    ksd: float  # squared, by the U-statistic
    p: float
    log_z: bdmc.Bracket | None = None
    kl: Divergence | None = None
    start: str = ""


class Density:
    """An even mixture of Gaussians N(μ_k, Σ_k), means (K, P), covariances (K, P, P): what an approximation
    hands in. LinAlgError where one is none.
    """

    def __init__(self, means: np.ndarray, covariances: np.ndarray):
        self.parts = [Proposal(Gaussian(*moments)) for moments in zip(means, covariances, strict=True)]

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n independent draws, (n, P)."""
        which = rng.integers(len(self.parts), size=n)
        noise = rng.standard_normal((n, self.parts[0].mean.size))
        return np.array([self.parts[k].at(each[None])[0] for k, each in zip(which, noise, strict=True)])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log q(θ), (n,), at θ (n, P)."""
        of_parts = [part.log_density(theta) for part in self.parts]
        return logsumexp(of_parts, axis=0) - np.log(len(self.parts))


def of_cell(cell: StoredCell, run_dir: Path, draws: int, steps: int) -> Diagnosis:
    """Evaluate so many draws of a finished cell, a pass each: of a chain as many as are effective at most,
    evenly; of an approximation draws of its density. steps: of annealing, which brackets log Z and the KL of
    a density; none by 0.

    StoreError where it has neither of a model of rows, or nothing to anneal back from.
    """
    theta, density = _answer(cell)
    settings: dict[str, Any] = {group: cell.info["settings"].get(group) for group in _GROUPS}
    if settings["prior"] is None or (theta is None and density is None):
        raise StoreError(
            f"{cell.arm}: has no draws or density of a posterior with slopes; name an arm that is a chain or "
            "a Gaussian approximation"
        )
    arm, problem = _bound(settings, run_dir / "setup", steps > 0)
    if density is not None:
        theta = few = density.draw(np.random.default_rng(cell.seed), max(2, draws))
    else:
        assert theta is not None
        used = int(max(2, min(draws, len(theta), effective_size(theta).min())))
        few = theta[np.linspace(0, len(theta) - 1, used).astype(int)]
    used = len(few)
    terms = stein_terms(few, scores(arm, problem, few), _root(arm, problem, few))
    ksd = float((terms.sum() - np.trace(terms)) / (used * (used - 1)))
    plain = Diagnosis(used, ksd, stein_test(terms, cell.seed))
    if not steps:
        return plain
    last = theta[-1] if density is None else None
    exact, start = _exact_draw(cell, run_dir, drawn(settings, problem), last)
    log_z = _bracket(json.dumps(settings, sort_keys=True), run_dir, tuple(exact), cell.seed, steps)
    kl = None if density is None else divergence(arm, problem, density, few, log_z)
    return plain._replace(log_z=log_z, kl=kl, start=start)


def divergence(
    arm: Arm, problem: Problem, density: Density, theta: np.ndarray, log_z: bdmc.Bracket
) -> Divergence:
    """KL(q ‖ p) by draws of q, (n, P), and a bracket of log Z: (6.4)."""
    excess = density.log_density(theta) - sum(log_densities(arm, problem, theta))
    error = np.hypot(excess.std(ddof=1) / np.sqrt(len(excess)), log_z.high_se)
    return Divergence(float(excess.mean() + log_z.low), float(excess.mean() + log_z.high), float(error))


def drawn(settings: dict[str, Any], problem: Problem) -> np.ndarray | None:
    """The θ, (P,), that data were generated by, if it was drawn from the arm's prior and they by its model:
    a draw of the posterior.
    """
    truth = problem.dataset.info.get("truth")
    if truth is None or problem.power != 1.0:
        return None
    wanted = [(group, key, value) for group in ("model", "prior") for key, value in truth[group].items()]
    same = all(settings[group].get(key) == value for group, key, value in wanted)
    return np.array(truth["theta"]) if same else None


def _answer(cell: StoredCell) -> tuple[np.ndarray | None, Density | None]:
    """The draws of a chain, (T, P), or the density of an approximation; None for what there is not."""
    with cell.file() as file:
        if "posterior/theta" in file:
            theta = file["posterior/theta"][0]
            return (np.asarray(theta, np.float64) if theta.dtype.kind == "f" else None), None
        group = file.get("approximation", {})
        known = {
            name: group[name][:] for name in ("mean", "covariance", "centres", "variances") if name in group
        }
    if {"mean", "covariance"} <= known.keys() and known["mean"].ndim == 1:
        return None, Density(known["mean"][None], known["covariance"][None])
    if {"centres", "variances"} <= known.keys():
        size = known["centres"].shape[1]
        return None, Density(known["centres"], known["variances"][:, None, None] * np.eye(size))
    return None, None


def _exact_draw(
    cell: StoredCell, run_dir: Path, truth: np.ndarray | None, last: np.ndarray | None
) -> tuple[np.ndarray, str]:
    """A draw of the posterior, (P,), and what it is. StoreError where there is none."""
    if truth is not None:
        return truth, TRUE
    if last is not None:
        return last, LAST
    problem = [cell.info["settings"][group] for group in _GROUPS]
    for other in open_cells(run_dir):
        if other.state == "done" and other.info["facts"]["exact"] is True:
            theta, _ = _answer(other)
            if theta is not None and [other.info["settings"].get(group) for group in _GROUPS] == problem:
                return theta[-1], CHAIN.format(other.arm)
    raise StoreError(
        f"{cell.arm}: log Z is bounded from above by a draw of the posterior, and this run has none; add an "
        "arm that is an exact chain, or take dataset=from_prior, whose truth is one"
    )


@functools.lru_cache(maxsize=256)  # arms of one problem share it
def _bracket(settings: str, run_dir: Path, exact: tuple[float, ...], seed: int, steps: int) -> bdmc.Bracket:
    arm, problem = _bound(json.loads(settings), run_dir / "setup", True)
    return bdmc.bracket(arm, problem, np.array(exact), seed, steps=steps)


def _bound(settings: dict[str, Any], folder: Path, needs_map: bool) -> tuple[Any, Problem]:
    choices = {group: SCHEMAS[group][settings[group]["name"]] for group in _GROUPS}
    arm: Any = SimpleNamespace(**{group: cls(**settings[group]) for group, cls in choices.items()})
    return arm, bind(arm, folder, needs_map)


def _root(arm: Arm, problem: Problem, theta: np.ndarray) -> np.ndarray:
    """R, (P, P), R Rᵀ the precision that whitens draws (M, P): the curvature at their mean, or their own."""
    try:
        return np.linalg.cholesky(posterior_curvature(arm, problem, theta.mean(axis=0)))
    except LinAlgError:
        return np.diag(1.0 / np.maximum(theta.std(axis=0), 1e-300))
