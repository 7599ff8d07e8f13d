"""Exact transition probabilities of code that draws random numbers, by following every outcome.

`outcomes(run)` calls run(rng) once for every path through its random choices, with an rng whose draws are
symbols: comparing a uniform with a number p is a branch of probability p, flooring an exponential is a
geometric draw, and integers are uniform. The probability of a path is the product of its branches'.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def interpreted(function: Any) -> Any:
    """The plain Python of a compiled function, which under NUMBA_DISABLE_JIT it is."""
    return getattr(function, "py_func", function)


class _Uniform:
    """A uniform on (0, scale)."""

    def __init__(self, rng: "EveryPath", scale: float = 1.0):
        self.rng, self.scale = rng, scale

    def __mul__(self, factor: float) -> "_Uniform":
        return _Uniform(self.rng, self.scale * factor)

    def __lt__(self, bound: float) -> bool:
        p = min(1.0, max(0.0, bound / self.scale))
        return self.rng.choose([p, 1.0 - p]) == 0

    def __ge__(self, bound: float) -> bool:
        return not self < bound


class _Exponential:
    def __init__(self, rng: "EveryPath"):
        self.rng = rng
        self.scale = 0.0

    def __rmul__(self, scale: float) -> "_Skip":
        self.scale = scale
        return _Skip(self.rng, scale)

    def __sub__(self, _whole: float) -> "_Rest":
        """What is left above the whole steps that were taken off."""
        return _Rest(self.rng, -math.expm1(-1.0 / self.scale))

    def __gt__(self, bound: float) -> bool:
        p = math.exp(-bound)
        return self.rng.choose([p, 1.0 - p]) == 0


class _Skip:
    """scale·Exponential, whose whole part is geometric."""

    def __init__(self, rng: "EveryPath", scale: float):
        self.rng, self.scale = rng, scale

    def __int__(self) -> int:
        go_on = math.exp(-1.0 / self.scale) if self.scale else 0.0
        weights = [go_on**k * (1.0 - go_on) for k in range(self.rng.most)]
        return self.rng.choose([*weights, go_on**self.rng.most])


class _Rest:
    """r = −log(1 − V) with V uniform on (0, top); after −log(1 − e^−r), written with numpy, −log V.

    It remembers what comparisons said of it.
    """

    def __init__(self, rng: "EveryPath", top: float):
        self.rng, self.low, self.high = rng, 0.0, top

    def _is_below(self, v: float) -> bool:
        cut = min(self.high, max(self.low, v))
        weights = [(cut - self.low) / (self.high - self.low), (self.high - cut) / (self.high - self.low)]
        below = self.rng.choose(weights) == 0
        self.low, self.high = (self.low, cut) if below else (cut, self.high)
        return below

    def __lt__(self, bound: float) -> bool:
        return self._is_below(-math.expm1(-bound))

    def __gt__(self, bound: float) -> bool:
        return self._is_below(math.exp(-bound))

    def __neg__(self) -> "_Rest":
        return self

    def __truediv__(self, share: float) -> "_Rest":
        """V/share in V's place, before anything was said of V."""
        return _Rest(self.rng, self.high / share)

    def log1p(self) -> "_Rest":
        """The last step on the way from −V back to r."""
        return self

    def expm1(self) -> "_Rest":
        """A step on the way from r to −log V, as are the next and the change of sign."""
        return self

    def log(self) -> "_Rest":
        """The last step but the change of sign."""
        return self


class EveryPath:
    """A generator that takes the branches it is told to, and then always the first possible one."""

    def __init__(self, path: list[int], most: int):
        self.path, self.most = path, most
        self.options: list[list[float]] = []
        self.probability = 1.0

    def choose(self, weights: list[float]) -> int:
        """Branch; returns the number of the branch taken."""
        depth = len(self.options)
        if depth == len(self.path):
            self.path.append(next(i for i, weight in enumerate(weights) if weight > 0.0))
        self.options.append(weights)
        self.probability *= weights[self.path[depth]]
        return self.path[depth]

    def random(self) -> _Uniform:
        """Symbol of a uniform draw."""
        return _Uniform(self)

    def standard_exponential(self) -> _Exponential:
        """Symbol of an exponential draw."""
        return _Exponential(self)

    def integers(self, low: int, high: int) -> int:
        """Branch over low … high − 1, evenly."""
        return low + self.choose([1.0 / (high - low)] * (high - low))


def outcomes(run: Callable[[EveryPath], object], most: int) -> Iterator[tuple[float, object]]:
    """(probability, result) of every path. Geometric draws of `most` or more count as one outcome."""
    path: list[int] = []
    while True:
        rng = EveryPath(list(path), most)
        result = run(rng)
        yield rng.probability, result
        path = rng.path
        while path:
            weights, taken = rng.options[len(path) - 1], path.pop()
            later = [i for i in range(taken + 1, len(weights)) if weights[i] > 0.0]
            if later:
                path.append(later[0])
                break
        else:
            return


def with_room_for_symbols(kernel: Any) -> Any:
    """The same brightness update; its workspace takes draws, and what is left of one, as symbols."""
    if not hasattr(kernel, "chance"):
        return kernel
    stream = kernel.stream._replace(room=np.zeros(kernel.stream.room.shape, object))
    return kernel._replace(chance=np.zeros(kernel.chance.shape, object), stream=stream)
