"""What is done with a scan's sums and rows, without the files: draws, and weights that make them exact.

log posterior = log prior + Σ of the core + Σ of the others' second order + R. The first three are the
*surrogate*, sampled as it is; exp R of each draw is estimated without bias from rows of its own: with these
dealt to draws at random, draw i has a Poisson sample of intensity h_i·Λ, and Π(1 + (r − c)/(h_i Λ)) has the
mean exp Σ(r − c), c any constant of the row (Wagner 1988).
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from flyrun.families.family import Family
from flyrun.families.prior_densities import Prior
from flyrun.fitting import gaussian_noise, hmc_on_rows, mode, other_modes
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.priors import Typed
from flyrun.fitting.proposal import Mixture
from flyrun.fitting.rows_posterior import Expansion, Posterior
from flyrun.fitting.scan.block_sums import Sums, Travelled
from flyrun.fitting.scan.encoded_rows import Form
from flyrun.fitting.table_rows import Rows
from flyrun.fitting.weight_tails import shape_by_halves
from flyrun.fitting.weighted_draws import Weighted, doubts
from flyrun.ground.diagnostics import ess

DRAWS = 10_000
_BY_CHAINS = 4_000  # where the surrogate is not Gaussian
_MOST_BY_CHAINS = 64_000
_LOOKED_AT = 64  # draws that tell each row's mean remainder
_CERTIFIED, _TAIL = 1_000, 256  # draws by which halves of the rows are compared; fewer tell no tail
_NUMBERS = 20_000_000  # rows × draws of that
MOST_VARIANCE = 1.0  # of log weights, by halves of the rows
_AT_ONCE = 1 << 21  # numbers of rows and their draws at a time


class Model(NamedTuple):
    """What of a posterior is no rows, in one layout's units. slopes: as of Posterior; form: of its rows;
    of_groups: priors that are typed of effects' distribution."""

    family: Family
    levels: int
    prior: CoefficientPrior
    slopes: tuple[tuple[Prior, ...], ...]
    form: Form
    of_groups: Mapping[str, Typed] = MappingProxyType({})

    def posterior(self, rows: Rows) -> Posterior:
        """Of these rows alone."""
        return Posterior(self.family, rows, self.prior, self.levels, slopes=self.slopes)

    def surrogate(self, rows: Rows, summed: Expansion) -> "Surrogate":
        """Of these rows, and others of which this is known."""
        known = self.family, rows, self.prior, self.levels
        return Surrogate(*known, slopes=self.slopes, summed=summed, form=self.form)

    def of_no_rows(self, width: int) -> "Surrogate":
        """Of no rows of so many columns, under normal noise."""
        return self.surrogate(Rows(np.empty((0, width)), np.empty(0)), nothing(width + 1))

    def of_core(self, core: Travelled, summed: Expansion, share: float = 1.0) -> "Surrogate":
        """Of sums and the core's rows, unpacked; share: what these are of all rows."""
        rows = self.form.rows(core.x, core.y, core.beside.T)
        return self.surrogate(replace(rows, weights=rows.weights / share), summed)


@dataclass
class Surrogate(Posterior):
    """Prior, rows of the core, and a second order for all others, or sums that normal noise needs alone.

    summed: about the last centre.
    """

    summed: Expansion | None = None
    sums: gaussian_noise.Sums | None = None
    form: Form = field(kw_only=True)

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P)."""
        if self.sums is not None:
            return gaussian_noise.log_likelihood(self.sums, self, x)
        return super().log_likelihood(x) + self._summed.change(x)

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (S,) and its slope (S, P) at x (S, P)."""
        value, slope = super().value_and_slope(x)
        summed = self._summed
        return value + summed.change(x), slope + summed.slope - (x - summed.at) @ summed.curvature

    def likelihood_at(self, x: np.ndarray) -> Expansion:
        """To second order about x, (P,)."""
        kept, summed = super().likelihood_at(x), self._summed
        value = kept.value + float(summed.change(x[None])[0])
        slope = kept.slope + summed.slope - summed.curvature @ (x - summed.at)
        return Expansion(x, value, slope, kept.curvature + summed.curvature)

    def start(self) -> np.ndarray:
        """The centre, (P,)."""
        return self._summed.at

    @property
    def _summed(self) -> Expansion:
        assert self.summed is not None
        return self.summed

    @property
    def gaussian(self) -> bool:
        """Whether it is a Gaussian, as without a core and with normal priors alone."""
        normal = self.prior.kind == "gaussian" and not self.prior.others
        return not len(self.rows) and not self.auxiliary and normal


def nothing(size: int) -> Expansion:
    """Of no rows, in so many numbers."""
    return Expansion(np.zeros(size), 0.0, np.zeros(size), np.zeros((size, size)))


def together(centres: list[np.ndarray], sums: list[Sums], share: float = 1.0) -> Expansion:
    """The second order of stages' rows about the last centre, (P,) each; share: what they are of all rows."""
    last = centres[-1]
    slope = sum(part.slope - part.curvature @ (last - at) for at, part in zip(centres, sums, strict=True))
    curvature = sum(part.curvature for part in sums)
    return Expansion(last, 0.0, np.asarray(slope) / share, np.asarray(curvature) / share)


@dataclass(frozen=True)
class Units:
    """From coefficients of columns as a pilot scaled them, x, to those of other means and sds, x'.

    x = turn·x' + shift; mix (D, D): features are x' rows times it; target_sd, target_mean: y = sd·y' + mean.
    entry: which of the columns beside the features is on the target's scale, if any.
    """

    turn: np.ndarray
    shift: np.ndarray
    mix: np.ndarray
    target_sd: float
    target_mean: float
    entry: int | None

    @staticmethod
    def of(post: Surrogate, ratio: np.ndarray, away: np.ndarray, target: tuple[float, float]) -> "Units":
        """ratio, away: (D,) of columns x = ratio·x' + away, without the ones; target: the same, of y."""
        mix = np.diag(np.append(ratio, 1.0)) if post.family.intercept else np.diag(ratio)
        if post.family.intercept:
            mix[-1, : len(ratio)] = away
        sd, mean = target
        turn, shift = np.eye(post.size), np.zeros(post.size)
        for k, which in enumerate(post.form.of_predictors(post)):
            place, linear = post.places[k], k < post.linear
            if which is not None:
                back = np.linalg.inv(mix[which][:, which])
                turn[place, place] = (sd if linear else 1.0) * back
                if linear and post.family.intercept:
                    shift[place] = back[:, -1] * mean
        if sd != 1.0 and post.family.of_noise:
            shift[gaussian_noise.place_of(post)] = math.log(sd)  # the first auxiliary number is the noise's
        entry = post.form.parts.index("entry") if "entry" in post.form.parts else None
        return Units(turn, shift, mix, sd, mean, entry)

    def centre(self, at: np.ndarray) -> np.ndarray:
        """A point (P,) in the other units."""
        return np.linalg.solve(self.turn, at - self.shift)

    def back(self, x: np.ndarray) -> np.ndarray:
        """Points (S, P) in the pilot's units."""
        return x @ self.turn.T + self.shift

    def products(self, gram: np.ndarray) -> np.ndarray:
        """Σ of products of features and target, (D + 1, D + 1), of features and target in the other units."""
        turn = self.columns(len(gram))
        return turn.T @ gram @ turn

    def columns(self, width: int) -> np.ndarray:
        """What rows of features and target, so many numbers, are multiplied by, (D + 1, D + 1)."""
        turn = np.zeros((width, width))
        turn[:-1, :-1] = np.linalg.inv(self.mix)
        turn[-1, -1] = 1.0 / self.target_sd
        turn[-2, -1] = -self.target_mean / self.target_sd
        return turn

    def expansion(self, expansion: Expansion) -> Expansion:
        """The same function of the other coefficients."""
        slope, curvature = self.turn.T @ expansion.slope, self.turn.T @ expansion.curvature @ self.turn
        return Expansion(self.centre(expansion.at), expansion.value, slope, curvature)

    def rows(self, core: Travelled) -> Travelled:
        """The same rows, unpacked, in the other units."""
        y, beside = (core.y - self.target_mean) / self.target_sd, core.beside.copy()
        if self.entry is not None:
            beside[:, self.entry] = (beside[:, self.entry] - self.target_mean) / self.target_sd
        return core._replace(x=core.x @ np.linalg.inv(self.mix), y=y, beside=beside)


class Remainders:
    """r of some travelled rows, unpacked, beyond what was summed of them, all in the pilot's units. centres:
    (stages, P).
    """

    def __init__(self, posterior: Surrogate, rows: Travelled, centres: np.ndarray):
        """Evaluate each row at its stage's centre, of (stages, P)."""
        self.rows, self._posterior = rows, posterior
        self._whole = posterior.form.rows(rows.x, rows.y, rows.beside.T)
        self._centre = self._at_own(np.arange(len(rows.y)), centres[rows.stage])
        self._value = posterior.of_rows(self._rows(slice(None)), self._centre)

    def of(self, index: np.ndarray, x: np.ndarray, who: np.ndarray) -> np.ndarray:
        """r, (m,), of rows (m,) at x[who], (m, P)."""
        many = max(1, _AT_ONCE // x.shape[1])
        parts = [slice(first, first + many) for first in range(0, len(index), many)]
        left = [self._left(index[part], self._at_own(index[part], x[who[part]])) for part in parts]
        return np.concatenate([np.empty(0), *left])

    def table(self, x: np.ndarray) -> np.ndarray:
        """(n, S) of all rows at all of x (S, P)."""
        return self._left(np.arange(len(self.rows.y)), self._posterior.predictors(self._whole, x))

    def _at_own(self, index: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        """K predictors (m,) of rows at points of their own, x (m, P)."""
        return self._posterior.predictors_each(self._whole.take(index), x)

    def _rows(self, index: slice | np.ndarray, down: tuple[slice | None, ...] = ()) -> Rows:
        """Some of them, by a slice or (m,), without features; down: how their numbers are to stand."""
        whole = self._whole
        each = (whole.target, whole.trials, whole.offset, whole.weights)
        y, trials, offset, weights = (value[index][down] if np.ndim(value) else value for value in each)
        return Rows(whole.features[:0], y, trials, offset, weights)

    def _left(self, index: np.ndarray, p: list[np.ndarray]) -> np.ndarray:
        """r of rows at K predictors, (m,) or (m, S)."""
        down = (slice(None), *([None] * (p[0].ndim - 1)))
        left = self._posterior.of_rows(self._rows(index, down), p)
        left -= self._value[index][down]
        away = [there - here[index][down] for there, here in zip(p, self._centre, strict=True)]
        slopes, curvatures, i = self.rows.slopes[index], self.rows.bends[index], 0
        for j, step in enumerate(away):
            left -= slopes[:, j][down] * step
            for k in range(j, len(away)):
                left += (0.5 if j == k else 1.0) * curvatures[:, i][down] * step * away[k]
                i += 1
        return left


@dataclass(frozen=True)
class Answer:
    """Weighted draws of a scan. planned: ESS a draw from the rows alone; variance: of log posterior −
    log surrogate, by halves of the rows; core, travelled: rows; nbytes: of these.
    """

    found: Weighted
    planned: float
    variance: float
    core: int
    travelled: int
    nbytes: int


def draw(
    post: Surrogate, units: Units, sums: Sums, centres: list[np.ndarray], seed: int, draws: int
) -> Answer:
    """Draws of the surrogate, weighted by rows that travelled. centres: (P,) by stage, in the pilot's units;
    draws: how many, of chains the same part of all.
    """
    rng = np.random.default_rng([seed, 1_000_000])
    at, likelihood = mode.find(post)
    shape = mode.covariance(likelihood.curvature + post.prior_at(at).curvature)
    proposal = Mixture.of(at, shape, 0.0, 0.0)
    x, independent = _of_surrogate(post, proposal, rng, draws)
    far = np.maximum(proposal.square(x) / x.shape[1], 1.0) ** 0.5
    weighed = _weigh(post, sums, np.stack(centres), units.back(x), far / far.sum(), rng)
    log_weight, sign, planned, variance, k_hat, drawn = weighed
    weighted = Weighted(x, log_weight, sign, k_hat, 1, proposal, drawn / len(x), sums.kappa)
    mixing = "" if independent > _BY_CHAINS / 10 else "chains of the surrogate mix badly"
    weighted = replace(weighted, why=doubts(weighted) or mixing)
    nbytes = sum(part.nbytes for part in sums.travelled)
    return Answer(weighted, planned, variance, len(post.rows), drawn, nbytes)


def by_chains(post: Surrogate, seed: int) -> Answer:
    """Draws of a surrogate that is the posterior itself, as where all rows are in it."""
    rng = np.random.default_rng([seed, 1_000_000])
    at, likelihood = mode.find(post)
    proposal = Mixture.of(at, mode.covariance(likelihood.curvature + post.prior_at(at).curvature), 0.0, 0.0)
    x, independent = _of_surrogate(post, proposal, rng, DRAWS)
    weighted = Weighted(x, np.zeros(len(x)), np.ones(len(x)), -math.inf, 1, proposal, 0.0)
    return Answer(
        replace(weighted, why="" if independent > _BY_CHAINS / 10 else "chains mix badly"),
        1.0,
        0.0,
        len(post.rows),
        0,
        0,
    )


def _of_surrogate(
    post: Surrogate, proposal: Mixture, rng: np.random.Generator, draws: int
) -> tuple[np.ndarray, float]:
    """Draws (S, P), in random order, and how many independent ones they are worth."""
    if post.gaussian:
        noise = rng.standard_normal((draws, post.size))
        return proposal.centre + noise @ proposal.root.T, float(draws)
    centres, several = proposal.centre[None], None
    if post.family.outliers and len(post.rows):
        gaussian_noise.refuse_unbounded(post, proposal.centre)
        shape = proposal.root @ proposal.root.T
        several = other_modes.several(post, proposal.centre, shape, other_modes.leverage(post), rng)
        centres = several.centres
    count = max(hmc_on_rows.CHAINS, len(centres))
    jumps = several if len(centres) > 1 else None
    chains = hmc_on_rows.Sampler(post, centres, proposal.root, rng, count, several=jumps)
    x, each = np.empty((count, 0, post.size)), _BY_CHAINS // count
    while True:
        x = np.concatenate([x, chains.draw(each)], axis=1)
        summary = ess.summary(x, wanted=("bulk", "square", "rhat"))
        worth = float(min(summary.bulk.min(), summary.square.min()))
        if (worth >= _BY_CHAINS / 2 and summary.rhat.max() < 1.01) or x[..., 0].size >= _MOST_BY_CHAINS:
            break
        each = x.shape[1]
    flat = x.reshape(-1, post.size)
    kept = rng.permutation(flat)[: math.ceil(len(flat) * draws / DRAWS)]
    settled = summary.rhat.max() < 1.05 and (jumps is None or jumps.connected(x))
    return kept, worth if settled else 0.0


def _weigh(
    post: Surrogate,
    sums: Sums,
    centres: np.ndarray,
    x: np.ndarray,
    share: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, float, float, float, int]:
    """Log weights and signs (S,), planned ESS a draw, the certificate's variance and k̂, and how many rows.

    x: draws (S, P) in the pilot's units; share: of a row's intensity that each has, (S,). Log weights are 0
    where their variance is more than what draws may be used with.
    """
    draws = len(x)
    sampled = [(part, part.copies > 0) for part in sums.travelled]
    count = np.concatenate([part.copies[mask] for part, mask in sampled]).astype(np.int64)
    intensity = np.concatenate([part.intensity[mask] for part, mask in sampled]).astype(np.float64)
    if not (n := len(count)):
        return np.zeros(draws), np.ones(draws), 1.0, 0.0, -math.inf, 0
    cumulative = np.cumsum(share)
    # draws that rows are dealt to: all come before what follows, but are drawn a block at a time
    dealt = copy.deepcopy(rng)
    rng.bit_generator.advance(int(count.sum()))  # type: ignore[attr-defined]
    # each half of the rows tells R of every draw; their covariance is R's variance without the halves' noise
    first = rng.binomial(count, 0.5)
    by_half = 2.0 * np.stack([first, count - first]) / intensity
    some = x[: max(_TAIL, min(_CERTIFIED, _NUMBERS // n))]
    halves, mean, square, begun = np.zeros((2, len(some))), np.empty(n), np.empty(n), 0
    log_weight, negative = np.zeros((2, draws))
    each = post.family.intercept, max(1, _AT_ONCE // (post.width + len(some)))
    for rows in sums.sampled(*each):
        part = slice(begun, begun := begun + len(rows.y))
        known = Remainders(post, rows, centres).table(some)
        looked = known[:, :_LOOKED_AT]
        mean[part], square[part] = looked.mean(axis=1), looked.var(axis=1, ddof=1)
        halves += by_half[:, part] @ (known - mean[part, None])
    planned = 1.0 / (1.0 + draws * float((count * square / intensity**2).sum()))
    first_half, second_half = (half - half.mean() for half in halves)
    variance = float(np.mean(first_half * second_half))
    k_hat = shape_by_halves([*halves], np.zeros(len(some), bool))
    begun = 0
    for rows in sums.sampled(*each) if variance < MOST_VARIANCE else ():  # else none is used
        part = slice(begun, begun := begun + len(rows.y))
        index = np.repeat(np.arange(len(rows.y)), count[part])
        who = np.minimum(np.searchsorted(cumulative, dealt.random(len(index))), draws - 1)
        left = Remainders(post, rows, centres).of(index, x, who) - mean[part][index]
        factor = 1.0 + left / (share[who] * rows.intensity[index])
        with np.errstate(divide="ignore"):
            log_weight += np.bincount(who, np.log(np.abs(factor)), minlength=draws)
        negative += np.bincount(who, factor < 0.0, minlength=draws)
    return log_weight, 1.0 - 2.0 * (negative % 2), planned, variance, k_hat, n


def whitened(proposal: Mixture, step: np.ndarray) -> float:
    """How far a step (P,) goes, in posterior sds: its length by the proposal's shape."""
    return float(np.linalg.norm(solve_triangular(proposal.root, step, lower=True)))
