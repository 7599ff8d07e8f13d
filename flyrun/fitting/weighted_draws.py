"""Exact weighted draws of a posterior: a Gaussian or t about its mode, weights, and what certifies them.

Part of the draws always come from a wider distribution (proposal.py). Where draws × rows are few a weight
reads all rows, and the wide part is a heavier t. Elsewhere it reads few, drawn for it: Π(1 + r_j/(λ p_j))
over K ~ Poisson(λ) rows has the mean exp Σ r_n, r_n what a row's log likelihood is beyond its second order
about the mode (Wagner 1988).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from flyrun.fitting import (
    alone,
    gaussian_noise,
    hmc_check,
    mode,
    other_modes,
    ridges,
    row_remainders,
    weight_tails,
)
from flyrun.fitting.proposal import WIDE, Mixture, Several, freedom
from flyrun.fitting.rows_posterior import Expansion, Posterior
from flyrun.ground.diagnostics.psis import EVEN, HEAVY

DRAWS = 4_000  # wanted near the mode; a quarter as many more come from the wide part
ENOUGH = 400  # effective draws from which weights are trusted
WANTED = 1_000  # effective draws that rounds aim at
ALL_DRAWS = int(DRAWS / (1.0 - WIDE))
_ROUNDS = 8
_MOVES, _MOVED = 3, 0.6  # rounds that move a proposal of few rows at most; effective a draw from which it is
_ALL_ROWS = 40_000_000  # draws × rows up to which a weight reads all rows
_AT_MOST = 400_000_000  # the same where few rows a draw do not serve
_MOST_PICKED = 50_000_000  # draws × rows that are drawn for them, which lie in memory together
_DEARER = 30  # times what a row costs that is read in its turn, of one that is drawn
_MOST_DRAWS = 20_000  # of a round, where rows are few
_LEAST_RATE, _PER_KAPPA = 20.0, 4.0  # λ = max(20, 4κ²) rows a draw
_APART = 0.2  # κ beyond which the part of auxiliary numbers alone stays in rows, where it cancels others
_FARTHEST = 64.0  # times λ, of a draw far out
# Below so many rows a parameter draws are held against HMC; more of them where the posterior may have ridges,
# for it is not log-concave, and where outliers count little.
_FEW, _FEW_WITH_RIDGES, _FEW_WITH_OUTLIERS = 20, 40, 200
# So few rows allow many draws: they see regions of little mass that fewer miss while weights look even.
_DOUBTFUL, _MOST_IN_DOUBT = 10_000_000, 200_000
_MOST_ROUNDS, _PARTED = 4, 4  # rounds of one proposal, then of several parts
_A_NUMBER = (
    2_000  # draws of a round for each number, once they are trusted: the farthest of many is to be known
)
# From such a k̂ or relative error of a variance on draws are made anew by parts; from the last on refused.
_HEAVIER, _UNSURE, _UNKNOWN = 0.5, 0.03, 0.06
_PROBES, _MISSED = 20, 0.25  # points about a place far out, and the share that would weigh more than any draw
_WEIGHTLESS = 700.0  # nats below the largest weight, from where on there is none
_DIGITS = 1e-3  # nats that a log density is rounded to, from which on its weights say nothing
_NEGATIVE = 1e-3  # share of all weight that may be negative: even draws cannot have it


@dataclass(frozen=True)
class Weighted:
    """Draws x (S, P) with log weights (S,), and how they came about.

    sign: −1 where few rows gave a negative weight. rate: rows a draw on average. kappa: of few rows, Σ of the
    remainders' sds. why: why they are not to be trusted; "" where they are. independent: of the posterior
    itself, so that all weights are the same. modes: where several were found. unchecked: why a check
    that these draws call for was not made, "" where all were. parts: what they come from, where several.
    """

    x: np.ndarray
    log_weight: np.ndarray
    sign: np.ndarray
    k_hat: float
    rounds: int
    proposal: Mixture
    rate: float
    kappa: float = 0.0
    why: str = ""
    independent: bool = False
    modes: Several | None = None
    unchecked: str = ""
    parts: Several | None = None

    @staticmethod
    def of_independent(x: np.ndarray) -> "Weighted":
        """Of draws of the posterior itself, (S, P)."""
        proposal, nothing = Mixture.of(x.mean(axis=0), np.cov(x.T)), np.zeros(len(x))
        return Weighted(x, nothing, nothing + 1.0, -math.inf, 1, proposal, 0.0, independent=True)

    @staticmethod
    def of_modes(several: Several) -> "Weighted":
        """No draws, where several modes refuse all about one of them."""
        even = np.zeros(len(several.parts))
        why = f"the posterior has {len(several.parts)} modes or more"
        return Weighted(
            several.centres, even, even + 1.0, math.inf, 0, several.parts[0], 0.0, why=why, modes=several
        )

    @property
    def weights(self) -> np.ndarray:
        """Of sum 1, (S,)."""
        w = self.sign * np.exp(self.log_weight - self.log_weight.max())
        return w / w.sum()

    @property
    def effective(self) -> float:
        """Effective draws, (Σw)²/Σw²."""
        return float(1.0 / (self.weights**2).sum())

    @property
    def source(self) -> Mixture | Several:
        """What the draws come from."""
        return self.parts or self.proposal

    def log_density(self, which: np.ndarray) -> np.ndarray:
        """Of the posterior at these of the draws, (M,), whose weights are above 0 and have read all rows."""
        return self.log_weight[which] + self.source.log_density(self.x[which])

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (P,) and covariance (P, P)."""
        w = self.weights
        centre = w @ self.x
        away = self.x - centre
        return centre, (away * w[:, None]).T @ away

    @property
    def error(self) -> float:
        """The largest relative standard error of a variance."""
        errors = weight_tails.errors_of_variances(self.x, self.weights)
        return float(np.nan_to_num(errors, nan=math.inf).max())


def never() -> bool:
    """The time is not up: where none was set."""
    return False


def fit(posterior: Posterior, seed: int = 0, spent: Callable[[], bool] = never) -> Weighted:
    """Weighted draws of a posterior; `why` says what speaks against them. spent: whether the time is up."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):  # draws far out, whose density is 0
        return _fit(posterior, rng, spent)


def _fit(posterior: Posterior, rng: np.random.Generator, spent: Callable[[], bool]) -> Weighted:
    if posterior.family.by_sums:
        return Weighted.of_independent(gaussian_noise.draw(posterior, rng, DRAWS))
    at, likelihood = mode.find(posterior)
    shape = mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)
    share, missed = np.zeros(1), ""
    if posterior.family.outliers:
        gaussian_noise.refuse_unbounded(posterior, at)
        share = other_modes.leverage(posterior)
        several = other_modes.several(posterior, at, shape, share, rng, spent)
        if len(several.parts) > 1:
            return Weighted.of_modes(several)
        missed = "the search for further modes did not end within the --budget" if spent() else ""
    doubtful = in_doubt(posterior, share)
    if ALL_DRAWS * len(posterior.rows) <= _ALL_ROWS:
        drawn = about_mode(posterior, at, shape, rng, doubtful, spent)
        if doubtful:
            far = ridges.along(posterior, at, shape, spent)
            drawn = by_parts(posterior, drawn, rng, far, spent)
        if doubtful and not drawn.why:
            unseen = functools.partial(_unseen, posterior, drawn)
            why, unchecked = hmc_check.differs(posterior, *drawn.moments(), rng, spent, unseen)
            drawn = replace(drawn, why=why, unchecked=unchecked)
    else:
        # no heavy tail: far from the mode the variance of what few rows say would dominate the weights
        plain = Mixture.of(at, shape, 0.0, 0.0)
        everything = ALL_DRAWS * len(posterior.rows)
        most = everything // _DEARER if everything <= _AT_MOST else _MOST_PICKED
        drawn = by_few_rows(posterior, plain, likelihood, rng, ALL_DRAWS, min(most, _MOST_PICKED), spent)
        if drawn.why and everything <= _AT_MOST:
            drawn = by_all_rows(posterior, Mixture.of(at, shape), rng, ALL_DRAWS, spent=spent)
    return replace(drawn, unchecked=drawn.unchecked or missed)


def by_all_rows(
    posterior: Posterior,
    proposal: Mixture,
    rng: np.random.Generator,
    draws: int,
    rounds: int = 0,
    wanted: int = WANTED,
    spent: Callable[[], bool] = never,
) -> Weighted:
    """Rounds of draws, each about the weighted moments of the one before, or of more by a grid, until so many
    are effective or the time is spent.

    Where the last is not to be trusted the best may be: few draws know the moments of many numbers badly.
    """
    rounds = rounds or _ROUNDS
    trusted: list[Weighted] = []
    most = max(draws, min(_MOST_DRAWS, _ALL_ROWS // len(posterior.rows)))
    for number in range(1, rounds + 1):
        x, _ = proposal.draw(rng, draws)
        weighted = _weighed(posterior, x, proposal.log_density(x), number - 1, proposal)
        if weighted.why:
            return weighted
        if weighted.k_hat <= HEAVY and weighted.effective >= wanted:
            break
        if not doubts(weighted):
            trusted.append(weighted)
        if spent():
            break
        if number < rounds:
            still = not isinstance(proposal, Mixture)  # of a grid, whose tails moments do not tell
            proposal = proposal if still else _moved(weighted)
            draws = min(most, 2 * draws) if number > 1 or still else draws
    if doubts(weighted) and trusted:
        return max(trusted, key=lambda drawn: drawn.effective)
    return replace(weighted, why=doubts(weighted))


def _weighed(
    posterior: Posterior, x: np.ndarray, log_q: np.ndarray, before: int, proposal: Mixture
) -> Weighted:
    """Draws x (S, P) of log density log_q (S,), with their weights; `why` is that these have no digits."""
    log_density, rows = posterior.log_density(x), float(len(posterior.rows))
    log_weight = log_density - log_q
    k_hat, even = weight_tails.shape(log_weight), np.ones(len(x))
    # where there is no weight, a number far out may be infinite on its own scale, and 0 · ∞ spoils a mean
    x = np.where((log_weight > log_weight.max() - _WEIGHTLESS)[:, None], x, x[log_weight.argmax()])
    weighted = Weighted(x, log_weight, even, k_hat, before + 1, proposal, rows)
    if np.spacing(abs(log_density.max())) > _DIGITS:  # weights are alike for want of digits
        return replace(weighted, why="log densities are so large that they have no digits left")
    return weighted


def _unseen(posterior: Posterior, drawn: Weighted, x: np.ndarray) -> np.ndarray:
    """Which of points x (S, P) would weigh more than any draw, (S,)."""
    log_weight = posterior.log_density(x) - drawn.source.log_density(x)
    return np.asarray(log_weight > drawn.log_weight.max())


def by_parts(
    posterior: Posterior,
    weighted: Weighted,
    rng: np.random.Generator,
    far: tuple[Mixture, ...] = (),
    spent: Callable[[], bool] = never,
) -> Weighted:
    """As many draws about parts of those before, round by round, where weights tell a variance badly.

    One t follows no ridge that bends, nor a tail to one side (Cappé et al. 2004). far: about points that
    should have draws, as of ridges.py; those about which points would weigh more than draws do are parts.
    """
    rounds, reached, by_chance = [weighted], np.zeros(len(far), bool), np.random.default_rng(0)
    there = np.concatenate([weighted.x[:0], *(part.draw(by_chance, _PROBES)[0] for part in far)])
    while len(rounds) <= _PARTED and not spent():
        last = rounds[-1]
        missed = reached
        if far:
            missed = _unseen(posterior, last, there).reshape(len(far), -1).mean(axis=1) > _MISSED
        if last.k_hat <= _HEAVIER and last.error <= _UNSURE and not missed.any():
            break
        reached = reached | missed
        others = [weighted.proposal, *(far[k] for k in np.flatnonzero(reached))]
        parts = Several.of_draws(last.x, _speaking(last), others, rng)
        wanted = _A_NUMBER * posterior.size * (not doubts(last))
        x = parts.draw(rng, max(len(last.x), min(wanted, 2 * len(last.x))))
        drawn = _weighed(posterior, x, parts.log_density(x), last.rounds, last.proposal)
        rounds.append(replace(drawn, parts=parts))
        if rounds[-1].why:
            return rounds[-1]
    best = min(rounds[1:] or rounds, key=lambda drawn: (bool(doubts(drawn)), drawn.error))
    why = doubts(best)
    if not why and not best.error <= _UNKNOWN:
        why = f"they tell a variance to {100 * best.error:.2g} % ({100 * _UNKNOWN:g} % is asked for)"
    return replace(best, why=why)


def about_mode(
    posterior: Posterior,
    at: np.ndarray,
    shape: np.ndarray,
    rng: np.random.Generator,
    doubtful: bool,
    spent: Callable[[], bool] = never,
) -> Weighted:
    """Draws about the mode (P,), shape (P, P); weights read all rows. doubtful: rounds move the proposal."""
    rows, size, draws = len(posterior.rows), posterior.size, ALL_DRAWS
    proposal, before = Mixture.of(at, shape, freedom(size, _observations(posterior))), 0
    if doubtful:
        weighted = by_all_rows(posterior, proposal, rng, draws, _MOVES, int(_MOVED * draws), spent)
        proposal, before = _moved(weighted), weighted.rounds
        draws = max(draws, min(_DOUBTFUL // rows, _DOUBTFUL // size, _MOST_IN_DOUBT))
    weighted = by_all_rows(posterior, proposal, rng, draws, _MOST_ROUNDS * doubtful, spent=spent)
    return replace(weighted, rounds=weighted.rounds + before)


def _observations(posterior: Posterior) -> float:
    """Rows as often as they are there: two of a kind say as much as one of weight two."""
    return float(posterior.rows.whole("weights").sum())


def in_doubt(posterior: Posterior, share: np.ndarray) -> bool:
    """Whether observations are so few that weights alone do not tell whether draws missed a region.

    Where outliers count little, too few may be those that tell of one column, or of one way between columns.
    share: the leverage of each row, (N,).
    """
    outliers, of_one_mode = posterior.family.outliers, posterior.family.one_mode
    few = _FEW_WITH_OUTLIERS if outliers else _FEW if of_one_mode else _FEW_WITH_RIDGES
    if _observations(posterior) < few * posterior.size:
        return True
    return outliers and bool(share.max() > 1.0 / _FEW)


def doubts(weighted: Weighted) -> str:
    """Why weights are not to be trusted; "" where they are."""
    if not weighted.k_hat <= HEAVY and not weighted.weights.max() * len(weighted.x) <= EVEN:
        return f"the weights' tail is heavy (Pareto k̂ {weighted.k_hat:.2f}, at most {HEAVY:g} is asked for)"
    if not weighted.effective >= ENOUGH:
        return f"only {weighted.effective:,.0f} of {len(weighted.x):,} weighted draws are effective"
    if (negative := -weighted.weights[weighted.sign < 0].sum()) > _NEGATIVE:
        return f"few rows a draw gave negative weights ({100 * negative:.2g} % of all)"
    return ""


def _speaking(weighted: Weighted) -> np.ndarray:
    """Weights of sum 1, (S,); where one draw holds all, flattened until several speak for each number."""
    tempered, least = weighted.log_weight, 5 * weighted.x.shape[1]
    for _ in range(60):
        w = np.exp(tempered - logsumexp(tempered))
        if 1.0 / (w**2).sum() >= least:
            break
        tempered = tempered * 0.8
    return w


def _moved(weighted: Weighted) -> Mixture:
    """The proposal about the weighted moments, so far as effective draws know them: P² a covariance."""
    size, w = weighted.x.shape[1], _speaking(weighted)
    share = min(1.0, 1.0 / (w**2).sum() / max(10.0 * size, size**2))
    centre = w @ weighted.x
    away = weighted.x - centre
    before = weighted.proposal
    shape = share * ((away * w[:, None]).T @ away) + (1.0 - share) * (before.root @ before.root.T)
    centre = before.centre + share * (centre - before.centre)
    return Mixture.of(centre, shape, before.freedom, before.wide_freedom, tails=before.tails)


def by_few_rows(
    posterior: Posterior,
    proposal: Mixture,
    likelihood: Expansion,
    rng: np.random.Generator,
    draws: int,
    most: float = math.inf,
    spent: Callable[[], bool] = never,
) -> Weighted:
    """Draws whose weights read few rows each. likelihood: to second order near the proposal's centre.

    `why` is also that draws × rows exceed `most`, or that the time is spent.
    """
    noise, (x, wide) = row_remainders.probes(proposal, rng), proposal.draw(rng, draws)
    apart = alone.beyond(posterior, likelihood.at, x)
    share, kappa = row_remainders.shares(posterior, likelihood, noise, apart is None)
    if apart is not None and kappa > _APART:
        apart, (share, kappa) = None, row_remainders.shares(posterior, likelihood, noise, True)
    cumulative = np.cumsum(share)
    rate = max(_LEAST_RATE, _PER_KAPPA * kappa**2)
    far = np.clip(proposal.square(x) / len(proposal.centre), 1.0, None) ** 1.5
    rates = rate * np.minimum(far, _FARTHEST)
    known = likelihood.value + likelihood.change(x) + posterior.log_prior(x) - proposal.log_density(x)
    known = known if apart is None else known + apart
    sign = np.ones(draws)
    refused = Weighted(x, known, sign, math.inf, 1, proposal, float(rates.mean()), kappa)
    if rates.sum() > most:
        return replace(refused, why=f"weights by few rows would read {rates.mean():,.0f} of them a draw")
    count = rng.poisson(rates)
    which = np.repeat(np.arange(draws), count)
    spots = rng.random(count.sum()) * cumulative[-1]
    order = np.argsort(spots)  # neighbours are found in a core's cache: four times as fast
    picked = np.empty(len(spots), np.int64)
    picked[order] = np.minimum(np.searchsorted(cumulative, spots[order]), len(cumulative) - 1)
    left = np.empty(len(picked))
    step = 1 << 15
    for first in range(0, len(picked), step):
        if spent():
            return replace(refused, why="the --budget ended before all weights were known")
        part = slice(first, first + step)
        left[part] = row_remainders.remainders(
            posterior, likelihood.at, picked[part], x[which[part]], apart is None
        )
    term = left / (rates[which] * share[picked])
    factor = 1.0 + term
    with np.errstate(divide="ignore"):
        total = np.bincount(which, np.log(np.abs(factor)), minlength=draws)
    sign -= 2.0 * (np.bincount(which, factor < 0.0, minlength=draws) % 2)
    log_weight = known + total
    half = rng.random(len(picked)) < 0.5
    sums = [known + 2.0 * np.bincount(which[kept], term[kept], minlength=draws) for kept in (half, ~half)]
    k_hat = weight_tails.shape_by_halves(sums, wide)
    weighted = replace(refused, log_weight=log_weight, sign=sign, k_hat=k_hat, rate=float(count.mean()))
    return replace(weighted, why=doubts(weighted))
