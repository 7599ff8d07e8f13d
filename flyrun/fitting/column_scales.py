"""From the numbers that are sampled, of standardised columns, to those that people read, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flyrun.fitting.rows_posterior import Posterior
from flyrun.tables.layout import Layout


@dataclass(frozen=True)
class Scales:
    """How θ, on standardised columns, becomes β: β = factor·θ, and the intercept takes up means and shift."""

    factor: np.ndarray  # (D,), the intercept last
    means: np.ndarray  # (D,) of the columns, 0 for levels and the intercept
    shift: float

    @staticmethod
    def of(layout: Layout) -> Scales:
        """The scales of a table."""
        return Scales._of(layout, layout.target.sd, layout.target.mean)

    @staticmethod
    def of_parameter(posterior: Posterior, layout: Layout, k: int) -> Scales | None:
        """Those of the k-th auxiliary number's columns, of a table; None where it has none.

        The number stays on the scale on which it is sampled; the noise's is in units of the target.
        """
        part = layout.parameters.get(posterior.auxiliary[k].name)
        noise = k == 0 and posterior.family.of_noise
        if part is None:
            return None
        return Scales._of(part, 1.0, math.log(layout.target.sd) if noise else 0.0)

    @staticmethod
    def _of(layout: Layout, sd_y: float, mean_y: float) -> Scales:
        columns = [column for column in layout.features for _ in column.encoded]
        factor = np.array([sd_y / column.sd for column in columns] + [sd_y * layout.ones])
        means = np.array([column.mean if column.levels is None else 0.0 for column in columns] + [0.0])
        return Scales(factor, means, mean_y)

    def apply(self, theta: np.ndarray) -> np.ndarray:
        """β, (..., D), of θ, (..., D)."""
        beta = theta * self.factor
        beta[..., -1] += self.shift - beta @ self.means
        return beta

    def undo(self, beta: np.ndarray) -> np.ndarray:
        """θ, (..., D), of β, (..., D)."""
        theta = beta.copy()
        theta[..., -1] -= self.shift - beta @ self.means
        return theta / self.factor


def own_scales(posterior: Posterior, x: np.ndarray, layout: Layout) -> dict[str, np.ndarray]:
    """Of x (..., P) beta (..., D) on the columns' own scales, and auxiliary numbers as people read them; of
    one that has columns its coefficients, (..., W), on the scale on which it is sampled.
    """
    family, n, x = posterior.family, posterior.n_coefficients, posterior.natural(x)
    places = posterior.places[posterior.linear :]
    last = np.array([place.stop - 1 for place in places], np.intp)
    theta, aux = x[..., :n].copy(), family.read(np.take(x, last, axis=-1))
    if not family.intercept:  # cutpoints stand in for it, and take up the columns' means
        theta = np.concatenate([theta, np.zeros((*x.shape[:-1], 1))], axis=-1)
    if family.contrasts is not None:
        theta = contrasts(posterior, theta)
    beta = Scales.of(layout).apply(theta)
    if not family.intercept:
        beta, aux = beta[..., :-1], aux - beta[..., -1:]
    if family.of_noise:
        aux[..., 0] *= layout.target.sd  # a scale of the noise, in units of the target
    numbers = {}
    for k, (number, place) in enumerate(zip(posterior.auxiliary, places, strict=True)):
        scales = Scales.of_parameter(posterior, layout, k)
        numbers[number.name] = aux[..., k] if scales is None else scales.apply(x[..., place])
    return {"beta": beta} | numbers | posterior.others(x)


def contrasts(posterior: Posterior, theta: np.ndarray) -> np.ndarray:
    """What people read, (..., K, D), of the coefficients of K linear predictors, (..., K·D)."""
    each = theta.reshape(*theta.shape[:-1], posterior.linear, posterior.width)
    return posterior.family.contrasts(posterior.levels) @ each  # type: ignore[misc]


def to_sampled(posterior: Posterior, layout: Layout, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """x, (S, P), of what `own_scales` makes of it, (S, ...) by name."""
    family, scales, beta = posterior.family, Scales.of(layout), draws["beta"]
    part = [Scales.of_parameter(posterior, layout, k) for k in range(len(posterior.auxiliary))]
    pairs = list(zip(posterior.auxiliary, part, strict=True))
    numbers = [draws[number.name] if its is None else np.full(len(beta), 0.5) for number, its in pairs]
    aux = np.stack(numbers, axis=-1) if numbers else None
    if family.intercept:
        theta = scales.undo(beta)
    else:  # cutpoints stand in for it, and took up the columns' means
        shift = scales.shift - beta @ scales.means[:-1]
        theta = beta / scales.factor[:-1]
        aux = None if aux is None else aux + shift[:, None]
    if family.contrasts is not None:
        theta = np.linalg.solve(family.contrasts(posterior.levels), theta)
    x = np.empty((len(beta), max(place.stop for place in posterior.places)))
    x[:, : posterior.n_coefficients] = theta.reshape(len(theta), -1)
    if aux is not None:
        if family.of_noise:
            aux[:, 0] /= layout.target.sd
        with np.errstate(all="ignore"):  # what stands for columns is not used
            sampled = family.unread(aux)
        for k, (number, its) in enumerate(pairs):
            at = posterior.places[posterior.linear + k]
            x[:, at] = sampled[:, [k]] if its is None else its.undo(draws[number.name])
    return posterior.free(x)
