"""A table with terms of groups by NumPyro's NUTS: `python nuts.py TABLE ABOUT`, draws into TABLE's .npz."""

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd

CHAINS, WARM_UP, DRAWS = 4, 500, 1_000

numpyro.enable_x64()
path, about = Path(sys.argv[1]), json.loads(sys.argv[2])
frame = pd.read_csv(path)
x = frame[[f"x{k}" for k in range(about["columns"])]].to_numpy()
y = frame["y"].to_numpy()
codes = [frame[f"g{k}"].to_numpy() for k in range(len(about["terms"]))]


def model() -> None:
    """Effects not centred, priors as in chains.py."""
    half_t = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 2.5))
    eta = numpyro.sample("intercept", dist.Normal(0, 10.0))
    eta = eta + x @ numpyro.sample("beta", dist.Normal(0, 2.5).expand([x.shape[1]]).to_event(1))
    for k, (levels, slopes) in enumerate(about["terms"]):
        sds = numpyro.sample(f"sd{k}", half_t.expand([1 + slopes]).to_event(1))
        z = numpyro.sample(f"z{k}", dist.Normal().expand([levels, 1 + slopes]).to_event(2))
        scale = jax.numpy.diag(sds)
        if slopes:
            scale = sds[:, None] * numpyro.sample(f"cor{k}", dist.LKJCholesky(1 + slopes, 1.0))
        u = numpyro.deterministic(f"u{k}", z @ scale.T)
        eta = eta + u[codes[k], 0] + (u[codes[k], 1:] * x[:, :slopes]).sum(-1)
    if about["family"] == "gaussian":
        numpyro.sample("y", dist.Normal(eta, numpyro.sample("sigma", dist.Exponential(1.0))), obs=y)
    elif about["family"] == "poisson":
        numpyro.sample("y", dist.Poisson(jax.numpy.exp(eta)), obs=y.astype(int))
    else:
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y.astype(int))


kernel = numpyro.infer.NUTS(model, target_accept_prob=0.9)
run = numpyro.infer.MCMC(
    kernel, num_warmup=WARM_UP, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
    progress_bar=False,
)  # fmt: skip
began = time.process_time()
run.run(jax.random.PRNGKey(0))
draws = {name: np.asarray(each) for name, each in run.get_samples(group_by_chain=True).items()}
seconds = time.process_time() - began
kept = {
    name: each.reshape(CHAINS, DRAWS, -1)
    for name, each in draws.items()
    if name[0] != "z" and name[:3] != "cor"
}
for name, each in draws.items():
    if name.startswith("cor"):
        rows, columns = np.tril_indices(each.shape[-1], -1)
        kept[name] = np.einsum("ctik,ctjk->ctij", each, each)[..., rows, columns]
np.savez(path.with_suffix(".npz"), seconds=seconds, **kept)
