"""Posterior means and sds of MNIST 7v9 logistic regression, prior N(0, 1), by importance sampling.

No Markov chain and none of flyrun's kernels are used: a multivariate t (8 degrees of freedom) around the MAP
with the inverse Hessian as scale is weighted by the full posterior, in plain NumPy. Writes
mnist_reference.npz beside this file: mean, sd, mcse (Monte Carlo standard error of the mean), the same for
the log likelihood, and the effective number of draws. Run: python -m tests.exactness.make_mnist_reference
"""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import flyrun.experiments.data
from flyrun.experiments.config.dataset.row_data import Mnist7v9

N_DRAWS, BATCH, FREEDOM = 200_000, 500, 8
OUT = Path(__file__).with_name("mnist_reference.npz")


def main() -> None:
    """Draw, weigh, write."""
    data = flyrun.experiments.data.load(Mnist7v9())
    rows = data.features * data.target[:, None]
    size = rows.shape[1]

    def negative(theta):
        margins = rows @ theta
        value = np.logaddexp(0.0, -margins).sum() + 0.5 * theta @ theta
        return value, theta - rows.T @ (1.0 / (1.0 + np.exp(margins)))

    mode = minimize(negative, np.zeros(size), jac=True, options={"gtol": 1e-8}).x
    p = 1.0 / (1.0 + np.exp(rows @ mode))
    root = np.linalg.cholesky(rows.T @ (rows * (p * (1 - p))[:, None]) + np.eye(size))
    rng = np.random.default_rng(20140722)
    thetas, log_weights, log_likelihoods = [], [], []
    for _ in range(N_DRAWS // BATCH):
        z = rng.standard_normal((BATCH, size)) / np.sqrt(rng.chisquare(FREEDOM, (BATCH, 1)) / FREEDOM)
        theta = mode + np.linalg.solve(root.T, z.T).T
        log_likelihood = -np.logaddexp(0.0, -(theta @ rows.T)).sum(axis=1)
        log_proposal = -0.5 * (FREEDOM + size) * np.log1p((z**2).sum(axis=1) / FREEDOM)
        thetas.append(theta)
        log_weights.append(log_likelihood - 0.5 * (theta**2).sum(axis=1) - log_proposal)
        log_likelihoods.append(log_likelihood)
    theta, log_weight = np.concatenate(thetas), np.concatenate(log_weights)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()

    def moments(values):
        mean = weight @ values
        mcse = np.sqrt((weight**2) @ (values - mean) ** 2)
        return mean, np.sqrt(weight @ (values - mean) ** 2), mcse

    mean, sd, mcse = moments(theta)
    ll_mean, ll_sd, ll_mcse = moments(np.concatenate(log_likelihoods))
    effective = 1.0 / (weight**2).sum()
    print(
        f"{effective:,.0f} effective of {N_DRAWS:,} draws; worst mcse {np.max(mcse / sd):.4f} posterior sds"
    )
    np.savez(OUT, mean=mean, sd=sd, mcse=mcse, log_likelihood=[ll_mean, ll_sd, ll_mcse], effective=effective)


if __name__ == "__main__":
    main()
