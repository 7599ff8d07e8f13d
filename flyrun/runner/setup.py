"""What is worked out once before any chain: prior scale, MAP estimate, bounds, pseudo-prior; and its cost.

One likelihood query is one L_n(θ). Charged here: every evaluation of the L-BFGS fits (N each; for
`prior.scale=held_out` one fit per scale and one pass over the test rows), and N for the pass that makes a
bound's parabolas and their sum.
"""

import hashlib
import importlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import flyrun.data
from flyrun.compiled import jit, sources_digest
from flyrun.models.features import predict
from flyrun.models.likelihood import log_likelihood
from flyrun.runner import files
from flyrun.samplers.full_data import full_data
from flyrun.samplers.map_fit import find_map


class Fit(NamedTuple):
    """Prior scale and, where asked for, MAP estimate of one (dataset, model, prior)."""

    scale: float
    theta_map: np.ndarray
    """(P,); empty where none was needed."""
    log_posterior: float
    queries: int
    seconds: float
    held_out: list[list[float]]
    """[scale, mean test log likelihood at its MAP], for every scale tried."""


class Problem(NamedTuple):
    """Data, model and prior of an arm, bound together."""

    dataset: Any
    model: Any
    features: Any
    prior: Any
    fit: Fit


def model_module(name: str) -> Any:
    """The model's file: bind, untuned_bound, map_bound, collapse."""
    return importlib.import_module(f"flyrun.models.{name}")


@jit
def _predict_all(features, index, theta, eta):
    predict(features, index, theta, eta)


@jit
def _log_likelihoods(model, index, eta, values):
    log_likelihood(model, index, eta, values, None)


def predictors(model: Any, features: Any, theta: np.ndarray) -> np.ndarray:
    """η_n(θ) of every datum, (N, K)."""
    index = np.arange(features.rows.shape[0])
    eta = np.zeros((len(index), model.n_predictors))
    _predict_all(features, index, theta, eta)
    return eta


def mean_log_likelihood(name: str, features: np.ndarray, target: np.ndarray, theta: np.ndarray) -> float:
    """Mean of log L over rows that no chain sees (test rows)."""
    model, test = model_module(name).bind(features, target)
    values = np.zeros(len(target))
    _log_likelihoods(model, np.arange(len(target)), predictors(model, test, theta), values)
    return float(values.mean())


def bind(arm: Any, folder: Path, needs_map: bool) -> Problem:
    """Load the arm's data and fit what it needs, or recall the fit from `folder`."""
    with threadpool_limits(1):  # the bits of sums and products depend on the number of BLAS threads
        dataset = flyrun.data.load(arm.dataset)
        model, features = model_module(arm.model.name).bind(dataset.features, dataset.target)
        fit = _fit(arm, dataset, model, features, folder, needs_map)
        prior = importlib.import_module(f"flyrun.models.{arm.prior.name}").prior(fit.scale)
    return Problem(dataset, model, features, prior, fit)


def _fit(arm: Any, dataset: Any, model: Any, features: Any, folder: Path, needs_map: bool) -> Fit:
    if not needs_map and arm.prior.scale != "held_out":
        return Fit(float(arm.prior.scale), np.zeros(0), float("nan"), 0, 0.0, [])
    settings = [choice.settings() for choice in (arm.dataset, arm.model, arm.prior)]
    wanted = [*settings, dataset.sha256, sources_digest()]
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:12]
    path = folder / f"setup-{key}.npz"
    if (stored := _read(path)) is not None:
        return stored
    fit = _fit_scales(arm, dataset, model, features)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_arrays(path, fit._asdict())
    return fit


def _fit_scales(arm: Any, dataset: Any, model: Any, features: Any) -> Fit:
    started = time.perf_counter()
    priors = importlib.import_module(f"flyrun.models.{arm.prior.name}")
    held_out = arm.prior.scale == "held_out"
    queries, tried, best = 0, [], None
    theta = np.zeros(dataset.features.shape[1] * model.n_predictors)
    for scale in arm.prior.grid if held_out else (arm.prior.scale,):
        found = find_map(full_data(priors.prior(scale), model, features, theta.size), theta)
        queries += found.queries
        theta = found.theta  # the next fit starts here
        score = 0.0
        if held_out:
            score = mean_log_likelihood(
                arm.model.name, dataset.test_features, dataset.test_target, found.theta
            )
            queries += len(dataset.test_target)
            tried.append([float(scale), score])
        if best is None or score > best[0]:
            best = (score, float(scale), found)
    assert best is not None
    _, scale, found = best
    seconds = time.perf_counter() - started
    return Fit(scale, found.theta, found.log_posterior, queries, seconds, tried)


def _read(path: Path) -> Fit | None:
    """The stored fit; None where there is none or it is damaged (it is then made again)."""
    try:
        stored = files.read_arrays(path)
    except files.DamagedFile:
        return None
    return Fit(
        float(stored["scale"]),
        stored["theta_map"],
        float(stored["log_posterior"]),
        int(stored["queries"]),
        float(stored["seconds"]),
        stored["held_out"].tolist(),
    )
