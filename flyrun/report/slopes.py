"""How a cost grows: slopes of log cost against log size, measured and as a formula has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

Sizes = Mapping[str, float]
PARAMETERS = ("Delta", "D", "L", "Psi")


@dataclass(frozen=True)
class Cost:
    """An algorithm's cost of an update as published. text: its O(); terms: what is added up in it.

    paper: where it stands.
    """

    text: str
    terms: tuple[Callable[[Sizes], float], ...]
    paper: str = "De Sa et al. 2018, Table 1"

    def at(self, sizes: Sizes) -> float:
        """The formula's value, constants left out."""
        return sum(term(sizes) for term in self.terms)

    def exponent(self, name: str) -> str:
        """ "2", or "0 to 2" where terms grow unlike each other with the parameter."""
        ones = dict.fromkeys(PARAMETERS, 1.0)
        found = {int(np.rint(np.log2(term({**ones, name: 2.0})))) for term in self.terms}
        return f"{min(found)} to {max(found)}" if len(found) > 1 else str(found.pop())


COSTS = {
    "gibbs": Cost("DΔ", (lambda s: s["D"] * s["Delta"],)),
    "min_gibbs": Cost("DΨ²", (lambda s: s["D"] * s["Psi"] ** 2,)),
    "local_minibatch": Cost("D", (lambda s: s["D"],), "the B of its batch held"),
    "mgpmh": Cost("DL² + Δ", (lambda s: s["D"] * s["L"] ** 2, lambda s: s["Delta"])),
    "double_min": Cost("DL² + Ψ²", (lambda s: s["D"] * s["L"] ** 2, lambda s: s["Psi"] ** 2)),
    "poisson_gibbs": Cost("DL²", (lambda s: s["D"] * s["L"] ** 2,), "Zhang & De Sa 2019"),
}


def slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least-squares slope of log y on log x, and its standard error from the scatter (NaN for two points)."""
    if len(x) < 2 or min(x) <= 0 or min(y) <= 0:
        return nan, nan
    log_x, log_y = np.log(x), np.log(y)
    off = log_x - log_x.mean()
    square = float(off @ off)
    if square == 0.0:
        return nan, nan
    fitted = float(off @ log_y) / square
    rest = log_y - log_y.mean() - fitted * off
    se = float(np.sqrt(rest @ rest / (len(x) - 2) / square)) if len(x) > 2 else nan
    return fitted, se


def growing(points: list[Sizes], name: str) -> list[int]:
    """The places in `points` between which only the parameter `name` grows, smallest first.

    Of all such sets of at least three sizes the largest; none: []. Sizes within 1 % count as equal.
    """
    groups: dict[tuple[int, ...], dict[int, int]] = {}
    for place, point in enumerate(points):
        held = tuple(_step(point[other]) for other in PARAMETERS if other != name)
        groups.setdefault(held, {}).setdefault(_step(point[name]), place)
    best: dict[int, int] = max(groups.values(), key=len, default={})
    return [best[size] for size in sorted(best)] if len(best) > 2 else []


def _step(size: float) -> int:
    return int(np.rint(np.log(max(size, 1e-300)) / 0.01))
