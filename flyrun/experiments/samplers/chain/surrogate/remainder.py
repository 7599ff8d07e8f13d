"""By how much what Taylor polynomials leave out can change from one position to another, for every datum.

|R_k,n(φ') − R_k,n(φ)| ≤ c_n·M_k(φ, φ') with c_n = κ_n s_n^(k+1): a constant of the datum times a number of
the two positions, the same both ways. So data are drawn by an alias table made once, as often as M says.

M_k follows from R' − R = ∫ (f' − T') along the line between both: |.| ≤ κ|δ|^k/k!, the integral of that taken
for the worst direction of x̃. At most half of Prado, Nemeth & Sherlock's (2024) for k = 2 and a third of
Cornish et al.'s (2019), which `cornish` gives, ‖φ‖^(k+1) + ‖φ'‖^(k+1) over (k + 1)!.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.ranges import reach
from flyrun.ground.numerics.alias import Alias, Even, alias_table
from flyrun.ground.numerics.compiled import implements, jit
from flyrun.ground.numerics.state import unsaved


class Leverages(NamedTuple):
    """What M is made of where the data's constants are c_n = κ_n s_n^(k+1)."""

    order: int
    cornish: bool


@unsaved(fixed=("weights", "table"))
class Remainder(NamedTuple):
    """Bounds of all data's remainders for one order."""

    bounds: Any  # what `reach` makes M of
    weights: np.ndarray  # c_n, (N,)
    table: Alias | Even  # draws n in proportion to c_n
    total: float  # C = Σ c_n


def remainder(bounds: Any, weights: np.ndarray) -> Remainder:
    """weights: c_n, (N,)."""
    return Remainder(bounds, weights, alias_table(weights), float(weights.sum()))


def by_leverages(order: int, kappa: np.ndarray, roots: np.ndarray, cornish: bool = False) -> Remainder:
    """kappa: constants of derivatives, (N,); roots: those of leverages, (N,)."""
    return remainder(Leverages(order, cornish), kappa * roots ** (order + 1))


@jit
def leverage_reach(order, cornish, here, there):
    """M_k of two positions φ, (P,), in either order."""
    first, second, both, towards, away, apart = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for d in range(here.shape[0]):
        step = there[d] - here[d]
        first += here[d] * here[d]
        second += there[d] * there[d]
        both += here[d] * there[d]
        towards += here[d] * step
        away += there[d] * step
        apart += step * step
    length = sqrt(apart)
    if order == 0:
        return length
    power, factorial = 0.5 * (order + 1), 2.0 if order == 1 else 6.0 if order == 2 else 24.0
    at_ends = (first**power + second**power) / factorial
    if cornish:
        return at_ends
    # δ² + δ'² is at most s² times the largest eigenvalue of φφᵀ + φ'φ'ᵀ
    largest = 0.5 * (first + second) + sqrt(0.25 * (first - second) ** 2 + both * both)
    whole = min(largest**power / factorial, at_ends)
    if order == 1:
        return min(whole, 0.25 * (length * (sqrt(first) + sqrt(second)) + abs(towards) + abs(away)))
    if order == 2:
        # about the middle μ: ½‖μ‖²‖Δ‖·max over unit u of (u·a)²|u·b| at angle arccos ω, and ‖Δ‖³/24
        middle = 0.25 * (first + second + 2.0 * both)
        turned = 0.0
        if middle > 0.0 and apart > 0.0:
            turned = min(1.0, 0.5 * abs(second - first) / sqrt(middle * apart))
        c = sqrt(2.0 + 0.25 * turned * turned) - 0.5 * turned
        worst = (2.0 + turned * c) ** 1.5 / (5.196152422706632 * c)
        return min(whole, 0.5 * middle * length * worst + apart * length / 24.0)
    return whole


@implements(reach, Leverages)
def _by_leverages(bounds, theta, proposal, phi, proposed_phi):
    return leverage_reach(bounds.order, bounds.cornish, phi, proposed_phi)
