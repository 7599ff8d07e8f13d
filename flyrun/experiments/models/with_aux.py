"""One predictor of the rows, and numbers alike for every datum: a scale, a dispersion, cutpoints.

η_n = (x_nᵀβ, a_1, …, a_A) and θ = (β, a), P = D + A: an auxiliary number is a predictor whose design is a
column of ones. So whatever takes K predictors a datum takes a likelihood with auxiliary numbers.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.features import (
    expect,
    gram,
    n_params,
    predict,
    predicted,
    pull_back,
    pulled,
    variances,
)
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.prefetch import prefetch_row
from flyrun.ground.numerics.rows import add_row, four_dots, row_dot


class WithAux(NamedTuple):
    """The rows."""

    rows: np.ndarray  # (N, D) C-contiguous


@implements(predict, WithAux)
def _predict(features, index, theta, eta):
    rows, size = features.rows, features.rows.shape[1]
    beta = theta[:size]  # a row's product is as long as what it is given
    whole = index.shape[0] & -4 if rows.itemsize == 8 else 0
    for i in range(0, whole, 4):
        a, b, c, d = four_dots(rows, index[i], index[i + 1], index[i + 2], index[i + 3], beta)
        eta[i, 0], eta[i + 1, 0], eta[i + 2, 0], eta[i + 3, 0] = a, b, c, d
    for i in range(whole, index.shape[0]):
        eta[i, 0] = row_dot(rows, index[i], beta)
    for i in range(index.shape[0]):
        for k in range(1, eta.shape[1]):
            eta[i, k] = theta[size + k - 1]


implements(expect, WithAux)(lambda features, n: prefetch_row(features.rows, n))


@implements(pull_back, WithAux)
def _pull_back(features, index, slopes, gradient):
    size = features.rows.shape[1]
    beta = gradient[:size]
    for i in range(index.shape[0]):
        add_row(features.rows, index[i], slopes[i, 0], beta)
        for k in range(1, slopes.shape[1]):
            gradient[size + k - 1] += slopes[i, k]


implements(n_params, WithAux)(lambda features, n_predictors: features.rows.shape[1] + n_predictors - 1)


@implements(predicted, WithAux)
def _predicted(features, rows, theta):
    size = rows.shape[-1]
    beta, aux = theta[..., :size], theta[..., None, size:]
    eta = np.empty((*rows.shape[:-1], 1 + aux.shape[-1]))
    eta[..., 0], eta[..., 1:] = (rows @ beta[..., None])[..., 0], aux
    return eta


@implements(pulled, WithAux)
def _pulled(features, rows, slopes):
    return np.append(slopes[:, 0] @ rows, slopes[:, 1:].sum(axis=0))


@implements(gram, WithAux)
def _gram(features, rows, weight):
    across = rows.T @ weight[:, 0, 1:]
    of_rows = rows.T @ (rows * weight[:, 0, 0, None])
    return np.block([[of_rows, across], [across.T, weight[:, 1:, 1:].sum(axis=0)]])


@implements(variances, WithAux)
def _variances(features, rows, covariance):
    size = rows.shape[1]
    k = len(covariance) - size + 1
    variance = np.empty((len(rows), k, k))
    variance[:, 0, 0] = np.einsum("nd,nd->n", rows @ covariance[:size, :size], rows)
    variance[:, 0, 1:] = variance[:, 1:, 0] = rows @ covariance[:size, size:]
    variance[:, 1:, 1:] = covariance[size:, size:]
    return variance
