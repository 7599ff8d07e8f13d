"""Another package's likelihoods of one function each, with JAX; flyrun_rows.py has them with NumPy."""

import jax.numpy as jnp
from jax.nn import sigmoid, softplus
from jax.scipy.special import gammaln as lgamma

from flyrun.extend import Auxiliary, LogGamma, RowLikelihood, option


@option("model", "jax_label_noise")
class LabelNoise(RowLikelihood):
    """Logistic regression of labels that flip with probability 0.05."""

    task = "binary"

    @staticmethod
    def log_likelihood(eta, y):
        return jnp.log(0.05 + 0.9 * sigmoid((2.0 * y - 1.0) * eta))


@option("model", "jax_softplus_counts")
class SoftplusCounts(RowLikelihood):
    """Counts of mean log(1 + e^eta)."""

    task, one_mode = "counts", True

    @staticmethod
    def log_likelihood(eta, y):
        low = eta < -30.0  # where the mean is e^eta; both sides of jnp.where must have derivatives
        mean = softplus(jnp.where(low, 0.0, eta))
        return jnp.where(low, y * eta, y * jnp.log(mean) - mean)


@option("model", "jax_known_noise")
class KnownNoise(RowLikelihood):
    """Numbers with Student-t noise of 4 degrees of freedom and a known scale for each row."""

    task, known = "regression", "scale"

    @staticmethod
    def log_likelihood(eta, y, scale):
        return -2.5 * jnp.log1p(((y - eta) / scale) ** 2 / 4.0) - jnp.log(scale)


@option("model", "jax_dispersed_counts")
class DispersedCounts(RowLikelihood):
    """Counts of mean mu = e^eta and variance mu + mu²/phi; log phi is sampled."""

    task, link = "counts", "log"
    sampled = (Auxiliary("phi", LogGamma(1.0, 1.0)),)

    @staticmethod
    def log_likelihood(eta, y, phi):
        away = jnp.logaddexp(jnp.log(phi), eta)
        known = lgamma(y + phi) - lgamma(phi) + phi * jnp.log(phi)
        return known + y * eta - (y + phi) * away
