"""Another package's likelihoods of one function each, with NumPy, and rows for them.

tests/plugins/flyrun_jax_rows.py has the likelihoods with JAX.
"""

import hashlib
import json
from typing import Literal

import numpy as np

from flyrun.extend import Dataset, RowLikelihood, Rows, choose, option, setting, sigmoid, softplus


@option("model", "label_noise")
class LabelNoise(RowLikelihood):
    """Logistic regression of labels that flip with probability 0.05."""

    task, link, exact = "binary", "own", True

    @staticmethod
    def log_likelihood(eta, y):
        return np.log(0.05 + 0.9 * sigmoid((2.0 * y - 1.0) * eta))

    @staticmethod
    def slope(eta, y):
        right = sigmoid((2.0 * y - 1.0) * eta)
        return (2.0 * y - 1.0) * 0.9 * right * (1.0 - right) / (0.05 + 0.9 * right)

    @staticmethod
    def curvature(eta, y):
        right = sigmoid((2.0 * y - 1.0) * eta)
        share = 0.9 * right * (1.0 - right) / (0.05 + 0.9 * right)
        return share * share - share * (1.0 - 2.0 * right)

    @staticmethod
    def mean(eta):
        return 0.05 + 0.9 * sigmoid(eta)

    @staticmethod
    def draw(rng, eta):
        return 1.0 * (rng.random(np.shape(eta)) < LabelNoise.mean(eta))


@option("model", "softplus_counts")
class SoftplusCounts(RowLikelihood):
    """Counts of mean log(1 + e^eta)."""

    task, link, one_mode, exact = "counts", "own", True, True
    mean = staticmethod(softplus)

    @staticmethod
    def log_likelihood(eta, y):
        return y * choose(eta < -30.0, eta, np.log(softplus(eta))) - softplus(eta)

    @staticmethod
    def slope(eta, y):
        rise = sigmoid(eta)
        return y * choose(eta < -30.0, 1.0, rise / softplus(eta)) - rise

    @staticmethod
    def curvature(eta, y):
        rise = sigmoid(eta)
        share = choose(eta < -30.0, 1.0, rise / softplus(eta))
        return y * share * (share - (1.0 - rise)) + rise * (1.0 - rise)

    @staticmethod
    def draw(rng, eta):
        return 1.0 * rng.poisson(softplus(eta))


@option("model", "known_noise")
class KnownNoise(RowLikelihood):
    """Numbers with Student-t noise of 4 degrees of freedom and a known scale for each row."""

    task, known, exact = "regression", "scale", True

    @staticmethod
    def log_likelihood(eta, y, scale):
        r = (y - eta) / scale
        return -2.5 * np.log1p(r * r / 4.0) - np.log(scale)

    @staticmethod
    def slope(eta, y, scale):
        r = (y - eta) / scale
        return 5.0 * r / (4.0 + r * r) / scale

    @staticmethod
    def curvature(eta, y, scale):
        square = ((y - eta) / scale) ** 2
        return 5.0 * (4.0 - square) / (4.0 + square) ** 2 / scale**2

    @staticmethod
    def draw(rng, eta, scale):
        return eta + scale * rng.standard_t(4.0, np.shape(eta))


@option("dataset", "noisy_rows")
class NoisyRows(Rows):
    """Rows of standard normal numbers and a one, with targets that one of these likelihoods draws."""

    n_data: int = setting(10_000, "rows", at_least=2)
    n_features: int = setting(10, "columns, the ones included", at_least=2)
    task: Literal["binary", "counts", "regression"] = setting("binary", "what the targets are")


MODELS = {model.task: model for model in (LabelNoise, SoftplusCounts, KnownNoise)}
VERSION = 1  # of `load`: to be raised where the same settings give other rows


def load(config):
    """Coefficients go from −0.8 to 0.9 by column; known scales are uniform from 0.2 to 2."""
    rng = np.random.RandomState(1)
    n, d = config.n_data, config.n_features
    rows = np.column_stack([rng.standard_normal((n, d - 1)), np.ones(n)])
    known = {"trials": rng.uniform(0.2, 2.0, n)} if config.task == "regression" else {}
    target = MODELS[config.task].draw(rng, rows @ np.linspace(-0.8, 0.9, d), *known.values())
    if config.task == "binary":
        target = 2.0 * target - 1.0
    names = (*(f"x{k}" for k in range(1, d)), "bias")
    held_out = rows[:0], target[:0]
    return Dataset(
        "noisy_rows", rows, target, *held_out, names, fingerprint(config), {}, config.task, **known
    )


def fingerprint(config):
    """Digest of what decides the rows."""
    return hashlib.sha256(json.dumps([VERSION, config.settings()]).encode()).hexdigest()
