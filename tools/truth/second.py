"""Families and their default priors a second time, with NumPyro's distributions and JAX; flyrun is not used.

Needs jax and numpyro (the extra `peers`). Numbers without bounds are sampled: logs of those above 0, log
odds of chances and of a power less 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln, log_ndtr, logsumexp

from tools.truth.tables import TRIALS, Table

jax.config.update("jax_enable_x64", val=True)
_COEFFICIENT_SD, _INTERCEPT_SD = 2.5, 10.0
_TERMS = 60  # of Tweedie's sum, of a long table, whose jumps are few
_MORE_TERMS = 250


class Number(NamedTuple):
    """A further parameter. of: what is sampled; log_prior: of that."""

    name: str
    of: str
    log_prior: Callable[[Any], Any]


def _normal(mean: float, sd: float) -> Callable[[Any], Any]:
    return dist.Normal(mean, sd).log_prob


_SIGMA = Number("sigma", "log", _normal(0.0, 2.0))
_PHI, _SHAPE = Number("phi", "log", _normal(2.0, 3.0)), Number("shape", "log", _normal(2.0, 4.0))
_ZI, _HU = (Number(name, "logit", _normal(-1.0, 3.0)) for name in ("zi", "hu"))
_OF_TIMES = Number("shape", "log", _normal(0.0, 1.5))
NUMBERS = {
    "zero_inflated_poisson": (_ZI,),
    "zero_inflated_negative_binomial": (_PHI, _ZI),
    "hurdle_poisson": (_HU,),
    "hurdle_negative_binomial": (_PHI, _HU),
    "hurdle_gamma": (_SHAPE, _HU),
    "hurdle_lognormal": (_SIGMA, _HU),
    "lognormal": (_SIGMA,),
    "inverse_gaussian": (Number("lambda", "log", _normal(0.0, 5.0)),),
    "exponential": (),
    "weibull": (_OF_TIMES,),
    "log_logistic": (_OF_TIMES,),
    "tweedie": (
        Number("phi", "log", _normal(0.0, 5.0)),
        Number("power", "logit", _normal(0.0, 2.0)),  # of its place in (1.01, 1.99)
    ),
    "beta": (Number("phi", "log", _normal(3.0, 2.0)),),
    "beta_binomial": (_PHI,),
}


class Data(NamedTuple):
    """x: (N, D), standardised, ones last; y, event: (N,); rows: of equal y in `values`, how many."""

    x: Any
    y: Any
    event: Any
    values: Any
    rows: Any


def data(table: Table) -> tuple[Data, np.ndarray, np.ndarray]:
    """Of a table, and what its columns were lessened by and divided by, (D,) each."""
    frame = table.frame()
    raw = frame[["normal", "skew", "two"]].to_numpy(float)
    shift, unit = raw.mean(axis=0), raw.std(axis=0)
    shift[2], unit[2] = 0.0, 1.0  # of two values
    x = np.column_stack([(raw - shift) / unit, np.ones(len(raw))])
    y = frame["y"].to_numpy(float)
    event = frame["event"].to_numpy(float) if "event" in frame else np.ones(len(y))
    values, rows = np.unique(y, return_counts=True)
    if table.family != "tweedie":
        values, rows = np.zeros(0), np.zeros(0)
    return Data(*map(jnp.asarray, (x, y, event, values, rows))), shift, unit


def _hurdle(y: Any, of_rest: Callable[[Any], Any], log_some: Any, c: Any) -> Any:
    """of_rest: the log density; log_some: the log of the chance that it is above 0."""
    some = of_rest(jnp.where(y > 0.0, y, 1.0)) - log_some - jax.nn.softplus(c)
    return jnp.where(y > 0.0, some, -jax.nn.softplus(-c))


def _of_times(y: Any, event: Any, log_density: Any, log_survival: Any) -> Any:
    return jnp.where(event > 0.0, log_density, log_survival)


def log_likelihood(family: str, its: Data, eta: Any, a: Any) -> Any:
    """The sum over rows at predictors (N,) and further numbers a, as they are sampled."""
    y, mean, chance = its.y, jnp.exp(eta), jax.nn.sigmoid(eta)
    if family == "tweedie":
        return _tweedie(its, eta, *a)
    if family == "zero_inflated_poisson":
        return dist.ZeroInflatedPoisson(jax.nn.sigmoid(a[0]), mean).log_prob(y).sum()
    if family == "zero_inflated_negative_binomial":
        of = dist.ZeroInflatedNegativeBinomial2(mean, jnp.exp(a[0]), gate=jax.nn.sigmoid(a[1]))
        return of.log_prob(y).sum()
    if family == "hurdle_poisson":
        some = jnp.log(-jnp.expm1(-mean))
        return _hurdle(y, dist.Poisson(mean).log_prob, some, a[0]).sum()
    if family == "hurdle_negative_binomial":
        phi = jnp.exp(a[0])
        some = jnp.log(-jnp.expm1(-phi * jnp.log1p(mean / phi)))
        return _hurdle(y, dist.NegativeBinomial2(mean, phi).log_prob, some, a[1]).sum()
    if family == "hurdle_gamma":
        shape = jnp.exp(a[0])
        return _hurdle(y, dist.Gamma(shape, shape / mean).log_prob, 0.0, a[1]).sum()
    if family == "hurdle_lognormal":
        return _hurdle(y, dist.LogNormal(eta, jnp.exp(a[0])).log_prob, 0.0, a[1]).sum()
    if family == "lognormal":
        sigma = jnp.exp(a[0])
        beyond = log_ndtr((eta - jnp.log(y)) / sigma)
        return _of_times(y, its.event, dist.LogNormal(eta, sigma).log_prob(y), beyond).sum()
    if family == "inverse_gaussian":
        scale = jnp.exp(a[0])
        away = (y - mean) / mean
        return (0.5 * jnp.log(scale / (2.0 * jnp.pi * y**3)) - 0.5 * scale * away**2 / y).sum()
    if family == "exponential":
        return _of_times(y, its.event, dist.Exponential(1.0 / mean).log_prob(y), -y / mean).sum()
    if family == "weibull":
        shape = jnp.exp(a[0])
        seen = dist.Weibull(mean, shape).log_prob(y)
        return _of_times(y, its.event, seen, -((y / mean) ** shape)).sum()
    if family == "log_logistic":
        shape = jnp.exp(a[0])
        of_log = dist.Logistic(eta, 1.0 / shape)
        beyond = -jax.nn.softplus(shape * (jnp.log(y) - eta))
        return _of_times(y, its.event, of_log.log_prob(jnp.log(y)) - jnp.log(y), beyond).sum()
    phi = jnp.exp(a[0])
    if family == "beta":
        return dist.Beta(chance * phi, jax.nn.sigmoid(-eta) * phi).log_prob(y).sum()
    m, k = chance * phi, jax.nn.sigmoid(-eta) * phi
    return dist.BetaBinomial(m, k, TRIALS).log_prob(y).sum()


def _tweedie(its: Data, eta: Any, log_phi: Any, c: Any) -> Any:
    """Dunn & Smyth's series, whose part beside the mean is of each value once."""
    power, phi = 1.01 + 0.98 * jax.nn.sigmoid(c), jnp.exp(log_phi)
    less = 2.0 - power
    alpha = less / (power - 1.0)  # of each gamma variable
    level = its.y * jnp.exp((1.0 - power) * eta) / (power - 1.0) + jnp.exp(less * eta) / less
    y = jnp.where(its.values > 0.0, its.values, 1.0)[:, None]
    rise = alpha * (jnp.log(y) - jnp.log(power - 1.0)) - (1.0 + alpha) * log_phi - jnp.log(less)
    j = jnp.arange(1.0, (_MORE_TERMS if len(its.y) < 1_000 else _TERMS) + 1.0)
    series = logsumexp(j * rise - gammaln(j + 1.0) - gammaln(j * alpha), axis=1)
    of_values = jnp.where(its.values > 0.0, series - jnp.log(y[:, 0]), 0.0)
    return -level.sum() / phi + its.rows @ of_values


def log_prior(family: str, x: Any) -> Any:
    """Of numbers x (P,): slopes and intercept of standardised columns, then the others."""
    width = x.shape[0] - len(NUMBERS[family])
    total = _normal(0.0, _COEFFICIENT_SD)(x[: width - 1]).sum() + _normal(0.0, _INTERCEPT_SD)(x[width - 1])
    return total + sum(one.log_prior(a) for one, a in zip(NUMBERS[family], x[width:], strict=True))


def of_rows(family: str, its: Data, x: Any) -> Any:
    """The log likelihood at x, (P,)."""
    width = its.x.shape[1]
    return log_likelihood(family, its, its.x @ x[:width], x[width:])
