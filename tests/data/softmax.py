"""A plain softmax fit, independent of flyrun's models: how good are features?"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp


def fit(features, target, n_classes, scale):
    """MAP weights (K, D) under N(0, scale²) on every weight."""
    wanted = np.eye(n_classes)[target]

    def loss(flat):
        weights = flat.reshape(n_classes, -1)
        eta = features @ weights.T
        log_z = logsumexp(eta, axis=1)
        value = log_z.sum() - np.sum(eta * wanted) + 0.5 * flat @ flat / scale**2
        return value, ((np.exp(eta - log_z[:, None]) - wanted).T @ features).ravel() + flat / scale**2

    start = np.zeros(n_classes * features.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-2})
    return found.x.reshape(n_classes, -1)


def accuracy(weights, features, target):
    return np.mean(np.argmax(features @ weights.T, axis=1) == target)


def log_likelihood(weights, features, target):
    """Mean over rows."""
    eta = features @ weights.T
    return np.mean(eta[np.arange(len(target)), target] - logsumexp(eta, axis=1))
