"""What holds of Hogwild Gibbs on random Gaussians, as shares of precision matrices: nothing is sampled.

A step is two matrices of R, data/precision.py's random correlations, cut into 2, 3, 4 or 6 blocks; c is
uniform up to the dataset's coupling. Of (1 − c)I + cR is told which share is stable for any number of local
sweeps, among those that are generalised diagonally dominant (all: Theorem 7.6.6) and among the others. Of
(1 − c)B + cR, B the blocks of R, whose interactions of processors are weak where c is: among the stable in
how many infinitely many local sweeps have a smaller error of the covariance within blocks than one sweep
has, and a larger one across blocks (Propositions 7.7.2 and 7.7.3), and in how many both do so step by step.
"""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.data.precision import random_matrix
from flyrun.experiments.samplers.hogwild import theory
from flyrun.experiments.samplers.hogwild.loop import blocks
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State
from flyrun.ground.errors import ConfigError

LABEL = "shares of random matrices"
SWEEPS = (1, 2, 4, 8, 0)  # the last are infinitely many
PROCESSORS = (2, 3, 4, 6)
_NAMES = ("dominant", "dominant_stable", "others", "others_stable", "stable", "within", "cross", "monotone")


def errors(precision: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sweeps,) each: errors of covariances within and across blocks, NaN where a round is unstable."""
    exact, inside = np.linalg.inv(precision), owner[:, None] == owner
    within, cross = np.full((2, len(SWEEPS)), np.nan)
    for s, sweeps in enumerate(SWEEPS):
        parts = theory.round_of(precision, owner, sweeps)
        if theory.radius(parts.step) < 1.0:
            wrong = theory.covariance(parts) - exact
            within[s], cross[s] = np.linalg.norm(wrong[inside]), np.linalg.norm(wrong[~inside])
    return within, cross


class Shares(Method):
    """Counts of matrices, by what holds of them."""

    answers = "density"
    unit = "step"
    shown = ()

    def __init__(self, arm: Arm):
        self.arm, self.n = arm, arm.dataset.n_variables
        if self.n < max(PROCESSORS):
            raise ConfigError(
                f"dataset.n_variables={self.n}: sampler=hogwild_shares cuts them into up to "
                f"{max(PROCESSORS)} blocks; choose dataset.n_variables=12"
            )

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        return {"clock": np.zeros(1, np.int64), "seed": np.array([seed]), "counts": np.zeros(len(_NAMES))}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more matrices, each of a stream of its own."""
        counts, first = state["counts"].copy(), int(state["clock"][0])
        for step in range(first, first + n):
            counts += self._one(int(state["seed"][0]), step)
        return state | {"clock": state["clock"] + n, "counts": counts}, {"queries": np.zeros(n)}

    def _one(self, seed: int, step: int) -> np.ndarray:
        stream = np.random.RandomState([seed, step])
        owner = blocks(self.n, PROCESSORS[step % len(PROCESSORS)])
        coupling = self.arm.dataset.coupling * stream.random_sample()
        whole = random_matrix(stream, self.n, 1.0)
        mixed = coupling * whole + (1.0 - coupling) * np.eye(self.n)
        stable = all(theory.radius(theory.round_of(mixed, owner, q).step) < 1.0 for q in SWEEPS)
        kind = "dominant" if theory.dominance(mixed) < 1.0 else "others"
        facts = {kind: True, f"{kind}_stable": stable}
        within, cross = errors(np.where(owner[:, None] == owner, whole, coupling * whole), owner)
        if np.isfinite(within).all():
            facts |= {"stable": True, "within": within[-1] < within[0], "cross": cross[-1] > cross[0]}
            facts["monotone"] = bool((np.diff(within) <= 0).all() and (np.diff(cross) >= 0).all())
        return np.array([float(facts.get(name, False)) for name in _NAMES])

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Shares, in per cent; 0 of none."""
        of = dict(zip(_NAMES, state["counts"], strict=True))
        shares = {
            "dominant_stable_percent": (of["dominant_stable"], of["dominant"]),
            "others_stable_percent": (of["others_stable"], of["others"]),
            "within_falls_percent": (of["within"], of["stable"]),
            "cross_grows_percent": (of["cross"], of["stable"]),
            "monotone_percent": (of["monotone"], of["stable"]),
        }
        return {name: np.array(100.0 * part / max(whole, 1.0)) for name, (part, whole) in shares.items()}

    def result(self, state: State) -> dict[str, np.ndarray]:
        return {"counts": state["counts"]}

    def facts(self, state: State | None = None) -> Facts:
        """How many matrices there were of each kind."""
        counts = {} if state is None else dict(zip(_NAMES, map(float, state["counts"]), strict=True))
        return Facts(update=LABEL, exact=True, n_params=self.n, more={"matrices": counts})


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm."""
    return Shares(arm)
