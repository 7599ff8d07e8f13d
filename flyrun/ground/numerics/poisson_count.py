"""Poisson numbers by inversion of uniforms (Devroye 1986, ch. X.3)."""

from math import exp

from flyrun.ground.numerics.compiled import jit

PIECE = 30.0
"""Larger means are cut: Poisson numbers add up. So exp(−mean) stays far from underflow."""
MOST = 200
"""Larger numbers have, for a mean of PIECE, probabilities far below the last digit of a uniform."""


@jit
def poisson_count(rng, mean):
    """Poisson(mean) in O(mean), with one uniform for every PIECE of the mean."""
    total = 0
    while mean > 0.0:
        piece = min(mean, PIECE)
        mean -= piece
        rest, chance, count = rng.random(), exp(-piece), 0
        while rest >= chance and count < MOST:
            rest -= chance
            count += 1
            chance *= piece / count
        total += count
    return total
