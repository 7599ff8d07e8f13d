"""The family of Gaussian processes: what its methods share. They are judged by what they predict.

Estimates: `prediction`, `variance` (T,) of the function at the test rows; `rmse` of these; `log_density`,
mean log density of the test targets under prediction and noise, particles mixed by their weights. For several
particles also `effective`, the weights' effective number, and the same two with equal weights, `equal_rmse`
and `equal_log_density`. All in the target's units.
"""

import time
from abc import abstractmethod
from pathlib import Path

import numpy as np
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm

from flyrun.experiments import data
from flyrun.experiments.models.gaussian_process import Process
from flyrun.experiments.samplers.method import Arm, Facts, Method, State
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.state import seeded


def prepare(arm: Arm, folder: Path) -> Method:
    """Data loaded, the kernel fixed. DataError or ConfigError, one line each."""
    started = time.perf_counter()
    process = arm.model.code.bind(arm.model, data.load(arm.dataset))
    return arm.sampler.build(arm, process, time.perf_counter() - started)


def inducing_rows(seed: int, n_data: int, sets: int, size: int) -> np.ndarray:
    """(sets, size) training rows whose inputs are inducing, without repeats in a set, and in order.

    Methods of one seed share them: a single set is the first of several. Targets are not looked at.
    """
    rng = seeded(seed)
    return np.stack([np.sort(rng.choice(n_data, size, replace=False)) for _ in range(sets)])


class Predictor(Method):
    """Its `predictions` say all: log weights (m,), means and variances of the function (m, T)."""

    label: str
    exact = False
    unit = "step"
    shown = ("{queries} queries/step",)

    def __init__(self, arm: Arm, process: Process, seconds: float):
        self.arm, self.process, self.seconds = arm, process, seconds
        self.n_data = len(process.target)
        self.size = getattr(arm.sampler, "inducing", self.n_data)  # function values that are inferred
        if self.size > self.n_data:
            most = f"must be at most the number of rows, {self.n_data:,}; take fewer"
            raise ConfigError(f"sampler.inducing={self.size}: {most}")

    @abstractmethod
    def predictions(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log weights, (m,), means and variances, (m, n), at the test rows, in the process' scale."""

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        logs, means, variances = self.predictions(state)
        logs, spread = log_softmax(logs), self.process.spread
        weight = np.exp(logs)
        mean = weight @ means
        variance = np.maximum(weight @ (variances + means**2) - mean**2, 0.0)
        estimates = {"prediction": self.process.centre + spread * mean, "variance": spread**2 * variance}
        estimates |= self._scores("", logs, means, variances)
        if len(weight) > 1:
            estimates |= {"effective": 1.0 / (weight**2).sum()}
            estimates |= self._scores("equal_", np.full(len(logs), -np.log(len(logs))), means, variances)
        return {name: np.asarray(value) for name, value in estimates.items()}

    def _scores(self, prefix: str, logs: np.ndarray, means: np.ndarray, variances: np.ndarray) -> dict:
        process = self.process
        off = np.exp(logs) @ means - process.test_target
        each = norm.logpdf(process.test_target, means, np.sqrt(variances + process.noise))
        density = logsumexp(logs[:, None] + each, axis=0).mean() - np.log(process.spread)
        return {f"{prefix}rmse": process.spread * np.sqrt(np.mean(off**2)), f"{prefix}log_density": density}

    def facts(self, state: State | None = None) -> Facts:
        """test_inputs, test_targets: of a function of one variable.  prior: its mean and sd without data."""
        process = self.process
        targets = process.centre + process.spread * process.test_target
        line = slice(None if process.test_features.shape[1] == 1 else 0)
        return Facts(
            self.label,
            exact=self.exact,
            n_data=self.n_data,
            n_params=self.size,
            setup_s=self.seconds,
            more={
                "kernel_length": process.length,
                "noise_sd": process.spread * process.noise**0.5,
                "test_rows": len(process.test_target),
                "test_inputs": process.test_features[line, 0].tolist(),
                "test_targets": targets[line].tolist(),
                "prior": [float(process.centre), float(process.spread)],
            },
        )
