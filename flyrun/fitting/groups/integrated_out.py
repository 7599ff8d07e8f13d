"""The posterior of a table's numbers with the effects of groups integrated out, by adaptive quadrature.

A group's likelihood is ∫ exp Σ ℓ(y_i; x_i'β + z_i'b) N(b; 0, TT') db, z = 1 or (1, a column). Gauss-Hermite
nodes lie about a centre b̂ in units of C, CC' = ((TT')⁻¹ + H)⁻¹, H the group's rows' curvature at the mode
(Liu & Pierce 1994). Both follow the parameters: b̂ = CC'r, where the score r = (CC')⁻¹b̂ follows coefficients
and auxiliary numbers to first order from the mode, and C follows T. Nodes that stay where they were at the
mode err by tens of nats where groups are large; centres that follow log T itself to first order leave the
mass for small T.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.special import roots_hermitenorm

from flyrun.fitting import mode
from flyrun.fitting.groups import scales, sums
from flyrun.fitting.groups.nodes import Nodes, of_intercepts, of_pairs, spread
from flyrun.fitting.proposal import TAIL, Mixture, freedom
from flyrun.fitting.rows_posterior import Expansion, Posterior
from flyrun.fitting.table_rows import Rows, as_column
from flyrun.ground.children import cores
from flyrun.ground.threads import in_order

_NUMBERS = 1 << 17  # of a block, predictors of rows, draws and nodes: they stay in a core's cache
MANY = 20_000  # rows from which sums are compiled: that takes a second, once
_AT_ONCE = 16  # draws at least, so that a block's rows are looked up once for several
_NEWTON, _LONGEST, _NEAR = 40, 2.0, 1e-7
_TINY = 1e-12  # a precision: where the search tries a vast sd, rows far out have no curvature
_START = -0.7  # log of an sd where the search begins


@dataclass(frozen=True)
class Block:
    """Some groups with all their rows: which groups, which rows, and where each group begins among these.

    many: whether all rows are so many that compiling pays.
    """

    groups: slice | np.ndarray
    rows: slice | np.ndarray
    starts: np.ndarray
    code: np.ndarray
    many: bool = False


@dataclass
class GroupedPosterior(Posterior):
    """x (P,): the coefficients, the auxiliary numbers, then h of scales.py; of a crossed factor, under normal
    noise, the log of its effects' sd and these.

    of_scales, of_crossed: priors of effects' distribution; known_crossed: the crossed effects' sd where x has
    none.
    rows: sorted by group; starts: (G,) where each begins; slope: (N,) column of a slope, None of an intercept
    alone. crossed: (N,) codes of a second factor.
    nodes: how many of an effect. steps: Newton's, by which an intercept's nodes come nearer to each
    group's centre at each x than they follow it.
    """

    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    slope: np.ndarray | None = None
    crossed: np.ndarray | None = None
    nodes: int = 9
    steps: int = 0
    of_scales: scales.Priors = scales.USUAL
    of_crossed: scales.Priors = scales.USUAL
    known_crossed: float = 1.0

    def __post_init__(self) -> None:
        """Work out sizes."""
        super().__post_init__()
        self.effects = 1 if self.slope is None else 2
        self.before = self.size  # numbers but h
        self.size += scales.number(self.effects)
        self.after = self.size  # h
        self.levels_crossed = 0 if self.crossed is None else int(self.crossed.max()) + 1
        self.size += self.levels_crossed + (self.levels_crossed > 0)
        self.groups = len(self.starts)
        self._ends = np.append(self.starts[1:], len(self.rows))
        self.follow: Nodes | None = None
        self._last = np.zeros((self.groups, self.effects))

    # -- the parts of x ------------------------------------------------------------------------------------

    def h(self, x: np.ndarray) -> np.ndarray:
        """What x (..., P) says of the effects' distribution, (..., 1) or (..., 3)."""
        return x[..., self.before : self.after]

    def linear_part(self, x: np.ndarray) -> np.ndarray:
        """(..., P') of x (..., P): coefficients less their priors' means, and a crossed factor's effects."""
        away = x[..., : self.width] - self.prior.mean
        return away if self.crossed is None else np.concatenate([away, x[..., self.after + 1 :]], axis=-1)

    def log_prior(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P)."""
        return super().log_prior(x) + scales.log_prior(self.h(x), self.of_scales)

    def prior_at(self, x: np.ndarray) -> Expansion:
        """The log prior to second order about x, (P,)."""
        expansion, n = super().prior_at(x), self.before
        expansion.slope[n:], curvature = scales.expanded(
            lambda h: scales.log_prior(h, self.of_scales), self.h(x)
        )
        expansion.curvature[n:, n:] = curvature
        return expansion

    def start(self) -> np.ndarray:
        """As of ungrouped rows, (P,); sds of a half."""
        rows, x = self.rows, np.zeros(self.size)
        p = self.family.start(rows.target, *(rows.whole(name) for name in ("trials", "offset", "weights")))
        x[self.width - 1], x[self.n_coefficients : self.before] = p[0], p[1:]
        x[self.before] = x[-1] = _START
        return x

    def proposal(self) -> Mixture:
        """About the mode, from which nodes follow on."""
        at, likelihood = mode.find(self, self.start())
        self.settle(at)
        shape = mode.covariance(likelihood.curvature + self.prior_at(at).curvature)
        return Mixture.of(at, shape, freedom(self.size), tails=self.tails)

    @property
    def tails(self) -> tuple[tuple[int, float], ...]:
        """Of log sds, as of Mixture; none where sds are known."""
        places = {self.before, self.after - 1} if self.after > self.before else ()
        return tuple((place, TAIL) for place in sorted(places))

    # -- blocks --------------------------------------------------------------------------------------------

    def grouped(self, each: int, numbers: int = _NUMBERS) -> Iterator[Block]:
        """All groups, so many at a time that their rows times `each` come to about so many numbers."""
        most, first = max(1, numbers // each), 0
        while first < self.groups:
            begin = self.starts[first]
            last = max(first + 1, int(np.searchsorted(self._ends, begin + most, side="right")))
            starts = self.starts[first:last] - begin
            sizes = self._ends[first:last] - self.starts[first:last]
            code = np.repeat(np.arange(last - first), sizes)
            rows = slice(int(begin), int(self._ends[last - 1]))
            yield Block(slice(first, last), rows, starts, code, len(self.rows) >= MANY)
            first = last

    def ungrouped(self, each: int) -> Iterator[Block]:
        """Rows ahead of all groups, if there are any, in blocks of no group."""
        none, last = np.zeros(0, dtype=np.int64), int(self.starts[0])
        step = max(1, _NUMBERS // each)
        for first in range(0, last, step):
            yield Block(slice(0, 0), slice(first, min(first + step, last)), none, none)

    def z(self, block: Block) -> np.ndarray | None:
        """The column of the slope, (n,), if there is one."""
        return None if self.slope is None else self.slope[block.rows]

    def grid(self, nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (q, K) of Gauss-Hermite quadrature and log weights (K,), with |t|²/2 in them."""
        at, weight = roots_hermitenorm(nodes)
        log_weight = np.log(weight / weight.sum()) + 0.5 * at**2
        if self.effects == 1:
            return at[None], log_weight
        both = np.stack(np.meshgrid(at, at, indexing="ij")).reshape(2, -1)
        return both, (log_weight[:, None] + log_weight).ravel()

    # -- values --------------------------------------------------------------------------------------------

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P), effects integrated out; −inf where it is no number."""
        return self.by_nodes(x, self.nodes)

    def by_nodes(self, x: np.ndarray, nodes: int) -> np.ndarray:
        """(S,) of x (S, P), by so many nodes of an effect."""
        total, each = np.zeros(len(x)), len(self.rows) * nodes**self.effects
        at_once = max(_AT_ONCE, _NUMBERS // each)  # draws: all rows of small tables are one block of groups
        parts = [slice(first, first + at_once) for first in range(0, len(x), at_once)]
        grid, log_weight = self.grid(nodes)
        # compiled sums hold predictors of rows and draws alone
        compiled = len(self.rows) >= MANY and sums.compiled(self.family, self.rows)
        held = 1 if compiled else grid.shape[1]
        items = ((draws, block) for draws in parts for block in self.grouped(held * len(x[draws])))

        def of_block(item: tuple[slice, Block]) -> tuple[slice, np.ndarray]:
            with np.errstate(all="ignore"):
                return item[0], self._some(x[item[0]], item[1], grid, log_weight)

        threads = cores() if len(x) * each > _NUMBERS else 1
        for draws, part in in_order(of_block, items, threads):
            total[draws] += part
        with np.errstate(all="ignore"):
            total += self.alone(x)
        self.queries += len(x) * (each + len(self.rows) * (self.steps + 1) * (self.steps > 0))
        return np.where(np.isnan(total), -np.inf, total)

    def _some(self, x: np.ndarray, block: Block, grid: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
        """A block's part, (S,)."""
        rows, aux = self.rows.take(block.rows), [value[:, None] for value in self.auxiliaries(x)]
        eta = self.predictors(rows, x)[0]  # (n, S)
        triangle, at = scales.triangle(self.h(x)), grid[-1]
        if self.effects == 1:
            centre, c = self._intercepts(x, block, rows, eta)
            total = sums.log_integrals(self.family, rows, block, eta, centre, c, triangle[0], at, log_weight)
        else:
            assert self.follow is not None
            placed = of_pairs(self.h(x), self._pulls(x, block), self.follow.curvature[block.groups])
            how = *placed, triangle, at[: round(len(at) ** 0.5)], log_weight
            total = sums.pair_integrals(self.family, rows, block, eta, self.z(block), *how)
        if total is not None:
            return total
        effect, level = self.placed(x, block, grid, rows, eta)
        inside = sums.of_groups(self.family, rows, block, eta, self.z(block), effect, aux)
        inside += log_weight + level
        top = inside.max(axis=2, keepdims=True)
        return (np.log(np.exp(inside - top).sum(axis=2)) + top[:, :, 0]).sum(axis=0)

    def placed(
        self, x: np.ndarray, block: Block, grid: np.ndarray, rows: Rows, eta: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Nodes of a block's groups: effects, q of (g, S, K), and log N(b; 0, TT') + log|C| there.

        grid: (q, K), from the centres; eta: (n, S) of the block's rows.
        """
        assert self.follow is not None
        if self.effects == 1:
            return of_intercepts(self.h(x), *self._intercepts(x, block, rows, eta), grid)
        return spread(self.h(x), self._pulls(x, block), self.follow.curvature[block.groups], grid)

    def _pulls(self, x: np.ndarray, block: Block) -> list[np.ndarray]:
        """As they follow x, of intercepts and slopes, (g, S) each."""
        assert self.follow is not None
        nodes, away = self.follow, (x - self.follow.at)[:, : self.before]
        return [nodes.score[block.groups, j, None] + nodes.move[block.groups, j] @ away.T for j in range(2)]

    def _intercepts(
        self, x: np.ndarray, block: Block, rows: Rows, eta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Centres and scales of nodes, (g, S), as they follow x, or by modes and curvatures at each x."""
        assert self.follow is not None
        nodes, precision = self.follow, scales.precision(self.h(x))[0]
        away = (x - nodes.at)[:, : self.before]
        within = precision + nodes.curvature[block.groups, 0, 0, None]
        b = (nodes.score[block.groups, 0, None] + nodes.move[block.groups, 0] @ away.T) / within
        if not self.steps:
            return b, within**-0.5
        y, trials, weights = (as_column(v) for v in (rows.target, rows.trials, rows.weights))
        for step in range(self.steps + 1):
            p = [eta + b[block.code], *self.auxiliaries(x)]
            slopes, curvatures = self.family.derivatives(y, trials, p)
            down = np.broadcast_to(weights * np.maximum(curvatures[0][0], 0.0), eta.shape)
            within = np.add.reduceat(down, block.starts, axis=0) + precision
            if step < self.steps:
                up = np.add.reduceat(np.broadcast_to(weights * slopes[0], eta.shape), block.starts, axis=0)
                b = b + np.clip(np.nan_to_num((up - b * precision) / within), -_LONGEST, _LONGEST)
        return b, within**-0.5

    # -- derivatives ---------------------------------------------------------------------------------------

    def adapt(self, x: np.ndarray) -> Nodes:
        """At x (P,): scores at the modes of each group's effects, by Newton steps; `move` is left empty."""
        q, precision = self.effects, scales.precision(self.h(x[None]))
        inverse = _matrix([value[0] for value in precision], q) + _TINY * np.eye(q)
        aux = list(x[self.n_coefficients : self.before])
        curvature = np.empty((self.groups, q, q))
        move = np.zeros((self.groups, q, 0))
        for block in self.grouped(8):
            rows, z = self.rows.take(block.rows), self.z(block)
            eta = self.predictors(rows, x[None])[0][:, 0]
            columns = [1.0] if z is None else [1.0, z]
            b = self._last[block.groups]
            for _ in range(_NEWTON):
                total = eta + sum(column * b[block.code, j] for j, column in enumerate(columns))
                slopes, curvatures = self.family.derivatives(rows.target, rows.trials, [total, *aux])
                up = rows.weights * slopes[0]
                down = np.broadcast_to(rows.weights * np.maximum(curvatures[0][0], 0.0), total.shape)
                slope, inner = np.empty_like(b), np.empty((len(b), q, q))
                for j, column in enumerate(columns):
                    slope[:, j] = np.add.reduceat(up * column, block.starts)
                    for k, other in enumerate(columns):
                        inner[:, j, k] = np.add.reduceat(down * column * other, block.starts)
                step = _solved(inner + inverse, slope - b @ inverse)
                step = np.clip(np.nan_to_num(step), -_LONGEST, _LONGEST)
                b = b + step
                if np.abs(step).max() < _NEAR:
                    break
            self._last[block.groups], curvature[block.groups] = b, inner
        self.queries += len(self.rows)
        score = ((curvature + inverse) @ self._last[..., None])[..., 0]
        return Nodes(x, score, curvature, move)

    def likelihood_at(self, x: np.ndarray) -> Expansion:
        """The log likelihood to second order about x, (P,); nodes lie about the centres at x from here on."""
        nodes = self.adapt(x)
        grid, log_weight = self.grid(self.nodes)
        h, q, width = self.h(x), self.effects, self.width
        aux = list(x[self.n_coefficients : self.before])
        value, slope, curvature = 0.0, np.zeros(self.size), np.zeros((self.size, self.size))
        products = np.zeros((q, q))
        for block in self.grouped(grid.shape[1] * 4):
            rows, z = self.rows.take(block.rows), self.z(block)
            eta = self.predictors(rows, x[None])[0]
            score = [nodes.score[block.groups, j, None] for j in range(q)]
            effect, level = spread(h[None], score, nodes.curvature[block.groups], grid)
            inside = sums.of_groups(self.family, rows, block, eta, z, effect, [np.array([a]) for a in aux])
            b = [part[:, 0] for part in effect]
            inside = (inside + level + log_weight)[:, 0]  # (g, K)
            top = inside.max(axis=1, keepdims=True)
            share = np.exp(inside - top)
            value += float((np.log(share.sum(axis=1)) + top[:, 0]).sum())
            share /= share.sum(axis=1, keepdims=True)
            y, trials, weights = (as_column(v) for v in (rows.target, rows.trials, rows.weights))
            total = sums.predictor(eta, z, [part[block.code] for part in b])
            slopes, curvatures = self.family.derivatives(y, trials, [total, *aux])
            scores = self._scores(rows, block, [weights * row_slope for row_slope in slopes], total.shape)
            scores += scales.scores(h, b)
            stacked = np.stack(scores[: self.size], axis=-1)  # (g, K, P), without h where an sd is known
            mean = np.einsum("gk,gkp->gp", share, stacked)
            slope += mean.sum(axis=0)
            flat = ((stacked - mean[:, None]) * np.sqrt(share)[:, :, None]).reshape(-1, self.size)
            curvature -= flat.T @ flat
            each = share[block.code]
            for j in range(len(slopes)):
                for k in range(j, len(slopes)):
                    row_curvature = (weights * curvatures[j][k] * each).sum(axis=1)
                    at, to = self.places[j], self.places[k]
                    part = (
                        rows.features.T @ (rows.features * row_curvature[:, None])
                        if k == 0
                        else (row_curvature @ rows.features)[:, None]
                        if j == 0
                        else np.full((1, 1), row_curvature.sum())
                    )
                    curvature[at, to] += part
                    if j != k:
                        curvature[to, at] += part.T
            for j in range(q):
                for k in range(q):
                    products[j, k] += (share * b[j] * b[k]).sum()
            self.queries += grid.shape[1] * len(rows)
        n = self.before
        curvature[n:, n:] += scales.expanded(lambda a: scales.log_density_sum(a, self.groups, products), h)[1]
        if self.alike is not None:
            y, trials, weights = self.alike
            more = self.family.alone_derivatives(y, trials, aux)  # type: ignore[misc]
            value += float(np.sum(weights * self.family.alone(y, trials, aux)))
            for j, derivative in enumerate(more[0]):
                slope[width + j] += np.sum(weights * derivative)
                for k in range(len(aux)):
                    curvature[width + j, width + k] += np.sum(weights * more[1][j][k])
        return Expansion(x, value, slope, curvature)

    def _scores(self, rows: Rows, block: Block, slopes: list, shape: tuple) -> list[np.ndarray]:
        """By coefficients and auxiliary numbers, of each group and node, (g, K) each."""
        scores = [
            np.add.reduceat(slopes[0] * rows.features[:, d, None], block.starts, axis=0)
            for d in range(self.width)
        ]
        return scores + [
            np.add.reduceat(np.broadcast_to(slope, shape), block.starts, axis=0) for slope in slopes[1:]
        ]

    def settle(self, x: np.ndarray) -> None:
        """Nodes follow the parameters from the mode x, (P,), on."""
        nodes = self.adapt(x)
        move = np.zeros((self.groups, self.effects, self.before))
        aux = list(x[self.n_coefficients : self.before])
        for block in self.grouped(8):
            rows, z = self.rows.take(block.rows), self.z(block)
            eta = self.predictors(rows, x[None])[0][:, 0]
            columns = [1.0] if z is None else [1.0, z]
            b = self._last[block.groups]
            total = eta + sum(column * b[block.code, j] for j, column in enumerate(columns))
            curvatures = self.family.derivatives(rows.target, rows.trials, [total, *aux])[1]
            for j, column in enumerate(columns):
                for d in range(self.width):
                    by = -(rows.weights * curvatures[0][0] * column) * rows.features[:, d]
                    move[block.groups, j, d] = np.add.reduceat(by, block.starts)
                for a in range(len(aux)):
                    by = np.broadcast_to(-rows.weights * curvatures[0][1 + a] * column, eta.shape)
                    move[block.groups, j, self.width + a] = np.add.reduceat(by, block.starts)
        self.follow = Nodes(x, nodes.score, nodes.curvature, move)


def _matrix(three: list[float], q: int) -> np.ndarray:
    """(q, q) of its first, mixed and last element."""
    return np.array([[three[0], three[1]], [three[1], three[2]]])[:q, :q]


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(g, q) of (g, q, q) and (g, q), q of 1 or 2; no number where a matrix is singular."""
    if right.shape[1] == 1:
        return right / matrix[:, 0]
    (a, b), (_, d) = matrix.transpose(1, 2, 0)
    return (
        np.stack([d * right[:, 0] - b * right[:, 1], a * right[:, 1] - b * right[:, 0]], 1)
        / (a * d - b * b)[:, None]
    )
