"""Another package's data, likelihood with its bound, and prior.

[project.entry-points."flyrun.datasets"]: drifts = "flyrun_quakes:Drifts"; "flyrun.models": logistic_noise =
"flyrun_quakes:LogisticNoise"; "flyrun.priors": elastic_net = "flyrun_quakes:ElasticNet".
"""

import hashlib
from math import erfc, exp, log, pi, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from flyrun.extend import Dataset, Likelihood, Linear, Penalty, Prior, Rows, add_gaussian, bent, draw_base

# isort: split
from flyrun.extend import implements, jaakkola_jordan, laplace, laplace_times_bounds, log_base, log_bound

# isort: split
from flyrun.extend import log_likelihood, logistic_pseudo_likelihood, option, setting


@option("dataset", "drifts")
class Drifts(Rows):
    """A generated drift over time with logistic noise."""

    n_data: int = setting(40, at_least=2)


def load(config):
    rng = np.random.RandomState(3)
    x = np.c_[np.linspace(-1, 1, config.n_data), np.ones(config.n_data)]
    y, none = x @ [1.0, -0.5] + 0.4 * rng.logistic(size=config.n_data), np.empty(0)
    return Dataset("drifts", x, y, x[:0], none, ("time", "bias"), fingerprint(config), {}, "regression")


def fingerprint(config):
    return hashlib.sha256(f"drifts {config.n_data}".encode()).hexdigest()


@option("model", "logistic_noise")
class LogisticNoise(Likelihood):
    """y_n = θᵀx_n + scale·logistic noise: log L = log σ(u) + log σ(−u) − log scale, u = (y_n − η)/scale."""

    task: ClassVar[str] = "regression"
    scale: float = setting(0.4, above=0)


class Noise(NamedTuple):
    target: np.ndarray  # (N,)
    scale: float
    n_predictors: int = 1


class Parabolas(NamedTuple):
    """log B_n = a u² + c: Jaakkola and Jordan's of both σ, whose slopes cancel."""

    curve: np.ndarray  # (N, 2): a_n, c_n


LOG_CONCAVE = True


def bind(features, target, scale):
    return Noise(np.asarray(target, float), scale), Linear(np.ascontiguousarray(features))


def rebind(model, features, target):
    return bind(features, target, model.scale)


def part(model, which):
    return model._replace(target=model.target[which])


@implements(log_likelihood, Noise)
def _log_likelihood(model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        u = (model.target[index[i]] - eta[i, 0]) / model.scale
        small = exp(-abs(u))
        values[i] = -abs(u) - 2.0 * log(1.0 + small) - log(model.scale)
        if slopes is not None:
            slopes[i, 0] = np.sign(u) * (1.0 - small) / (1.0 + small) / model.scale


@implements(log_bound, Parabolas)
def _log_bound(bound, model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        n = index[i]
        u = (model.target[n] - eta[i, 0]) / model.scale
        values[i] = bound.curve[n, 0] * u * u + bound.curve[n, 1] - log(model.scale)
        if slopes is not None:
            slopes[i, 0] = -2.0 * bound.curve[n, 0] * u / model.scale


def _tight_at(u):
    return Parabolas(2.0 * jaakkola_jordan(u).curve)


def untuned_bound(model, features, xi):
    return _tight_at(np.full(len(model.target), xi))


def map_bound(model, predictors):
    return _tight_at((model.target - predictors[:, 0]) / model.scale)


def lower(bound, by):
    bound.curve[:, 1] -= by


def curvature(model, predictors):
    small = np.exp(-np.abs(model.target - predictors[:, 0]) / model.scale)
    return (2.0 * small / (1.0 + small) ** 2 / model.scale**2)[:, None, None]


def expected_pseudo_likelihood(model, predictors, variance):
    u = ((model.target - predictors[:, 0]) / model.scale)[:, None]
    return 2.0 * logistic_pseudo_likelihood(None, u, variance / model.scale**2)


implements(bent, Parabolas)(lambda bound, model, block: -2.0 * bound.curve[block, 0] / model.scale**2)


@option("prior", "elastic_net")
class ElasticNet(Prior):
    """θ_d ~ exp(-|θ_d|/scale - θ_d²/(2 scale²)), independent."""

    smooth: ClassVar[bool] = False
    scale: float = setting(1.0, above=0)


SMOOTH = False


class Net(NamedTuple):
    scale: float
    log_normaliser: float


def prior(scale):
    return Net(scale, log(scale * sqrt(2.0 * pi) * exp(0.5) * erfc(sqrt(0.5))))


def penalty(prior):
    return Penalty(ridge=1.0 / prior.scale**2, rate=1.0 / prior.scale)


@implements(log_base, Net)
def _log_net(base, theta, gradient):
    total = 0.0
    for d in range(theta.shape[0]):
        u = theta[d] / base.scale
        total -= abs(u) + 0.5 * u * u + base.log_normaliser
        if gradient is not None:
            gradient[d] -= (np.sign(u) + u) / base.scale
    return total


@implements(draw_base, Net)
def _draw_net(base, rng, out):
    for d in range(out.shape[0]):
        u = rng.standard_exponential()
        while rng.random() >= exp(-0.5 * u * u):
            u = rng.standard_exponential()
        out[d] = base.scale * (u if rng.random() < 0.5 else -u)


def pseudo_prior(prior, bounds):
    beside = -bounds.linear.size * (prior.log_normaliser - log(2.0 * prior.scale))
    return laplace_times_bounds(laplace(prior.scale), add_gaussian(bounds, 1.0 / prior.scale**2, beside))
