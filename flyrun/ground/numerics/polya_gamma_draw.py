"""Pólya-Gamma variables PG(1, z), drawn exactly: Devroye's method as in Polson, Scott & Windle 2013, §4.

PG(1, z) = J/4, J of density ∝ exp(−½(z/2)²x) Σ (−1)^n a_n(x). A proposal is an exponential tail above
t = 0.64 or an inverse Gaussian below; partial sums of the series bracket its density, and decide as a rule at
once.
"""

from math import erfc, exp, pi, sqrt

from flyrun.ground.numerics.compiled import jit

_CUT = 0.64


@jit
def draw(rng, z):
    """ω ~ PG(1, z), of mean tanh(z/2)/(2z)."""
    z = 0.5 * abs(z)
    rate = 0.125 * pi * pi + 0.5 * z * z
    above = 0.5 * pi / rate * exp(-rate * _CUT)
    below = _below(z)
    while True:
        if rng.random() * (above + below) < above:
            x = _CUT + rng.standard_exponential() / rate
        else:
            x = _inverse_gaussian(rng, z)
        total = _term(0, x)
        height = rng.random() * total
        n = 0
        while True:
            n += 1
            if n % 2 == 1:
                total -= _term(n, x)
                if height <= total:
                    return 0.25 * x
            else:
                total += _term(n, x)
                if height > total:
                    break


@jit
def _term(n, x):
    """a_n(x), by the form that falls with n from the start."""
    k = n + 0.5
    if x > _CUT:
        return pi * k * exp(-0.5 * (k * pi) ** 2 * x)
    return pi * k * sqrt(2.0 / (pi * x)) ** 3 * exp(-2.0 * k * k / x)


@jit
def _below(z):
    """2e^−z·P(X < t), X inverse Gaussian of mean 1/z and shape 1: the mass of proposals below t."""
    root = sqrt(0.5 / _CUT)
    mass = exp(-z) * erfc(root * (1.0 - _CUT * z))
    if z < 100.0:  # beyond it the second part is less than e^−3000
        mass += exp(z) * erfc(root * (1.0 + _CUT * z))
    return mass


@jit
def _inverse_gaussian(rng, z):
    """The same X given X < t."""
    if z * _CUT < 1.0:  # by the law of mean infinity, whose draws are kept with probability e^(−½z²x)
        while True:
            e = rng.standard_exponential()
            if e * e <= 2.0 * rng.standard_exponential() / _CUT:
                x = _CUT / (1.0 + _CUT * e) ** 2
                if rng.random() < exp(-0.5 * z * z * x):
                    return x
    mean = 1.0 / z
    while True:
        y = mean * rng.standard_normal() ** 2
        x = mean * (1.0 + 0.5 * y - 0.5 * sqrt(y * (4.0 + y)))
        if rng.random() * (mean + x) > mean:
            x = mean * mean / x
        if x < _CUT:
            return x
