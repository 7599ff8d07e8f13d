"""Rows' slopes and curvatures about a centre, and how large what they leave out is where draws may be."""

from dataclasses import dataclass

import numpy as np

from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan.encoded_rows import Encoding, Form
from flyrun.fitting.table_rows import Rows

_PROBES = 4  # pairs of points, draws of where the posterior may be
# Of one predictor, pairs in sds of the centre's error and of the posterior. Squared differences of a cube
# have E[(d + z)³ − (d + z')³]²/2 in first and last order, and see a fourth power, too.
_STEPS = ((1.1, 1.0), (1.1, -1.0), (-1.1, 1.0), (-1.1, -1.0), (0.0, 1.9), (0.0, 0.0))
_LEVERAGES = 16  # probes of x'Vx where it has more than four times as many terms
_SMALL, _SMALL_ROWS = 1_000_000, 512  # products up to which BLAS is as quick as it can be


@dataclass(frozen=True)
class Centre:
    """About what is summed. at: (P,); stage: its number.

    root: (P, P), of the posterior's covariance as it may be; off: how much farther than its sds the mode of
    all rows may lie from `at`.
    """

    at: np.ndarray
    root: np.ndarray
    off: float
    stage: int


class Sites:
    """Rows' second order about a centre, and sizes of what it leaves out: how much that varies over where the
    posterior may be, told by its differences between pairs of points.
    """

    def __init__(self, encoding: Encoding, model: str, centre: Centre):
        self.posterior = encoding.blank(model)
        self.form = encoding.form(self.posterior.family)
        self.predictors = len(self.posterior.places)
        self.pairs = [(j, k) for j in range(self.predictors) for k in range(j, self.predictors)]
        rng = np.random.default_rng([3_000_000, centre.stage])
        points = centre.at[None]
        self._spread: np.ndarray | None = None
        if self.predictors == 1:
            root, many = centre.root, _LEVERAGES
            if len(root) > 4 * many:
                root = root @ rng.standard_normal((len(root), many)) / np.sqrt(many)
            self._spread = root.T.astype(np.float32)
            self._steps = np.array([[0.0, 0.0], *_STEPS]) @ [centre.off, 1.0]
            self._share = np.array([0.5, 0.5, 1.0])
        else:
            noise = rng.standard_normal((3, _PROBES, len(centre.at)))
            steps = np.stack([centre.off * noise[0] + probe for probe in noise[1:]], axis=1)
            points = np.concatenate([points, centre.at + steps.reshape(-1, len(centre.at)) @ centre.root.T])
            self._share = np.full(_PROBES, 1.0 / _PROBES)
        self._points = points

    def of(self, x: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slopes (K, n), curvatures (K(K+1)/2, n), float32, and sizes (n,) of rows of features x (D, n)."""
        y, linear = rows.target, self.posterior.linear
        p = predictors(self.posterior, self.form, self._points, x)
        if self._spread is not None:
            wide, many = np.empty((len(self._spread), len(y)), np.float32), few(x)
            for k in range(0, len(y), many):
                wide[:, k : k + many] = self._spread @ x[:, k : k + many]
            p[0] = p[0] + self._steps[:, None] * np.sqrt(np.einsum("rn,rn->n", wide, wide))
        p = with_offsets(p, rows, linear)
        at = [eta[0] for eta in p]
        slopes, all_curvatures = self.posterior.row_derivatives(rows, at)
        slope = np.empty((self.predictors, len(y)), np.float32)
        curvatures = np.empty((len(self.pairs), len(y)))
        for j, value in enumerate(slopes):
            slope[j] = value
        for i, (j, k) in enumerate(self.pairs):
            curvatures[i] = all_curvatures[j][k]
        curvatures = curvatures.astype(np.float32)
        value = self.posterior.of_rows(rows, [eta[1:] for eta in p])
        left = value[::2] - value[1::2]
        away = [eta[1:] - eta[0] for eta in p]
        for j, step in enumerate(away):
            left -= slope[j] * (step[::2] - step[1::2])
        for i, (j, k) in enumerate(self.pairs):
            both = away[j] * away[k]
            left += (0.5 if j == k else 1.0) * curvatures[i] * (both[::2] - both[1::2])
        size = np.sqrt(0.5 * np.einsum("s,sn,sn->n", self._share, left, left))
        return slope, curvatures, np.where(np.isfinite(size), size, np.inf)


def predictors(posterior: Posterior, form: Form, points: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    """K predictors, (S, n), or (S, 1) of a number alike for all rows, without offsets, at points (S, P), of
    features x (D, n), float32.
    """
    pairs = zip(posterior.places, form.of_predictors(posterior), strict=True)
    return [
        points[:, place]
        if which is None
        else (points[:, place].astype(np.float32) @ x[which]).astype(np.float64)
        for place, which in pairs
    ]


def with_offsets(p: list[np.ndarray], rows: Rows, linear: int) -> list[np.ndarray]:
    """K predictors, (S, n) or (S, 1), of which so many are the target's, with what rows add to them."""
    offsets = [rows.offset] * linear + [0.0 if its is None else its.offset for its in rows.designs]
    return [eta + offsets[k] if k < len(offsets) and np.ndim(offsets[k]) else eta for k, eta in enumerate(p)]


def few(x: np.ndarray) -> int:
    """Columns of x (D, n) at a time for which BLAS has its fast kernel for small matrices; else all."""
    many = _SMALL // len(x) ** 2
    return many if many >= _SMALL_ROWS else x.shape[1]
