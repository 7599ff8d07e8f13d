"""A table with terms of groups by NumPyro's NUTS: `python nuts.py TABLE ABOUT`, draws into TABLE's .npz.

Nothing of flyrun is imported: families, correlations, smooths and flyrun's default priors are written down a
second time. Columns are of mean 0 and sd 1, and so is a target with noise. Effects are not centred.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from scipy.interpolate import BSpline

CHAINS, WARM_UP, DRAWS, ACCEPTED = 4, 500, 1_000, 0.9
_SPLINES = 10  # of a smooth, cubic

numpyro.enable_x64()
path, about = Path(sys.argv[1]), json.loads(sys.argv[2])
frame = pd.read_csv(path, float_precision="round_trip", dtype=dict.fromkeys(about.get("factors", ()), str))
x = frame[about["columns"]].to_numpy()
y = frame["y"].to_numpy() if about["family"] != "ordinal" else np.unique(frame["y"], return_inverse=True)[1]


def levels(group: str) -> np.ndarray:
    """(N,) numbers of a factor's levels, or of pairs g:s, in the order of their names."""
    first, *others = (frame[name].astype(str) for name in group.split(":"))
    for other in others:
        first = first + ":" + other
    return np.unique(first, return_inverse=True)[1]


def curve(name: str) -> np.ndarray:
    """(N, 8): what effects of sd 1 add, a curve without mean and line over rows, of variance 1 in all."""
    values = frame[name].to_numpy()
    step = (values.max() - values.min()) / (_SPLINES - 3)
    knots = values.min() + step * np.arange(-3, _SPLINES + 1)
    splines = BSpline(knots, np.eye(_SPLINES), 3, extrapolate=True)(values)
    differences = np.diff(np.eye(_SPLINES), 2, axis=0)
    penalties, vectors = np.linalg.eigh(differences.T @ differences)
    design = splines @ vectors[:, 2:] / np.sqrt(penalties[2:])  # the first two are a constant and a line
    straight = np.column_stack([np.ones_like(values), values])
    design = design - straight @ np.linalg.lstsq(straight, design, rcond=None)[0]
    return design / np.sqrt((design**2).sum(axis=1).mean())


terms = [(levels(group), frame[slopes].to_numpy(), both) for group, slopes, both in about["terms"]]
curves = [curve(name) for name in about.get("smooths", ())]
half_t = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 2.5))


def further(name: str, prior: Any) -> Any:
    """A number above 0, kept as its log."""
    value = numpyro.sample(f"_{name}", prior)
    numpyro.deterministic(name, jnp.log(value))
    return value


def target(eta: Any) -> Any:
    """The distribution of the target, its linear predictor eta (N,)."""
    family = about["family"]
    if family == "ordinal":
        first = numpyro.sample("cut_1", dist.Normal(0, 5.0))
        gaps = [numpyro.sample(f"cut_{k + 1}", dist.Normal(0, 1.5)) for k in range(1, y.max())]
        cuts = jnp.concatenate([first[None], first + jnp.cumsum(jnp.exp(jnp.stack(gaps)))])
        return dist.OrderedLogistic(eta, cuts)
    eta = eta + numpyro.sample("intercept", dist.Normal(0, 10.0))
    if family == "gaussian":
        return dist.Normal(eta, further("sigma", dist.Exponential(1.0)))
    if family == "student_t":
        sigma = further("sigma", dist.Exponential(1.0))
        return dist.StudentT(further("nu", dist.Gamma(2.0, 0.1)), eta, sigma)
    if family == "gamma":
        shape = further("shape", dist.LogNormal(2.0, 4.0))
        return dist.Gamma(shape, shape * jnp.exp(-eta))
    if family == "negative_binomial":
        return dist.NegativeBinomial2(jnp.exp(eta), further("phi", dist.LogNormal(2.0, 3.0)))
    if family == "poisson":
        return dist.Poisson(jnp.exp(eta))
    if family == "binomial":
        return dist.Binomial(frame[about["trials"]].to_numpy(), logits=eta)
    return dist.Bernoulli(logits=eta)


def model() -> None:
    """Normal coefficients of sd 2.5, the intercept's 10, half-t(3, 0, 2.5) of sds, LKJ(1)."""
    eta = x @ numpyro.sample("beta", dist.Normal(0, 2.5).expand([x.shape[1]]).to_event(1))
    for k, (code, columns, both) in enumerate(terms):
        q = 1 + columns.shape[1]
        sds = numpyro.sample(f"sd{k}", half_t.expand([q]).to_event(1))
        z = numpyro.sample(f"_z{k}", dist.Normal().expand([code.max() + 1, q]).to_event(2))
        scale = jnp.diag(sds)
        if q > 1 and both:
            scale = sds[:, None] * numpyro.sample(f"cor{k}", dist.LKJCholesky(q, 1.0))
        u = numpyro.deterministic(f"u{k}", z @ scale.T)
        eta = eta + u[code, 0] + (u[code, 1:] * columns).sum(-1)
    for k, design in enumerate(curves):
        sd = numpyro.sample(f"sd_of_curve{k}", half_t)
        z = numpyro.sample(f"_z_of_curve{k}", dist.Normal().expand([design.shape[1]]).to_event(1))
        eta = eta + numpyro.deterministic(f"curve{k}", design @ (sd * z))
    numpyro.sample("y", target(eta), obs=y)


run = numpyro.infer.MCMC(
    numpyro.infer.NUTS(model, target_accept_prob=about.get("accepted", ACCEPTED)),
    num_warmup=about.get("warm_up", WARM_UP), num_samples=about.get("draws", DRAWS), num_chains=CHAINS,
    chain_method="vectorized", progress_bar=False,
)  # fmt: skip
began = time.process_time()
run.run(jax.random.PRNGKey(0))
draws = {name: np.asarray(each) for name, each in run.get_samples(group_by_chain=True).items()}
seconds = time.process_time() - began
kept = {name: each.reshape(*each.shape[:2], -1) for name, each in draws.items() if name[0] != "_"}
for name, each in draws.items():
    if name.startswith("cor"):
        rows, columns = np.tril_indices(each.shape[-1], -1)
        kept[name] = np.einsum("ctik,ctjk->ctij", each, each)[..., rows, columns]
np.savez(path.with_suffix(".npz"), seconds=seconds, **kept)
