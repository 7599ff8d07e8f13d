"""The mode of a posterior, by Newton steps that are halved until they lead up."""

import numpy as np

from flyrun.fitting.rows_posterior import Expansion, Posterior

_MOST = 100  # steps
_ENOUGH = 50_000  # rows whose mode is near that of more
# What a step would gain, in nats, where the search ends: far below the Monte Carlo error. Of many rows, whose
# density is all but quadratic there, that step is made and not evaluated.
_NEAR, _NEAR_OF_MANY = 1e-6, 1e-3


def find(posterior: Posterior, start: np.ndarray | None = None) -> tuple[np.ndarray, Expansion]:
    """The mode, (P,), and the log likelihood to second order about it, of many rows about where the last step
    began. start: (P,), where to begin.

    Curvatures of the wrong sign are taken with the other, so that each step leads up.
    """
    with np.errstate(all="ignore"):  # steps too long, which are halved
        return _climb(posterior, _start(posterior) if start is None else start)


def _start(posterior: Posterior) -> np.ndarray:
    """Where the search begins, (P,): of many rows where that of some of them ends."""
    if (step := len(posterior.rows) // _ENOUGH) < 2:
        return posterior.start()
    some = posterior.thinned(step)
    x, _ = _climb(some, posterior.start())  # some rows may lack a rare class
    posterior.queries += some.queries
    return x if np.isfinite(x).all() else posterior.start()


def _climb(posterior: Posterior, x: np.ndarray) -> tuple[np.ndarray, Expansion]:
    likelihood, prior = posterior.likelihood_at(x), posterior.prior_at(x)
    many = len(posterior.rows) >= _ENOUGH
    near = _NEAR_OF_MANY if many else _NEAR
    for _ in range(_MOST):
        slope = likelihood.slope + prior.slope
        step = rising(likelihood.curvature + prior.curvature, slope)
        gain = float(slope @ step)
        if not gain > near:
            x = x + step if many and gain >= 0.0 else x
            break
        value, share = likelihood.value + prior.value, 1.0
        while share * gain > near:
            there = x + share * step
            expansions = posterior.likelihood_at(there), posterior.prior_at(there)
            reached = expansions[0].value + expansions[1].value
            finite = np.isfinite(reached) and np.isfinite(expansions[0].curvature).all()
            if finite and reached >= value + 1e-4 * share * gain - 1e-13 * abs(value):
                break
            share *= 0.3
        else:
            break  # as far as digits reach
        x, (likelihood, prior) = there, expansions
    return x, likelihood


def rising(curvature: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """A step (P,) that leads up: Newton's where the curvature (P, P) is positive definite."""
    values, vectors = np.linalg.eigh(curvature)
    size = np.maximum(np.abs(values), 1e-10 * np.abs(values).max())
    return vectors @ ((vectors.T @ slope) / size)


def covariance(curvature: np.ndarray) -> np.ndarray:
    """The inverse of a curvature, (P, P), each eigenvalue of it by its size."""
    values, vectors = np.linalg.eigh(curvature)
    size = np.maximum(np.abs(values), 1e-10 * np.abs(values).max())
    return (vectors / size) @ vectors.T
