"""Draws of any tool, held against a reference."""

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, softmax

from flyrun.experiments.accuracy.posterior_errors import of_moments
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.gold import store
from flyrun.experiments.gold.reference import free
from flyrun.experiments.gold.store import PROBABILITIES, Gold
from flyrun.ground.diagnostics.distances import coverage, ks, quantiles, w1
from flyrun.ground.diagnostics.psis import pareto_k
from flyrun.ground.errors import DataError

if TYPE_CHECKING:
    from flyrun.experiments.models.problem import Problem


def likeness(theta: np.ndarray, weight: np.ndarray | None, gold: Gold) -> dict[str, float]:
    """How draws (M, D), weighted or not, are like the posterior: 1 and 99 % quantiles off, in sds; share of
    it that their central 90 % intervals hold; Wasserstein-1 distance, in sds: means over coordinates;
    Kolmogorov-Smirnov distance, the largest.
    """
    low, high, *ends = quantiles(theta, (0.05, 0.95, 0.01, 0.99), weight)
    truth = gold.quantiles[[PROBABILITIES.index(0.01), PROBABILITIES.index(0.99)]]
    return {
        "tails": float(np.mean(np.abs(np.array(ends) - truth) / gold.sd)),
        "coverage": float(coverage(low, high, gold.draws).mean()),
        "w1": float(w1(theta, gold.draws, weight).mean()),
        "ks": float(ks(theta, gold.draws, weight).max()),
    }


def held_out(arm: Arm, problem: "Problem", theta: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean over the test rows of the log of their density averaged over draws (M, P), weighted or not."""
    from flyrun.experiments.models import passes  # late: numba, which most reports do without

    data, code = problem.dataset, arm.model.code
    model, features = code.rebind(problem.model, data.test_features, data.test_target)
    each = np.array([passes.likelihoods(code, model, features, at)[0] for at in theta])
    share = np.full(len(theta), 1 / len(theta)) if weight is None else weight / weight.sum()
    return float(logsumexp(each, axis=0, b=share[:, None]).mean())


def _read(path: Path) -> dict[str, np.ndarray]:
    """Arrays of numbers of an .npz file, theta (M, D), log_weight (M,), not checked; DataError naming it."""
    remedy = "save it by numpy.savez(file, theta=…, log_weight=…)"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("theta", "log_weight") if name in file.files}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); {remedy}") from error
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: is no .npz file of plain arrays; {remedy}") from error
    return {name: values for name, values in arrays.items() if values.dtype.kind in "fiu"}


def score(path: Path, reference: str, beside: Path | None = None) -> tuple[str, dict[str, float]]:
    """What draws (M, D) of a file are worth, in words and figures, by a reference, flyrun's or one in the
    folder `beside`. DataError naming the file and what is wrong with it.
    """
    gold = store.load(reference, beside)
    arrays = _read(path)
    if "theta" not in arrays:
        raise DataError(f"{path}: has no array theta of numbers, (draws, coordinates)")
    theta = np.asarray(arrays["theta"], float)
    if theta.ndim != 2 or theta.shape[1] != len(gold.mean) or len(theta) < 2:
        raise DataError(
            f"{path}: theta has shape {theta.shape}; reference {reference} wants (draws, {len(gold.mean)})"
        )
    log_weight = np.asarray(arrays.get("log_weight", np.zeros(len(theta))), float)
    if log_weight.shape != (len(theta),):
        raise DataError(f"{path}: log_weight has shape {log_weight.shape}, theta has {len(theta)} draws")
    if not (np.isfinite(theta).all() and not np.isnan(log_weight).any() and np.isfinite(log_weight).any()):
        raise DataError(
            f"{path}: theta or log_weight holds values that are not numbers; leave these draws out"
        )
    weight = softmax(log_weight)
    at = free(theta, gold.facts["n_predictors"])
    mean = weight @ at
    squares = np.square(of_moments(mean, weight @ (at - mean) ** 2, gold))
    measures = {
        "means": float(squares[0].mean()),
        "variances": float(squares[1].mean()),
        "worst": float(squares.max()),
        **likeness(at, weight, gold),
    }
    if "log_weight" in arrays:
        measures["pareto_k"] = pareto_k(log_weight)
    error, floor = max(measures["means"], measures["variances"]), max(gold.floors)
    measures["draws_worth"] = 1 / max(error, 3 * floor)
    least = "at least " if error < 3 * floor else ""
    return (
        f"{len(theta):,} draws worth {least}{measures['draws_worth']:,.0f} independent ones of {reference}",
        measures,
    )
