"""Densities and slopes of many rows for chains side by side, of families whose cumulant is known."""

from flyrun.ground.numerics.compiled import jit
from flyrun.ground.numerics.vector_math import exp_bounded, exp_negative, log_positive


@jit
def softplus_rows(y, trials, weights, eta, valued, total):
    """eta (n, C) to w(y − k·σ(η)), in its place; where valued total (C,) += Σ w(yη − k·log(1 + e^η)).

    y, trials k, weights w: (n,).
    """
    for row in range(eta.shape[0]):
        hits, tries = weights[row] * y[row], weights[row] * trials[row]
        if valued:
            for c in range(eta.shape[1]):
                above = max(eta[row, c], 0.0)
                log = log_positive(1.0 + exp_negative(-abs(eta[row, c])))
                total[c] += hits * eta[row, c] - tries * (above + log)
        for c in range(eta.shape[1]):
            small = exp_negative(-abs(eta[row, c]))
            above = 1.0 if eta[row, c] > 0.0 else small
            eta[row, c] = hits - tries * above / (1.0 + small)


@jit
def exp_rows(y, trials, weights, eta, valued, total):
    """The same of e^η in the place of log(1 + e^η)."""
    for row in range(eta.shape[0]):
        hits, tries = weights[row] * y[row], weights[row] * trials[row]
        if valued:
            for c in range(eta.shape[1]):
                total[c] += hits * eta[row, c] - tries * exp_bounded(eta[row, c])
        for c in range(eta.shape[1]):
            eta[row, c] = hits - tries * exp_bounded(eta[row, c])


#: by Family.cumulant
KERNELS = {"softplus": softplus_rows, "exp": exp_rows}
