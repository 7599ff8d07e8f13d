"""Uniforms by number, not by turn: the same for any number of threads, in any order."""

from flyrun.ground.numerics.compiled import jit

_WORD = 0xFFFFFFFFFFFFFFFF


@jit
def mixed(word):
    """A bijection of 64-bit words that leaves no pattern (splitmix64's; Steele, Lea & Flood 2014)."""
    h = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    h = (h ^ (h >> 27)) * 0x94D049BB133111EB & _WORD
    return h ^ (h >> 31)


@jit
def uniform(key, number):
    """In [0, 1), of 53 bits; key, number: uint64."""
    return (mixed(key ^ mixed(number)) >> 11) * (1.0 / 9007199254740992.0)
