"""What an arm is held against, and what it is judged by: decided here and nowhere else."""

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import Answer, Truth
from flyrun.experiments.gold import store
from flyrun.experiments.gold.reference import free
from flyrun.ground.errors import DataError


class Arm(Protocol):
    """An arm of a report, its finished cells with their moments."""

    @property
    def name(self) -> str:
        """Its name in the run."""

    @property
    def exact(self) -> bool | str | None:
        """Whether its answers follow the posterior."""

    @property
    def problem(self) -> str:
        """What arms of one posterior share."""

    @property
    def infos(self) -> Sequence[Mapping[str, Any]]:
        """What was stored of each finished cell."""

    @property
    def cells(self) -> Sequence[Any]:
        """What was worked out of each finished cell."""

    @property
    def pooled(self) -> Any:
        """What was worked out of all of them together."""

    def has(self, *names: str) -> bool:
        """Whether every cell has these values."""


class Run(Protocol):
    """A run of a report."""

    @property
    def arms(self) -> Sequence[Any]:
        """Its arms."""

    @property
    def baseline(self) -> Any:
        """The arm that others are relative to."""


def truth_of(run: Run, arm: Arm) -> Truth | None:
    """What an arm is held against: quadrature where the run asks for it, else the stored reference of its
    posterior, else the run's own exact arm on the same problem; None where nothing is known.
    """
    exact = vars(arm.pooled) if arm.pooled is not None else {}
    if "exact_mean" in exact:
        mean, sd = np.array(exact["exact_mean"]), np.array(exact["exact_sd"])
        return Truth(mean, sd, np.zeros(len(mean)), "quadrature")
    settings = json.dumps(arm.infos[0].get("settings", {}), sort_keys=True)
    cell = Path(arm.infos[0].get("folder") or ".")
    if (stored := _stored(settings, store.own_of(cell), store.digest(cell))) is not None:
        return stored
    base = exact_arm(run, arm)
    if base is None:
        return None
    answer = together(base)
    return Truth(answer.mean[0], answer.sd[0], answer.error[0], f"arm {base.name}")  # type: ignore[index]


@functools.lru_cache(maxsize=64)
def _stored(settings: str, beside: Path, state: str) -> Truth | None:
    """The stored reference of these settings of an arm, in a state of all that there are."""
    with contextlib.suppress(DataError):
        if match := store.matching(json.loads(settings), beside):
            name, gold = match
            error, classes = gold.mean_se / gold.sd, gold.facts["n_predictors"]
            return Truth(gold.mean, gold.sd, error, f"reference {name}", classes)
    return None


def exact_arm(run: Run, arm: Arm) -> Any:
    """The exact arm with draws on an arm's problem, the baseline before others; None where there is none."""
    alike = (other for other in run.arms if other.exact is True and other.problem == arm.problem)
    exact = [other for other in alike if other.has("ess") and with_draws(other)]
    return next((other for other in exact if other is run.baseline), exact[0] if exact else None)


def with_draws(arm: Arm) -> bool:
    """Whether every cell has moments of draws."""
    return arm.has("draws_mean") and all(cell.draws_mean for cell in arm.cells)


def together(arm: Arm) -> Answer:
    """Moments of the draws of all seeds of an arm together, (1, D).

    Errors: the larger of what effective draws say and what the seeds' moments differ by, as chains that stay
    in modes of their own have many effective draws of what they saw.
    """
    means, sds, each, of_sds = drawn(arm)
    sd = np.sqrt((sds**2).mean(axis=0) + means.var(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        error, of_sd = (1 / np.sqrt(np.sum(np.square(1 / sizes), axis=0)) for sizes in (each, of_sds))
        if (n := len(means)) > 1:
            error = np.fmax(error, means.std(axis=0, ddof=1) / np.sqrt(n) / sd)
            of_sd = np.fmax(of_sd, np.log(sds).std(axis=0, ddof=1) / np.sqrt(n))
    return Answer(means.mean(axis=0)[None], sd[None], error[None], of_sd[None])


def apart(arm: Arm) -> bool:
    """Whether every seed has a target of its own, as a split of the data has: they are judged one by one."""
    return any(info.get("facts", {}).get("one_target") is False for info in arm.infos)


def drawn(arm: Arm) -> Answer:
    """Moments of each seed's draws, (S, D).

    Of a normal distribution (θ - mean)² has twice the squared variance: 2n effective draws of it tell log sd.
    """
    mean, sd, ess, square = (
        np.array([getattr(cell, name) for cell in arm.cells])
        for name in ("draws_mean", "draws_sd", "ess", "square")
    )
    with np.errstate(divide="ignore"):
        return Answer(mean, sd, 1 / np.sqrt(ess), 1 / np.sqrt(2 * square))


def handed_in(arm: Arm, truth: Truth) -> Answer | None:
    """What each seed handed in at its end, (S, D); None where that is of another shape than the truth."""
    if any(len(cell.final_mean) != len(truth.mean) for cell in arm.cells):
        return None
    mean = free(np.array([cell.final_mean for cell in arm.cells]), truth.classes)
    has_sds = truth.classes == 1 and all(len(cell.final_sd) == len(truth.sd) for cell in arm.cells)
    sd = np.array([cell.final_sd for cell in arm.cells]) if has_sds else np.empty((len(arm.cells), 0))
    return Answer(mean, sd)


def chains_alone(run: Run) -> bool:
    """Whether every arm answers with draws."""
    return all(arm.infos[0].get("answers", "draws") == "draws" for arm in run.arms if arm.cells)


def answer_of(run: Run, arm: Arm, truth: Truth) -> Answer | None:
    """What an arm is judged by: in a run of chains alone its draws, else what each seed handed in.

    None where there is no answer, or the arm is the truth itself.
    """
    if truth.source == f"arm {arm.name}":
        return None
    return answer_by_draws(arm, truth) if chains_alone(run) else handed_in(arm, truth)


def answer_by_draws(arm: Arm, truth: Truth) -> Answer | None:
    """All draws of an arm together, which tell a small bias, or each seed's, where each has its own target.

    None of what has no draws or several classes, and of the truth itself.
    """
    itself = truth.source == f"arm {arm.name}"
    if itself or truth.classes > 1 or not (with_draws(arm) and arm.has("ess")):
        return None
    answer = drawn(arm) if apart(arm) else together(arm)
    return answer if answer.mean.shape[-1] == len(truth.mean) else None
