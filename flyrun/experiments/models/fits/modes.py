"""Further modes of a posterior whose likelihood is not log-concave, beside the one that was found first.

Climbs begin where another mode would draw them: at least squares fits of the rows that a known mode takes
for outliers, of few random rows (elemental subsets, Rousseeuw & Leroy 1987), and at draws from the prior.
They are made on some thousand rows, where a mode is as visible as on all; what may hold a share of the
posterior worth speaking of is then climbed on all rows. A column of which few rows tell is not visible on
others: from each of these rows that the mode takes for an outlier all rows are climbed, fitted to it.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from flyrun.experiments.models import passes
from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.features import Features, Model
from flyrun.experiments.models.fits.map_fit import MapFit
from flyrun.experiments.models.fits.newton_fit import REWEIGHTINGS, Climb

EXPLORED = 4096  # rows that modes are looked for on, at least 4 a coefficient
SUBSETS, PRIOR_DRAWS, MOST_CLIMBS = 8, 2, 24
LEAST_SHARE = 1e-3
"""Of the posterior, by heights and widths: a mode that holds less is none to start chains from."""
_TELLS = 0.05  # of a direction's information, that one row holds
_APART = 0.5  # posterior sds between modes that are different ones; Newton's method leaves 1e-6


class Modes(NamedTuple):
    """Modes of a posterior, the highest first."""

    theta: np.ndarray  # (M, P)
    log_posterior: float  # at the first
    shares: np.ndarray  # (M,): of the posterior, by the height and width of each (Laplace's approximation)
    queries: int  # likelihood queries spent


class _Mode(NamedTuple):
    theta: np.ndarray
    height: float
    precision: np.ndarray  # of the Gaussian that touches the posterior there, (P, P)

    def near(self, theta: np.ndarray) -> bool:
        move = theta - self.theta
        return float(move @ self.precision @ move) < _APART**2

    def log_width(self) -> float:
        sign, log_det = np.linalg.slogdet(self.precision)
        return -0.5 * float(log_det) if sign > 0 else 0.0


def find_modes(
    module: ModuleType, model: Model, features: Features, penalty: Penalty, normaliser: float, first: MapFit
) -> Modes:
    """The modes that can be found, among them `first`, which is one: bit for bit where it is the highest.

    penalty, normaliser: the log prior and its value at 0.
    """
    n_data, size = features.rows.shape
    stream = np.random.Generator(np.random.PCG64(1))
    enough = max(EXPLORED, 4 * size)
    whole = some = Climb(module, model, features, penalty)
    theta, height = first.theta, first.log_posterior - normaliser
    if n_data > enough:
        some = whole.on_some(enough, stream)
        theta, height = some.to_mode(theta, 0)
    modes = _explored(some, _mode(some, theta, height), _starts(some, penalty, stream))
    if some is not whole:
        modes = _on_all_rows(modes, some, whole, first.theta, first.log_posterior - normaliser)
    if starts := _telling(whole, modes[0].theta):
        modes = [_mode(whole, mode.theta, mode.height) for mode in modes]
    for start in starts:
        theta, height = whole.to_mode(start, 0)
        if not any(mode.near(theta) for mode in modes):
            modes.append(_mode(whole, theta, height))
    queries = some.queries + (whole.queries if whole is not some else 0)
    modes.sort(key=lambda mode: -mode.height)
    shares = softmax([mode.height + mode.log_width() for mode in modes])
    kept = [i for i in range(len(modes)) if i == 0 or shares[i] >= LEAST_SHARE]
    thetas = np.array([modes[i].theta for i in kept])
    return Modes(thetas, modes[0].height + normaliser, shares[kept] / shares[kept].sum(), queries)


def _mode(climb: Climb, theta: np.ndarray, height: float) -> _Mode:
    """The mode at θ, (P,); for a prior that is not smooth a Gaussian of the same variance stands in."""
    ridges = climb.penalty.ridges(theta) + 0.5 * climb.penalty.rates(len(theta)) ** 2
    return _Mode(theta, height, climb.look(theta).curvature + np.diag(ridges))


def _starts(climb: Climb, prior: Penalty, stream: np.random.Generator) -> list[np.ndarray]:
    """Draws from the prior and fits of few rows, (P,) each."""
    n_data, size = climb.features.rows.shape
    scale = prior.ridge**-0.5 if prior.ridge else 1.0 / prior.rate
    draw = stream.standard_normal if prior.ridge else stream.laplace
    starts = [np.asarray(scale * draw(size=size)) for _ in range(PRIOR_DRAWS)]
    for k in range(SUBSETS):
        few = min((1 + k % 2) * size + 1, n_data)
        starts.append(_least_squares(climb, stream.choice(n_data, few, replace=False)))
    return starts


def _explored(climb: Climb, home: _Mode, starts: list[np.ndarray]) -> list[_Mode]:
    """`home` and the modes of these rows above starts, (P,), and above what a mode takes for outliers."""
    modes, left = [home], [*starts, *_outlying(climb, home.theta)]
    for _ in range(MOST_CLIMBS):
        if not left:
            break
        theta, height = climb.to_mode(left.pop(), REWEIGHTINGS)
        if not any(mode.near(theta) for mode in modes):
            modes.append(_mode(climb, theta, height))
            left += _outlying(climb, theta)
    return modes


def _outlying(climb: Climb, theta: np.ndarray) -> list[np.ndarray]:
    """Fits, (P,), of the rows whose likelihood is past its bend: of both sides, and of each."""
    _, slopes, curvature = passes.likelihoods(climb.module, climb.model, climb.features, theta)
    climb.queries += len(slopes)
    bent = curvature[:, 0, 0] < 0.0
    groups = [bent, bent & (slopes[:, 0] > 0.0), bent & (slopes[:, 0] < 0.0)]
    return [_least_squares(climb, np.flatnonzero(group)) for group in groups if group.sum() > len(theta)]


def _telling(climb: Climb, theta: np.ndarray) -> list[np.ndarray]:
    """Coefficients (P,) that fit a row exactly that holds much of a direction, past its likelihood's bend.

    All other directions stay as far as they can. Of equal rows of near targets one is fitted.
    """
    rows, target = climb.features.rows, getattr(climb.model, "target", None)
    if target is None or rows.shape[1] != len(theta) or len(rows) <= rows.shape[1]:
        return []
    values, vectors = np.linalg.eigh(rows.T @ rows)
    half = vectors / np.sqrt(np.maximum(values, 1e-12 * values.max()))
    (few,) = np.nonzero(((rows @ half) ** 2).sum(axis=1) > _TELLS)
    if not len(few):
        return []
    _, _, curvature = passes.likelihoods(climb.module, climb.model, climb.features, theta)
    climb.queries += len(rows)
    starts = list[np.ndarray]()
    for i in few[curvature[few, 0, 0] < 0.0]:
        step = half @ (half.T @ rows[i])
        start = theta + step * ((target[i] - rows[i] @ theta) / (rows[i] @ step))
        near = np.abs(np.array(starts).reshape(-1, len(theta)) @ rows[i] - target[i])
        if len(starts) < MOST_CLIMBS and not (near < 0.1 * np.abs(target[i] - rows[i] @ theta)).any():
            starts.append(start)
    return starts


def _least_squares(climb: Climb, which: np.ndarray) -> np.ndarray:
    """The maximum, (P,), of these rows' untuned bounds, parabolas of one curvature: no query."""
    module, features = climb.module, type(climb.features)(climb.features.rows[which])
    model = module.part(climb.model, which)
    parabola = collapse(module.untuned_bound(model, features, 0.0), model, features)
    nowhere = np.zeros(len(parabola.linear))
    top = climb.best(parabola.precision, parabola.linear, nowhere)
    return nowhere if top is None else top


def _on_all_rows(
    modes: list[_Mode], some: Climb, whole: Climb, first: np.ndarray, height: float
) -> list[_Mode]:
    """Modes of all rows that those of a subsample lead to, where they may matter; `first`, (P,), as it is."""
    home, *others = modes
    others = [mode for mode in others if _may_matter(home, mode, some, len(whole.features.rows))]
    if not others:
        return [_Mode(first, height, np.eye(len(first)))]
    kept = [_mode(whole, first, height)]
    for mode in others:
        theta, height = whole.to_mode(mode.theta, 0)
        if not any(other.near(theta) for other in kept):
            kept.append(_mode(whole, theta, height))
    return kept


def _may_matter(home: _Mode, mode: _Mode, some: Climb, n_data: int) -> bool:
    """Whether on all rows a mode of the subsample may hold LEAST_SHARE, four standard errors allowed for."""
    ours, theirs = (
        passes.likelihoods(some.module, some.model, some.features, mode.theta)[0] for mode in (home, mode)
    )
    n_seen = len(ours)
    some.queries += 2 * n_seen
    error = (theirs - ours).std() * np.sqrt(n_seen * (1.0 - n_seen / n_data))
    higher = mode.height - home.height + 4.0 * error
    wider = mode.log_width() - home.log_width()
    return bool(higher * n_data / n_seen + wider > np.log(LEAST_SHARE))
