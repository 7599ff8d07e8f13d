"""Special functions of numbers or arrays that families share."""

import numpy as np
import scipy  # which loads scipy.special where it is first used: a package's module need not wait for it

#: what works element by element: a number, or arrays that broadcast together
Numbers = float | np.ndarray


def choose(condition: bool | np.ndarray, yes: Numbers, no: Numbers) -> Numbers:
    """`yes` where the condition holds, else `no`; both are worked out."""
    return np.where(condition, yes, no)


def log_gamma(x: Numbers) -> Numbers:
    """log Γ(x), x > 0."""
    return scipy.special.gammaln(x)


def digamma(x: Numbers) -> Numbers:
    """ψ(x), the slope of log Γ, x > 0."""
    return scipy.special.psi(x)


def trigamma(x: Numbers) -> Numbers:
    """ψ'(x), x > 0: 1/x² + 1/(x + 1)² + … to x + 7, and Bernoulli's series from there, to 15 digits."""
    more: Numbers = 0.0
    for k in range(8):
        share = 1.0 / (x + k)
        more = more + share * share
    share = 1.0 / (x + 8.0)
    f = share * share
    series = 1 / 6 - f * (1 / 30 - f * (1 / 42 - f * (1 / 30 - f * (5 / 66 - f * (691 / 2730 - f * 7 / 6)))))
    return more + share + f * (0.5 + series * share)


def softplus(x: Numbers) -> Numbers:
    """log(1 + eˣ), which overflows nowhere."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def log_normal_cdf(x: Numbers) -> Numbers:
    """log Φ(x)."""
    return scipy.special.log_ndtr(x)


def mills(x: Numbers) -> Numbers:
    """φ(x)/Φ(x), the slope of log Φ."""
    return np.sqrt(2.0 / np.pi) / scipy.special.erfcx(-x / np.sqrt(2.0))


def sigmoid(x: Numbers) -> Numbers:
    """1/(1 + e⁻ˣ), which overflows nowhere."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, 1.0, small) / (1.0 + small)


def erf(x: Numbers) -> Numbers:
    """2/√π·∫₀ˣ e^(−t²) dt."""
    return scipy.special.erf(x)


def erfc(x: Numbers) -> Numbers:
    """1 − erf(x)."""
    return scipy.special.erfc(x)
