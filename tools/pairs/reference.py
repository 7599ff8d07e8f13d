"""What NumPyro's NUTS, of one pair statsmodels, finds of each, into results/reference/pairs/nuts.json.

    python -m tools.pairs.reference [NAME …]

Four chains of 2,000 draws after 2,000 of warm-up. Nothing of flyrun is imported: columns are standardised,
and priors and likelihoods are written down, a second time here. Needs numpyro (the extra `peers`) and
statsmodels (the extra `answers`). Kept: means, sds, the least effective draws and the largest R-hat.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tools.pairs.tables import PAIRS, Pair

STORED = Path(__file__).parents[2] / "results" / "reference" / "pairs" / "nuts.json"
CHAINS, DRAWS = 4, 2_000
_COEFFICIENT_SD, _INTERCEPT_SD = 2.5, 10.0
_NUMBERS = ("gaussian", "student_t")
#: too long for NUTS, which 80 CPU seconds do not take to iteration 40; 1,835 rows a parameter make up for it
BY_LIKELIHOOD = ("randhie negative_binomial",)


def stored() -> dict[str, dict[str, Any]]:
    """All references that there are, by the pair's name."""
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}


def columns(pair: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Encoded features (N, D), what each was lessened by and divided by (D,), and their names.

    A row of several trials counts as often, as the rows would that it stands for.
    """
    frame = pair.frame()
    features = pair.features(frame)
    raw = features.to_numpy(float)
    copies = frame[pair.beside["trials"]] if "trials" in pair.beside else None
    mean = np.average(raw, axis=0, weights=copies)
    sd = np.sqrt(np.average((raw - mean) ** 2, axis=0, weights=copies))
    two = np.array([len(np.unique(column)) == 2 for column in raw.T])
    shift = np.where(two, raw.min(0), mean)
    unit = np.where(two, raw.max(0) - raw.min(0), sd)
    return (raw - shift) / unit, shift, unit, [str(name) for name in features.columns]


def sampled(pair: Pair, seed: int = 0) -> dict[str, Any]:
    """The reference of one pair: by term, as `flyrun fit` names it (`class:term` of classes), mean and sd."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    numpyro.enable_x64()
    frame = pair.frame()
    x, shift, unit, names = columns(pair)
    y = frame[pair.target].to_numpy(float)
    centre, scale = (y.mean(), y.std()) if pair.family in _NUMBERS else (0.0, 1.0)
    levels = np.unique(y)
    code = np.searchsorted(levels, y)
    offset = np.log(frame[pair.beside["exposure"]].to_numpy(float)) if "exposure" in pair.beside else 0.0
    trials = frame[pair.beside["trials"]].to_numpy(int) if "trials" in pair.beside else None
    several = (len(levels),) if pair.family == "softmax" else ()

    def gamma(name: str, shape: float, rate: float) -> Any:
        return numpyro.sample(name, dist.Gamma(shape, rate))

    def model() -> None:
        slopes = numpyro.sample(
            "slopes", dist.Normal(0, _COEFFICIENT_SD).expand([*several, x.shape[1]]).to_event()
        )
        eta = jnp.asarray(x) @ slopes.T + offset
        if pair.family == "ordinal":
            first = numpyro.sample("first", dist.Normal(0, 5.0))
            gaps = numpyro.sample("gaps", dist.Normal(0, 1.5).expand([len(levels) - 2]).to_event())
            cuts = jnp.concatenate([first[None], first + jnp.cumsum(jnp.exp(gaps))])
            numpyro.sample("y", dist.OrderedLogistic(eta, cuts), obs=code)
            return
        eta = eta + numpyro.sample(
            "intercept", dist.Normal(0, _INTERCEPT_SD).expand(several).to_event(len(several))
        )
        if pair.family == "logistic":
            numpyro.sample("y", dist.Bernoulli(logits=eta), obs=code)
        elif pair.family == "probit":
            sign = jnp.where(code == 1, 1.0, -1.0)
            numpyro.factor("y", jax.scipy.special.log_ndtr(sign * eta).sum())
        elif pair.family == "softmax":
            numpyro.sample("y", dist.Categorical(logits=eta), obs=code)
        elif pair.family == "binomial":
            numpyro.sample("y", dist.Binomial(trials, logits=eta), obs=y.astype(int))
        elif pair.family == "poisson":
            numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y.astype(int))
        elif pair.family == "negative_binomial":
            phi = numpyro.sample("phi", dist.LogNormal(2.0, 3.0))
            numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(eta), phi), obs=y.astype(int))
        elif pair.family == "gamma":
            shape = numpyro.sample("shape", dist.LogNormal(2.0, 4.0))
            numpyro.sample("y", dist.Gamma(shape, shape * jnp.exp(-eta)), obs=y)
        elif pair.family == "gaussian":
            numpyro.sample("y", dist.Normal(eta, gamma("sigma", 1.0, 1.0)), obs=(y - centre) / scale)
        else:
            nu, sigma = gamma("nu", 2.0, 0.1), gamma("sigma", 1.0, 1.0)
            numpyro.sample("y", dist.StudentT(nu, eta, sigma), obs=(y - centre) / scale)

    kernel = numpyro.infer.NUTS(model, target_accept_prob=0.9, dense_mass=True)
    run = numpyro.infer.MCMC(
        kernel, num_warmup=DRAWS, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    run.run(jax.random.PRNGKey(seed))
    draws = {name: np.asarray(one) for name, one in run.get_samples(group_by_chain=True).items()}
    found = _own_scale(pair, draws, shift, unit, names, centre, scale, levels)
    values = list(draws.values())
    return {
        "ess": float(min(np.min(effective_sample_size(one)) for one in values)),
        "rhat": float(max(np.max(split_gelman_rubin(one)) for one in values)),
        "mean": {name: float(one.mean()) for name, one in found.items()},
        "sd": {name: float(one.std()) for name, one in found.items()},
    }


def estimated(pair: Pair) -> dict[str, Any]:
    """The maximum likelihood estimate of a negative binomial and its standard errors, by term."""
    from statsmodels.discrete.discrete_model import NegativeBinomial

    frame = pair.frame()
    features = pair.features(frame)
    unit = np.append(1.0, features.to_numpy(float).std(axis=0))
    x = np.column_stack([np.ones(len(frame)), features.to_numpy(float)]) / unit
    found = NegativeBinomial(frame[pair.target].to_numpy(float), x).fit(disp=0, maxiter=500)
    if not found.mle_retvals["converged"]:
        raise SystemExit(f"{pair.name}: the likelihood's maximum was not reached")
    alpha = found.params[-1]  # 1/φ
    names = ["intercept", *map(str, features.columns), "phi"]
    mean = [*(found.params[:-1] / unit), 1.0 / alpha]
    sd = [*(found.bse[:-1] / unit), found.bse[-1] / alpha**2]
    return {key: dict(zip(names, map(float, own), strict=True)) for key, own in (("mean", mean), ("sd", sd))}


def _own_scale(
    pair: Pair,
    draws: dict[str, np.ndarray],
    shift: np.ndarray,
    unit: np.ndarray,
    names: list[str],
    centre: float,
    scale: float,
    levels: np.ndarray,
) -> dict[str, np.ndarray]:
    """Draws (C, T) by term, per unit of the columns as they stand in the file."""
    slopes = draws["slopes"] * scale / unit
    if pair.family == "ordinal":
        steps = np.concatenate([draws["first"][..., None], np.exp(draws["gaps"])], axis=-1)
        cuts = np.cumsum(steps, axis=-1) + (slopes @ shift)[..., None]
        terms = {name: slopes[..., d] for d, name in enumerate(names)}
        return terms | {f"cut_{k + 1}": cuts[..., k] for k in range(cuts.shape[-1])}
    intercept = centre + scale * draws["intercept"] - slopes @ shift
    if pair.family == "softmax":
        slopes, intercept = slopes[..., 1:, :] - slopes[..., :1, :], intercept[..., 1:] - intercept[..., :1]
        return {
            f"{level:g}:{name}": one[..., k]
            for k, level in enumerate(levels[1:])
            for name, one in (("intercept", intercept), *zip(names, np.moveaxis(slopes, -1, 0), strict=True))
        }
    terms = {"intercept": intercept} | {name: slopes[..., d] for d, name in enumerate(names)}
    others = {name: one for name, one in draws.items() if name not in ("slopes", "intercept")}
    return terms | {name: one * (scale if name == "sigma" else 1.0) for name, one in others.items()}


def main() -> int:
    """Sample those that are named, or all that are not there yet."""
    warnings.filterwarnings("ignore")
    named = sys.argv[1:]
    for one in PAIRS:
        if one.name in named or (not named and one.name not in stored()):
            found = (estimated if one.name in BY_LIKELIHOOD else sampled)(one)
            kept = stored() | {one.name: found}
            half = STORED.with_suffix(".part")
            half.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
            half.replace(STORED)
            print(f"{one.name}: { ({key: found.get(key) for key in ('ess', 'rhat')}) }", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
