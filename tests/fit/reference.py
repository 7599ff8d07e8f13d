"""Posteriors of scikit-learn's three tables, worked out apart from flyrun: plain NumPy, own standardisation.

Where the posterior is near a Gaussian, by importance sampling from a t at the mode; else by many chains of
plain Hamiltonian Monte Carlo shaped by the curvature at the mode. The latter take minutes and are kept in
references.json, which `python -m tests.fit.reference` writes.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats
from sklearn import datasets

PRIOR = 2.5
STORED = Path(__file__).with_name("references.json")
LOADERS = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "diabetes": datasets.load_diabetes,
}


class Reference(NamedTuple):
    """Of each coefficient on its column's own scale, intercept last: mean, sd, standard error of the mean."""

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray


def stored(name):
    """Of breast_cancer or wine, as it was worked out."""
    return Reference(*(np.array(one) for one in read()[name]))


def read():
    """All that is stored, by name."""
    return json.loads(STORED.read_text())


def store(made):
    """In place of what these names had."""
    STORED.write_text(json.dumps(read() | made, indent=1) + "\n")


def reference(name):
    """Of a table: diabetes in a second, the others in minutes."""
    x, y = LOADERS[name](return_X_y=True)
    mean, sd = x.mean(0), x.std(0)
    rows = np.column_stack([(x - mean) / sd, np.ones(len(x))])
    rng = np.random.default_rng(0)
    if name == "diabetes":
        theta, weight = _importance(_student_t(rows, (y - y.mean()) / y.std()), rows.shape[1], rng)
        beta = _own_scale(theta * y.std(), mean, sd) + y.mean() * (np.arange(rows.shape[1]) == len(sd))
        centre = weight @ beta
        spread = np.sqrt(weight @ (beta - centre) ** 2)
        return Reference(centre, spread, np.sqrt(weight**2 @ (beta - centre) ** 2))
    kinds = int(y.max()) + 1 if name == "wine" else 1
    density = _softmax(rows, y) if name == "wine" else _logistic(rows, y)
    theta = _hamiltonian(density, kinds * rows.shape[1], rng)
    if name == "wine":
        theta = theta.reshape(*theta.shape[:2], kinds, -1)
        theta = theta[:, :, 1:] - theta[:, :, :1]
    beta = _own_scale(theta, mean, sd)
    beta = beta.reshape(*beta.shape[:2], -1)
    of_chains = beta.mean(0)
    return Reference(beta.mean((0, 1)), beta.std((0, 1)), of_chains.std(0, ddof=1) / np.sqrt(len(of_chains)))


def _own_scale(theta, mean, sd):
    slopes = theta[..., :-1] / sd
    return np.concatenate([slopes, theta[..., -1:] - (slopes * mean).sum(-1, keepdims=True)], axis=-1)


def _logistic(x, y):
    sign = 2.0 * y - 1.0

    def density(theta):
        margin = sign * (theta @ x.T)
        return special.log_expit(margin).sum(1), (sign * special.expit(-margin)) @ x

    return density


def _softmax(x, y):
    kinds = int(y.max()) + 1
    hot = np.eye(kinds)[y].T

    def density(theta):
        eta = theta.reshape(len(theta), kinds, -1) @ x.T
        share = special.softmax(eta, axis=1)
        value = (eta * hot).sum((1, 2)) - special.logsumexp(eta, axis=1).sum(1)
        return value, ((hot - share) @ x).reshape(len(theta), -1)

    return density


def _student_t(x, y, nu=4.0):
    """At the noise scale of most likelihood, coefficients fitted along with it."""

    def loss(values):
        r = (y - x @ values[:-1]) / np.exp(values[-1])
        return (nu + 1) / 2 * np.log1p(r**2 / nu).sum() + len(y) * values[-1]

    scale = np.exp(optimize.minimize(loss, np.zeros(x.shape[1] + 1), tol=1e-9).x[-1])

    def density(theta):
        r = (y - theta @ x.T) / scale
        return -(nu + 1) / 2 * np.log1p(r**2 / nu).sum(1), ((nu + 1) * r / (nu + r**2) / scale) @ x

    return density


def _with_prior(density):
    def both(theta):
        value, gradient = density(theta)
        return value - 0.5 * (theta**2).sum(1) / PRIOR**2, gradient - theta / PRIOR**2

    return both


def _mode(both, size):
    """Mode, and the inverse of the curvature there."""

    def negative(theta):
        value, gradient = both(theta[None])
        return -value[0], -gradient[0]

    mode = optimize.minimize(negative, np.zeros(size), jac=True, tol=1e-10).x
    step = 1e-4 * np.eye(size)
    curvature = (both(mode - step)[1] - both(mode + step)[1]) / 2e-4
    return mode, np.linalg.inv((curvature + curvature.T) / 2)


def _importance(density, size, rng, draws=40_000):
    """(draws, size) and their weights, which sum to 1."""
    both = _with_prior(density)
    mode, covariance = _mode(both, size)
    proposal = stats.multivariate_t(mode, covariance, df=8, seed=rng)
    theta = proposal.rvs(draws)
    log_weight = np.concatenate([both(part)[0] for part in np.array_split(theta, 40)]) - proposal.logpdf(
        theta
    )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 0.3 * draws, "the posterior is too far from its proposal"
    return theta, weight


def _hamiltonian(density, size, rng, chains=48, draws=1500, burn_in=300, most_steps=48):
    """(draws, chains, size)."""
    both = _with_prior(density)
    mode, covariance = _mode(both, size)
    root = np.linalg.cholesky(covariance)
    theta = mode + rng.normal(size=(chains, size)) @ root.T
    step, kept = 0.3, []
    value, gradient = both(theta)
    for i in range(burn_in + draws):
        speed = rng.normal(size=(chains, size))
        energy = value - 0.5 * (speed**2).sum(1)
        epsilon = step * rng.uniform(0.8, 1.2)
        new, slope = theta.copy(), gradient
        for _ in range(rng.integers(1, most_steps)):
            speed = speed + 0.5 * epsilon * slope @ root
            new = new + epsilon * speed @ root.T
            there, slope = both(new)
            speed = speed + 0.5 * epsilon * slope @ root
        taken = np.log(rng.random(chains)) < there - 0.5 * (speed**2).sum(1) - energy
        theta[taken], value[taken] = new[taken], there[taken]
        gradient = np.where(taken[:, None], slope, gradient)
        if i < burn_in:
            step *= np.exp(0.1 * (taken.mean() - 0.8))
        else:
            kept.append(theta.copy())
    return np.array(kept)


if __name__ == "__main__":
    store({name: [one.tolist() for one in reference(name)] for name in ("breast_cancer", "wine")})
