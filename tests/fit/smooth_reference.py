"""Curves of two tables, and what NumPyro's NUTS finds of each.

    python -m tests.fit.smooth_reference

writes means and sds of predictors, where z is 0, into references.json. Nothing of flyrun is imported: the
basis, priors and likelihoods are written down here a second time, the basis as a kernel's eigenvectors.
Needs the extra `peers`.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import BSpline

from tests.fit import reference

CHAINS, WARM_UP, DRAWS = 4, 1_000, 4_000
K, AT = 10, np.linspace(0.5, 9.5, 10)
MODELS = ("gamma", "poisson")


def frame(model: str) -> pd.DataFrame:
    """150 rows about a curve."""
    rng = np.random.default_rng(8)
    x, z = rng.uniform(0.0, 10.0, 150), rng.normal(size=150)
    mean = np.exp(0.6 * np.sin(x) + 0.1 * x + 0.2 * z)
    return pd.DataFrame(
        {"x": x, "z": z, "y": rng.gamma(3.0, mean / 3.0) if model == "gamma" else rng.poisson(mean)}
    )


#: of flyrun's fits, and below
PRIORS = {
    "x": "normal(0, 0.5)",
    "z": "normal(0, 1)",
    "intercept": "normal(0, 5)",
    "sd(s(x))": "half_t(3, 0, 2)",
}
SHAPE = "lognormal(2, 4)"


def curves(x: np.ndarray, at: np.ndarray, k: int = K) -> tuple[np.ndarray, np.ndarray]:
    """What effects of a curve of k splines add to rows, (N, q), and at other places."""
    low, high = x.min(), x.max()
    step, penalty = (high - low) / (k - 3), np.diff(np.eye(k), 2, axis=0)

    def splines(values: np.ndarray) -> np.ndarray:
        return BSpline.design_matrix(values, low + step * np.arange(-3, k + 1), 3, extrapolate=True).toarray()

    def line(values: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(values)), values])

    fall = np.linalg.lstsq(line(x), splines(x), rcond=None)[0]
    own, other = splines(x) - line(x) @ fall, splines(at) - line(at) @ fall
    values, vectors = np.linalg.eigh(np.linalg.pinv(penalty.T @ penalty))
    half = vectors[:, 2:] * np.sqrt(values[2:])
    scale = np.sqrt(((own @ half) ** 2).sum() / len(x))
    return own @ half / scale, other @ half / scale


def sampled(model: str, seed: int = 0) -> dict[str, Any]:
    """Of predictors at AT: mean and sd; the worst R-hat and ESS of all numbers."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    table = frame(model)
    x, z, y = (table[name].to_numpy() for name in ("x", "z", "y"))
    columns, at = curves(x, AT)

    def posterior() -> None:
        intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
        by_x, by_z = (
            numpyro.sample("by_x", dist.Normal(0.0, 0.5)),
            numpyro.sample("by_z", dist.Normal(0.0, 1.0)),
        )
        sd = 2.0 * jnp.abs(numpyro.sample("sd", dist.StudentT(3.0)))
        u = sd * numpyro.sample("u", dist.Normal(0.0, 1.0).expand([columns.shape[1]]).to_event(1))
        eta = intercept + by_x * (x - x.mean()) + by_z * (z - z.mean()) + columns @ u
        numpyro.deterministic("at", intercept + by_x * (AT - x.mean()) - by_z * z.mean() + at @ u)
        if model == "poisson":
            numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)
        else:
            shape = numpyro.sample("shape", dist.LogNormal(2.0, 4.0))
            numpyro.sample("y", dist.Gamma(shape, shape * jnp.exp(-eta)), obs=y)

    kernel = NUTS(posterior, target_accept_prob=0.95)
    run = MCMC(kernel, num_warmup=WARM_UP, num_samples=DRAWS, num_chains=CHAINS, progress_bar=False)
    run.run(jax.random.PRNGKey(seed))
    draws = run.get_samples(group_by_chain=True)
    numbers = numpyro.diagnostics.summary({"at": draws["at"]})["at"]
    worst = {"rhat": float(numbers["r_hat"].max()), "ess": float(numbers["n_eff"].min())}
    return worst | {key: numbers[name].tolist() for key, name in (("mean", "mean"), ("sd", "std"))}


if __name__ == "__main__":
    reference.store({f"smooth_{model}": sampled(model) for model in MODELS})
