"""Groups' effects, drawn afterwards from their posterior given each draw of the other numbers.

Given these, groups are independent of each other. Under normal noise an effect is normal. Else its density is
log-concave, and an intercept is drawn exactly by its hull; of an intercept and a slope the first by its
marginal density, a quadrature over the second as exact as the fit's, and the second, given it, exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from flyrun.fitting.groups import hull, scales, sums
from flyrun.fitting.groups.integrated_out import Block, GroupedPosterior
from flyrun.fitting.groups.nodes import stepped
from flyrun.fitting.groups.normal_noise import Sums
from flyrun.fitting.table_rows import Rows
from flyrun.ground.children import cores
from flyrun.ground.threads import in_order

_AT = np.linspace(-2.4, 2.4, 7)  # sds from the centre where a hull begins
_INNER = 9  # nodes of a slope, at least
_DRAWS = 50  # that are worked on at a time
_NUMBERS = 1 << 19  # rows × draws × nodes of a block


def draw(posterior: GroupedPosterior, x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Effects (S, G, q) in units of the predictor, a draw for each x (S, P).

    `draw.draw` has placed the posterior's nodes before.
    """
    if posterior.family.by_sums:
        return _normal(posterior, x, np.random.default_rng(seed))
    drawn = np.empty((len(x), posterior.groups, posterior.effects))
    of_block = partial(_of_block, posterior, x, seed)
    for (draws, groups), effects in in_order(of_block, _blocks(posterior, len(x)), cores()):
        drawn[draws, groups] = effects
    return drawn


def _normal(posterior: GroupedPosterior, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(S, G, q): given coefficients b ~ N(σ²M⁻¹·Z'(y − Xβ)/σ², σ²M⁻¹), M = σ²(TT')⁻¹ + Z'Z, by sums."""
    totals = Sums(posterior)
    p00, p01, p11 = scales.precision(posterior.h(x))
    away = posterior.linear_part(x)
    effects = np.empty((len(x), posterior.groups, posterior.effects))
    for s in range(len(x)):
        variance = float(np.exp(2.0 * x[s, posterior.before - 1]))
        inner = np.array([[p00[s], p01[s]], [p01[s], p11[s]]])[: posterior.effects, : posterior.effects]
        cholesky = np.linalg.cholesky(totals.all_own / variance + inner)
        score = (totals.cross[..., -1] - totals.cross[..., :-1] @ away[s]) / variance
        noise = rng.standard_normal(score.shape)
        along = np.linalg.solve(cholesky, score[..., None]) + noise[..., None]
        effects[s] = np.linalg.solve(cholesky.transpose(0, 2, 1), along)[..., 0]
    return effects


def _blocks(posterior: GroupedPosterior, n: int) -> Iterator[tuple[slice, Block]]:
    """Some draws and some groups at a time."""
    nodes = len(_AT) * (1 if posterior.effects == 1 else max(posterior.nodes, _INNER))
    for first in range(0, n, _DRAWS):
        for block in posterior.grouped(nodes * _DRAWS, _NUMBERS):
            yield slice(first, min(first + _DRAWS, n)), block


def _of_block(
    posterior: GroupedPosterior, x: np.ndarray, seed: int, which: tuple[slice, Block]
) -> tuple[tuple[slice, slice], np.ndarray]:
    """Effects of a block's groups in some draws, (S, g, q)."""
    draws, block = which
    assert isinstance(block.groups, slice)
    rng = np.random.default_rng([seed, draws.start, block.groups.start])
    with np.errstate(all="ignore"):
        density = _Density.of(posterior, x[draws], block)
        effects = density.intercepts(rng) if posterior.effects == 1 else density.pairs(rng)
    return (draws, block.groups), effects


@dataclass(frozen=True)
class _Density:
    """Log densities of the effects of a block's groups, given draws: M = g·S of them, the draws inmost.

    centre: (g, S, q); root: (g, S, 3) of C00, C10 and C11, about the densities' own.
    """

    posterior: GroupedPosterior
    block: Block
    rows: Rows
    z: np.ndarray | None
    eta: np.ndarray
    aux: list[np.ndarray]
    triangle: tuple[np.ndarray, np.ndarray, np.ndarray]
    centre: np.ndarray
    root: np.ndarray

    @staticmethod
    def of(posterior: GroupedPosterior, x: np.ndarray, block: Block) -> "_Density":
        """Of draws x (S, P)."""
        rows = posterior.rows.take(block.rows)
        eta = posterior.predictors(rows, x)[0]
        units = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])[: posterior.effects]
        at, _ = posterior.placed(x, block, units, rows, eta)
        roots = [at[0][..., 1] - at[0][..., 0]]
        if posterior.effects == 2:
            roots += [at[1][..., 1] - at[1][..., 0], at[1][..., 2] - at[1][..., 0]]
        return _Density(
            posterior,
            block,
            rows,
            posterior.z(block),
            eta,
            [value[:, None] for value in posterior.auxiliaries(x)],
            scales.triangle(posterior.h(x)),
            np.stack([effect[..., 0] for effect in at], axis=-1),
            np.stack(roots, axis=-1),
        )

    def _prior(self, b: list[np.ndarray], draws: np.ndarray | slice = slice(None)) -> np.ndarray:
        """log N(b; 0, TT') of b (..., S, K) but for what does not depend on b."""
        t00, t10, t11 = (element[draws, None] for element in self.triangle)
        v0 = b[0] / t00
        if len(b) == 1:
            return -0.5 * v0**2
        return -0.5 * (v0**2 + ((b[1] - t10 * v0) / t11) ** 2)

    def _at_nodes(self, b: list[np.ndarray]) -> np.ndarray:
        """At the same nodes of all, b of (g, S, K): (g, S, K)."""
        posterior = self.posterior
        values = sums.of_groups(posterior.family, self.rows, self.block, self.eta, self.z, b, self.aux)
        return values + self._prior(b)

    def _at(self, which: np.ndarray, b: list[np.ndarray]) -> np.ndarray:
        """Of some, (m,), at points b of (m, J): (m, J)."""
        group, draws = np.divmod(which, self.eta.shape[1])
        values = sums.of_pairs(
            self.posterior.family, self.rows, self.block, self.eta, self.z, b, self.aux, group, draws
        )
        return values + self._prior(b, draws)

    def _whole(self, effects: list[np.ndarray]) -> np.ndarray:
        """(S, g, q) of q draws (M,)."""
        shape = self.eta.shape[1], len(self.block.starts)
        return np.stack([effect.reshape(shape[::-1]).T for effect in effects], axis=-1)

    def intercepts(self, rng: np.random.Generator) -> np.ndarray:
        """A draw of each, (S, g, 1)."""
        b = stepped(self.centre[..., 0], (self.root[..., 0], _AT))
        values = self._at_nodes([b])
        points, values = (np.moveaxis(array, -1, 0).reshape(len(_AT), -1) for array in (b, values))
        return self._whole([hull.draws(points, values, lambda which, at: self._at(which, [at]), rng)])

    def pairs(self, rng: np.random.Generator) -> np.ndarray:
        """A draw of each intercept and slope, (S, g, 2)."""
        centre, scale = self.centre.reshape(-1, 2), self.root.reshape(-1, 3)
        nodes, logs = np.polynomial.hermite_e.hermegauss(max(self.posterior.nodes, _INNER))
        logs = np.log(logs) + 0.5 * nodes**2

        def slopes(which: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
            """Those at t (K,) given intercepts (m, J): (m, J, K)."""
            c00, c10, c11 = scale[which].T[:, :, None]
            mean = centre[which, 1, None] + (b - centre[which, 0, None]) * c10 / c00
            return mean[..., None] + c11[..., None] * t

        def marginal(which: np.ndarray, b: np.ndarray) -> np.ndarray:
            along = slopes(which, b, nodes).reshape(len(b), -1)
            inside = self._at(which, [np.repeat(b, len(nodes), axis=1), along])
            return np.logaddexp.reduce(inside.reshape(*b.shape, -1) + logs, axis=-1)

        every = np.arange(len(centre))
        at = centre[:, :1] + scale[:, :1] * _AT
        shape = (*self.root.shape[:2], -1)
        grid = [np.repeat(at, len(nodes), axis=1).reshape(shape), slopes(every, at, nodes).reshape(shape)]
        inside = self._at_nodes(grid).reshape(*at.shape, len(nodes))
        first = hull.draws(at.T, np.logaddexp.reduce(inside + logs, axis=-1).T, marginal, rng)

        def slope(which: np.ndarray, b: np.ndarray) -> np.ndarray:
            return self._at(which, [np.repeat(first[which, None], b.shape[1], axis=1), b])

        at = slopes(every, first[:, None], _AT)[:, 0]
        return self._whole([first, hull.draws(at.T, slope(every, at).T, slope, rng)])
