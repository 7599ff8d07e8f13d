"""What a small table's posterior with normal noise and terms of groups is, by draws from the prior.

Of sigma, sds and correlations, each weighted by its marginal likelihood: given these the target is
N(0, σ²I + AA'), A what standard normal coefficients and effects add, which are drawn afterwards, exactly.
No chain has to follow the ridge of sds whose sum alone is told, as where groups have a row each.
"""

from collections.abc import Callable

import numpy as np

from tools.groups.many_chains import CHAINS, FREEDOM, SD, Model

_FIRST, _MOST = 2_000, 32_000  # draws from the prior, of each part
_KEPT = 400  # draws of the posterior, of each part
_EFFECTIVE = 100  # draws of each part, at least: what a ratio of sums is biased by goes with their number
_TOGETHER = 500  # draws of a matrix each


class _Prior:
    """heads: places of sigma, sds and correlations among a Model's point; normal: of all else."""

    def __init__(self, model: Model) -> None:
        self.model, self.d = model, model.x.shape[1]
        firsts = [place.start for place in model.places]
        self.heads = [self.d]
        for first, count in zip(firsts, model.heads, strict=True):
            self.heads += range(first, first + count)
        self.correlations = [
            first + 2 for first, count in zip(firsts, model.heads, strict=True) if count == 3
        ]
        self.normal = [place for place in range(model.size) if place not in self.heads]

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Heads (n, H): sigma exponential(1), half-t sds, uniform correlations."""
        columns = [
            np.arctanh(rng.uniform(-1.0, 1.0, n))
            if place in self.correlations
            else np.log(
                rng.exponential(size=n) if place == self.d else SD * np.abs(rng.standard_t(FREEDOM, n))
            )
            for place in self.heads
        ]
        return np.stack(columns, axis=-1)

    def points(self, heads: np.ndarray) -> np.ndarray:
        """(S, P) with these heads (S, H), 0 elsewhere."""
        at = np.zeros((len(heads), self.model.size))
        at[:, self.heads] = heads
        return at

    def design(self, at: np.ndarray) -> np.ndarray:
        """A (S, N, n) of standard normal numbers, as Model.effects makes effects of z."""
        model = self.model
        parts = [np.broadcast_to(model.x * model.sd, (len(at), *model.x.shape))]
        for k, (term, ones) in enumerate(zip(model.terms, model.ones, strict=True)):
            sds, rho, _, _ = model.effects(at, k)
            first, second = sds[:, 0, None, None] * ones, None
            if term.column is not None:
                slope = sds[:, 1, None, None] * (ones * term.column[:, None])
                first = first + rho[:, None, None] * slope
                second = np.sqrt(1.0 - rho**2)[:, None, None] * slope
            parts += [first] if second is None else [first, second]
        return np.concatenate(parts, axis=2)

    def _solved(self, at: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, V⁻¹ times what is left (S, N), and the log determinants of V (S,)."""
        design = self.design(at)
        whole = design @ design.transpose(0, 2, 1)
        whole += np.exp(2.0 * at[:, self.d, None, None]) * np.eye(whole.shape[1])
        return design, np.linalg.solve(whole, left[..., None])[..., 0], np.linalg.slogdet(whole)[1]

    def log_likelihood(self, heads: np.ndarray) -> np.ndarray:
        """(S,) of heads (S, H)."""
        at = self.points(heads)
        y = np.broadcast_to(self.model.y, (len(at), len(self.model.y)))
        _, solved, log_det = self._solved(at, y)
        return -0.5 * (log_det + (solved * y).sum(axis=1))

    def complete(self, heads: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points (S, P), coefficients and z drawn: a draw of the prior, moved by what its target lacks."""
        at = self.points(heads)
        w = rng.standard_normal((len(at), len(self.normal)))
        noise = np.exp(at[:, self.d, None]) * rng.standard_normal((len(at), len(self.model.y)))
        design = self.design(at)
        left = self.model.y - np.einsum("snk,sk->sn", design, w) - noise
        w += np.einsum("snk,sn->sk", design, self._solved(at, left)[1])
        at[:, self.normal] = w
        at[:, : self.d] *= self.model.sd
        return at


def settled(model: Model, unsettled: Callable[[np.ndarray], str], seed: int = 0) -> np.ndarray:
    """Draws (C, T, P) of so many of the prior that `unsettled` says nothing, or _MOST, C parts alone."""
    rng, prior = np.random.default_rng(seed), _Prior(model)
    heads, log_w = np.empty((CHAINS, 0, len(prior.heads))), np.empty((CHAINS, 0))
    while True:
        more = prior.draw(rng, CHAINS * max(heads.shape[1], _FIRST))
        values = [prior.log_likelihood(more[k : k + _TOGETHER]) for k in range(0, len(more), _TOGETHER)]
        heads = np.concatenate([heads, more.reshape(CHAINS, -1, heads.shape[2])], axis=1)
        log_w = np.concatenate([log_w, np.concatenate(values).reshape(CHAINS, -1)], axis=1)
        weights = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        shares = weights / weights.sum(axis=1, keepdims=True)
        effective = 1.0 / (shares**2).sum(axis=1).max()
        pairs = zip(heads, shares, strict=True)
        x = np.stack([prior.complete(each[rng.choice(len(each), _KEPT, p=p)], rng) for each, p in pairs])
        if (effective >= _EFFECTIVE and not unsettled(x)) or heads.shape[1] >= _MOST:
            return x
