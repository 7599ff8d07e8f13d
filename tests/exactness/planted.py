"""A generator whose draws are symbols, for following every path through samplers of graphs.

Wraps the generator of `enumeration.outcomes`. A uniform remembers what comparisons said of it, so it may be
compared again and again, cut into a whole part and a rest. Poisson draws above `most` are left out: the
probabilities of all paths then add up to less than 1, and what is missing is known.
"""

import math

from tests.exactness.enumeration import EveryPath


class Uniform:
    """scale·U + shift, with U uniform on [low, high)."""

    def __init__(self, paths: EveryPath, known: list[float], scale: float = 1.0, shift: float = 0.0):
        self.paths, self.known, self.scale, self.shift = paths, known, scale, shift

    def __mul__(self, factor):
        return Uniform(self.paths, self.known, self.scale * factor, self.shift * factor)

    def __sub__(self, number):
        return Uniform(self.paths, self.known, self.scale, self.shift - number)

    def __lt__(self, bound):
        low, high = self.known
        cut = min(high, max(low, (bound - self.shift) / self.scale))
        below = self.paths.choose([(cut - low) / (high - low), (high - cut) / (high - low)]) == 0
        self.known[:] = [low, cut] if below else [cut, high]
        return below

    def __ge__(self, bound):
        return not self < bound

    def __int__(self):
        assert self.shift == 0.0
        assert self.known == [0.0, 1.0]
        size = round(self.scale)
        place = self.paths.choose([1.0 / size] * size)
        self.known[:] = [place / size, (place + 1) / size]
        return place


class Planted:
    """What a sampler takes for its generator."""

    def __init__(self, paths: EveryPath):
        self.paths = paths
        self.n_draws, self.batch = 0, []

    def random(self) -> Uniform:
        """Symbol of a uniform."""
        return Uniform(self.paths, [0.0, 1.0])

    def poisson(self, mean: float) -> int:
        """Branch over 0 … most."""
        assert not self.batch
        counts = range(self.paths.most + 1)
        self.n_draws = self.paths.choose([math.exp(-mean) * mean**k / math.factorial(k) for k in counts])
        return self.n_draws

    def pick(self, probabilities: list[float]) -> int:
        """One of the independent picks that a Poisson number announced.

        Their order decides nothing, so one path stands for all orders: the multinomial counts are chosen at
        the first pick, and handed out place by place.
        """
        if not self.batch:
            splits = list(_splits(self.n_draws, len(probabilities)))
            chosen = splits[self.paths.choose([_multinomial(split, probabilities) for split in splits])]
            self.batch = [place for place, count in enumerate(chosen) for _ in range(count)]
        return self.batch.pop()


def _splits(n, parts):
    """Every way to split n into so many counts."""
    if parts == 1:
        yield (n,)
        return
    for head in range(n + 1):
        for rest in _splits(n - head, parts - 1):
            yield (head, *rest)


def _multinomial(counts, probabilities):
    weight = float(math.factorial(sum(counts)))
    for count, p in zip(counts, probabilities, strict=True):
        weight *= p**count / math.factorial(count)
    return weight
