"""Leave-one-out: how well a fit predicts each row from all others (Vehtari, Gelman & Gabry 2017).

PSIS of the draws' own weights, for every row of small tables. For tall ones every row's cavity, one integral
over its predictor, and of a random sample of rows what PSIS says beside it: the estimator of the difference
(Magnusson, Andersen, Jonasson & Vehtari 2020).
"""

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from flyrun.families.censoring import SEEN
from flyrun.fitting import finished
from flyrun.fitting.finished import Finished
from flyrun.fitting.groups import left_out, left_out_terms
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.groups.terms_table import OfTerms
from flyrun.fitting.table_rows import Rows
from flyrun.ground.diagnostics.psis import HEAVY
from flyrun.ground.errors import ConfigError

_ALL_ROWS = 2_000  # up to which every row is smoothed
_SAMPLED = 1_000  # rows of a taller table that are
_MOST_DRAWS = 4_000
_EVALUATIONS, _FEWEST_DRAWS = 100_000_000, 500  # of groups' rows, at nodes
_NODES = 11
_CAVITY_DRAWS = 100  # of effects, at least, whose predictors' spread is taken
_BLOCK = 1 << 16


_FEW_SE, _LITTLE = 2.0, 4.0  # a smaller difference, in standard errors or nats, says nothing


@dataclass(frozen=True)
class Loo:
    """elpd: the sum over rows of log p(y_i | all others), in nats; se: its standard error over rows.

    subsampling: the error that looking at a sample of rows leaves; 0 where every row was looked at.
    each: (N,), by row, of one copy; copies: (N,), how often it is there. bad: of the rows looked at the
    share whose k̂ is above 0.7. rows: N.
    digest: of the targets, for comparing like with like. logs: (N,), of a fit of log(y) log y;
    log_digest: of log y, by which it is compared with a fit of y. of: whose
    densities they are, where it is not the target's that was explained. by: the column whose groups of rows
    are left out; then each, copies and rows are of groups.
    """

    elpd: float
    se: float
    subsampling: float
    each: np.ndarray
    copies: np.ndarray
    bad: float
    rows: int
    digest: str
    logs: np.ndarray | None = None
    log_digest: str = ""
    of: str = ""
    by: str = ""

    def __str__(self) -> str:
        """In one line."""
        by = f", subsampling ± {self.subsampling:.2g}" if self.subsampling else ""
        what = f"groups of {self.by}" if self.by else "rows"
        worst = f"; k̂ above {HEAVY:g} in {100 * self.bad:.2g} % of {what}" if self.bad else ""
        return f"elpd{self.of} {self.elpd:,.1f} ± {self.se:,.1f}{by}, {self.rows:,} {what}{worst}"

    def of_target(self) -> "Loo":
        """Of a fit of log(y) that of y, whose density is that of log(y) over y."""
        if self.logs is None:
            return self
        each, of = self.each - self.logs, " of y, with Σ log y taken off,"
        whole, se = float(self.copies @ each), _se(each, self.copies)
        return replace(self, elpd=whole, se=se, each=each, digest=self.log_digest, logs=None, of=of)


def loo(fit: Finished, seed: int = 0) -> Loo:
    """The expected log predictive density of a fit, by leaving out one row at a time.

    A row of weight w counts w times, and one copy of it is left out.
    """
    posterior, rng = fit.posterior, np.random.default_rng(seed)
    n = len(posterior.rows)
    x, log_weight = _thinned(fit, rng)
    copies = posterior.rows.whole("weights")
    level = -seen(fit) * math.log(fit.layout.target.sd)  # densities are of the target in its own units
    if n <= _ALL_ROWS:
        each, k_hat = smoothed(fit, np.arange(n), x, log_weight)
        return _told(fit, each + level, copies, 0.0, k_hat)
    cavity = cavities(fit, x, log_weight)
    chosen = rng.choice(n, _SAMPLED, replace=False)
    exact, k_hat = smoothed(fit, chosen, x, log_weight)
    off = copies[chosen] * (exact - cavity[chosen])
    error = n * off.std(ddof=1) / math.sqrt(_SAMPLED) * math.sqrt(1.0 - _SAMPLED / n)
    shifted = cavity + n * off.mean() / copies.sum()
    return _told(fit, shifted + level, copies, error, k_hat)


def seen(fit: Finished) -> np.ndarray:
    """(N,) 1 of rows whose target was seen, 0 of those it was censored of."""
    trials = fit.posterior.rows.trials
    return 1.0 * (trials[:, 0] == SEEN) if np.ndim(trials) > 1 else np.ones(len(fit.posterior.rows))


def by_group(fit: Finished, by: str) -> Loo:
    """The expected log predictive density of a fit by leaving out one group of rows at a time.

    It is of all rows of a new group together, by a fit whose effects were drawn.

    by: a column, or several as in clinic:ward, by which the fit was read. Raises ConfigError for another.
    """
    posterior = fit.posterior
    known = posterior.grouped if isinstance(posterior, OfTerms) else ()
    codes = {name: code for factor, _ in known for name, code in factor.nesting()}
    if other := next((str(factor.bar) for factor, _ in known if factor.bar.of), ""):
        raise ConfigError(
            f"{by}: groups of rows are not left out of fits with effects of further parameters, as {other}; "
            "leave --by out to leave out rows"
        )
    if by not in codes or not isinstance(posterior, OfTerms):
        raise ConfigError(f"{by}: is no group that the fit was read by")
    code = codes[by]
    value = np.stack([*left_out_terms.of_groups(posterior, code, fit.x)])
    each, k_hat = _without(value, fit.log_weight)
    copies = posterior.rows.whole("weights")
    each = each - np.bincount(code, copies * seen(fit)) * math.log(fit.layout.target.sd)
    return replace(_told(fit, each, np.ones(len(each)), 0.0, k_hat, code), by=by)


def _told(
    fit: Finished,
    each: np.ndarray,
    copies: np.ndarray,
    error: float,
    k_hat: np.ndarray,
    groups: np.ndarray | None = None,
) -> Loo:
    """groups: (N,) of each row, where these are left out, and each is of these."""
    if fit.order is not None:
        each, copies = (_in_order(values, fit.order) for values in (each, copies))
    data, layout = fit.dataset, fit.layout
    targets = data.target * layout.target.sd + layout.target.mean  # in the target's own units
    unseen = data.unseen.values()
    beside = [fit.posterior.rows.whole("weights"), groups] if groups is not None else [copies]
    digest = _digest(targets, *beside, *unseen)
    bad = float(np.mean(k_hat > HEAVY))
    made = Loo(float(copies @ each), _se(each, copies), float(error), each, copies, bad, len(each), digest)
    if layout.log_target:
        logs = targets if groups is None else np.bincount(groups, beside[0] * targets)
        return made if unseen else replace(made, logs=logs, log_digest=digest)
    if not layout.domain.classes and not unseen and (targets > 0.0).all():
        return replace(made, log_digest=_digest(np.log(targets), *beside))
    return made


def _digest(targets: np.ndarray, *others: np.ndarray) -> str:
    parts = [targets.astype(np.float32), *others]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def _in_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(N,) by the table's rows, of values by the posterior's."""
    ordered = np.empty_like(values)
    ordered[order] = values
    return ordered


def _thinned(fit: Finished, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """At most so many draws (S, P) and log weights (S,); with groups fewer, a row asks for its group."""
    most = _MOST_DRAWS
    if isinstance(posterior := fit.posterior, GroupedPosterior):
        rows = min(len(posterior.rows), _SAMPLED * len(posterior.rows) // posterior.groups)
        cost = rows * (1 if posterior.family.by_sums else left_out.nodes(posterior) ** posterior.effects)
        most = int(np.clip(_EVALUATIONS // cost, _FEWEST_DRAWS, _MOST_DRAWS))
    elif isinstance(posterior, OfTerms):
        cost = min(len(posterior.rows), _SAMPLED) * left_out_terms.evaluations(posterior)
        most = int(np.clip(_EVALUATIONS // cost, _FEWEST_DRAWS, _MOST_DRAWS))
    if len(fit.x) <= most:
        return fit.x, fit.log_weight
    kept = np.sort(rng.choice(len(fit.x), most, replace=False))
    return fit.x[kept], fit.log_weight[kept]


def pointwise(fit: Finished, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log likelihoods of one copy of each of these rows, (n, S), at x (S, P), given others of its group."""
    posterior = fit.posterior
    if isinstance(posterior, GroupedPosterior):
        return left_out.log_density(posterior, rows, x)
    if isinstance(posterior, OfTerms):
        return left_out_terms.log_density(posterior, rows, x)
    taken = posterior.rows.take(rows)
    values = _values(fit, taken, posterior.predictors(taken, x))
    posterior.queries += values.size
    return values


def smoothed(
    fit: Finished, rows: np.ndarray, x: np.ndarray, log_weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log p(y_i | all others) of these rows and k̂ of each, (n,), by Pareto-smoothed weights."""
    there = np.isfinite(log_weight)
    x, log_weight = x[there], log_weight[there]
    each, k_hat = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, _BLOCK * 64 // len(x))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        each[part], k_hat[part] = _without(pointwise(fit, rows[part], x), log_weight)
    return each, k_hat


def _without(value: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p(what is left out | all else), and k̂, (n,), of its log densities (n, S) at draws."""
    from arviz_stats.base import array_stats  # late: a second

    smooth, k_hat = array_stats.psislw(value - log_weight, axis=-1)  # of minus these
    return logsumexp(smooth + value, axis=1) - logsumexp(smooth, axis=1), k_hat


def cavities(fit: Finished, x: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """About log p(y_i | all others), (N,), by a Gaussian posterior without each row's second order.

    Auxiliary numbers are at their means. With several linear predictors, by the slopes alone.
    """
    posterior = fit.posterior
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    centre = weight @ x
    if isinstance(posterior, GroupedPosterior):  # a group's integral is the larger part of a row's
        return pointwise(fit, np.arange(len(posterior.rows)), centre[None])[:, 0]
    away = (posterior.natural(x) - posterior.natural(centre))[:, : posterior.n_coefficients]
    covariance = (away * weight[:, None]).T @ away
    single = posterior.linear == 1
    nodes, shares = np.polynomial.hermite_e.hermegauss(_NODES)
    logs = np.log(shares / shares.sum())
    log_p = np.empty(len(posterior.rows))
    for block in posterior.blocks(_BLOCK):
        rows = posterior.rows.take(block)
        p = [value[:, 0] if value.ndim > 1 else value for value in posterior.predictors(rows, centre[None])]
        if isinstance(posterior, OfTerms):  # of draws of even weight
            which = np.arange(block.start, block.start + len(rows))
            drawn = left_out_terms.predictors(posterior, which, x[:: max(1, len(x) // _CAVITY_DRAWS)])
            for k in posterior.led:
                p[k] = drawn[k].mean(axis=1)
            off = [drawn[k] - p[k][:, None] for k in range(posterior.linear)]
            spreads = [[(a * b).mean(axis=1) for b in off] for a in off]
        else:
            parts = covariance.reshape(posterior.linear, posterior.width, posterior.linear, posterior.width)
            spreads = [
                [
                    ((rows.features @ parts[j, :, k]) * rows.features).sum(axis=1)
                    for k in range(posterior.linear)
                ]
                for j in range(posterior.linear)
            ]
        with np.errstate(all="ignore"):
            slopes, curvatures = posterior.family.derivatives(rows.target, rows.trials, p)
        if single:
            inner = spreads[0][0] / np.maximum(1.0 - spreads[0][0] * curvatures[0][0], 0.1)
            at = (p[0] - inner * slopes[0])[:, None] + np.sqrt(inner)[:, None] * nodes
            others = [value[:, None] if len(value) == len(at) else value for value in p[1:]]
            log_p[block] = logsumexp(_values(fit, rows, [at, *others]) + logs, axis=1)
        else:
            linear = [eta[:, None] for eta in p[: posterior.linear]]
            value = _values(fit, rows, linear + p[posterior.linear :])[:, 0]
            for j in range(posterior.linear):
                for k in range(posterior.linear):
                    value = value - 0.5 * spreads[j][k] * (slopes[j] * slopes[k] + curvatures[j][k])
            log_p[block] = value
    posterior.queries += log_p.size * _NODES
    return log_p


def _values(fit: Finished, rows: Rows, predictors: list[np.ndarray]) -> np.ndarray:
    """Log likelihoods, (n, m), of rows at linear predictors (n, m)."""
    posterior, family = fit.posterior, fit.posterior.family
    y, trials = (value[:, None] if np.ndim(value) else value for value in (rows.target, rows.trials))
    with np.errstate(all="ignore"):
        log_p = family.log_density(y, trials, predictors)
        log_p = log_p + family.alone(y, trials, predictors[posterior.linear :]) + family.constant(y, trials)
    return np.nan_to_num(log_p, nan=-1e300, neginf=-1e300)


def of_one_target(first: Loo, other: Loo) -> tuple[Loo, Loo]:
    """The two as they are, or where one explains log(y) and the other y of the same rows, both of y."""
    if (first.logs is None) == (other.logs is None) or first.log_digest != other.log_digest:
        return first, other
    first, other = (replace(each.of_target(), digest=first.log_digest) for each in (first, other))
    return first, other


@dataclass(frozen=True)
class Difference:
    """elpd of one fit less that of another, with its standard error over rows and that of subsampling."""

    elpd: float
    se: float
    subsampling: float

    def __str__(self) -> str:
        """In one line, with what it says."""
        error = math.hypot(self.se, self.subsampling)
        which = "the first" if self.elpd > 0 else "the second"
        verdict = f"{which} predicts rows better"
        if abs(self.elpd) < max(_LITTLE, _FEW_SE * error):
            verdict = "these rows do not tell which predicts better"
        return f"difference {self.elpd:+,.1f} ± {error:,.1f}: {verdict}"


def difference(first: Loo, other: Loo) -> Difference:
    """The first less the second, of y where one explains log(y). ConfigError where rows are not the same."""
    first, other = of_one_target(first, other)
    if first.digest != other.digest:
        raise ConfigError(
            "the two fits are not of the same rows and target; fit both to one table, with the same --rows "
            "and --missing, and one target: of log(y) and y, Σ log y is taken off"
        )
    off = first.each - other.each
    sampled = math.hypot(first.subsampling, other.subsampling)
    return Difference(first.elpd - other.elpd, _se(off, first.copies), sampled)


def _se(each: np.ndarray, copies: np.ndarray) -> float:
    """The standard error of Σ copies·each, (N,) both: a row of weight w is as w rows."""
    total = copies.sum()
    return math.sqrt(copies @ (each - copies @ each / total) ** 2)


def of(folder: Path, by: str | None = None, path: str | None = None) -> Loo:
    """Of a fit by its folder: by row, or by groups of a column. path and errors: as of `finished.read`."""
    fit = finished.read(folder, by is not None, by, **({} if path is None else {"path": path}))
    return loo(fit) if by is None else by_group(fit, by)


def compare(a: Path, b: Path, by: str | None = None) -> tuple[Loo, Loo, Difference]:
    """Two finished fits, and the difference. Raises ConfigError where they are not of the same rows."""
    first, other = of_one_target(*(of(folder, by) for folder in (a, b)))
    return first, other, difference(first, other)
