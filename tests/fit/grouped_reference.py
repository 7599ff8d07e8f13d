"""Tables with groups, generated in the shapes of lme4's examples, and what NumPyro's NUTS finds of each.

    python -m tests.fit.grouped_reference [NAME …]

writes means and sds into references.json. Nothing of flyrun is imported: columns, priors and likelihoods are
written down here a second time, and effects are sampled, not integrated out. Needs the extra `peers`.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.fit import reference

CHAINS, WARM_UP, DRAWS = 4, 1_000, 5_000


class Grouped(NamedTuple):
    """A table, its formula, model and further options; columns: features of numbers; category: of levels;
    groups: factors; slope: the column whose slope the first factor has, if any.
    """

    make: Callable[[np.random.Generator], pd.DataFrame]
    formula: str
    model: str
    groups: tuple[str, ...]
    columns: tuple[str, ...] = ()
    category: str = ""
    slope: str = ""
    target: str = "y"

    def frame(self) -> pd.DataFrame:
        """The rows."""
        return self.make(np.random.default_rng(44))


def _named(letter: str, code: np.ndarray) -> list[str]:
    return [f"{letter}{k:02d}" for k in code]


def _sleep(rng: np.random.Generator) -> pd.DataFrame:
    """As sleepstudy: reaction times of 18 subjects on 10 days, each with a level and a slope."""
    subject, day = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
    level, slope = rng.normal(251.0, 24.7, 18), rng.normal(10.5, 5.9, 18)
    y = level[subject] + slope[subject] * day + rng.normal(0.0, 25.6, 180)
    return pd.DataFrame({"day": day, "subject": _named("s", subject), "y": y})


def _herds(rng: np.random.Generator) -> pd.DataFrame:
    """As cbpp: cases among the cattle of 15 herds in up to 4 periods, 56 rows."""
    herd, period = np.repeat(np.arange(15), 4)[:56], np.tile(np.arange(4), 15)[:56]
    size = rng.integers(2, 35, 56)
    eta = np.array([-1.4, -2.4, -2.5, -3.0])[period] + rng.normal(0.0, 0.64, 15)[herd]
    y = rng.binomial(size, 1.0 / (1.0 + np.exp(-eta)))
    return pd.DataFrame({"period": _named("p", period), "herd": _named("h", herd), "y": y, "size": size})


def _plates(rng: np.random.Generator) -> pd.DataFrame:
    """As Penicillin: zones of samples on 24 plates, each on each.

    There are 12: of 6, as there, their sd has so long a tail that its own sd takes far more draws.
    """
    plate, sample = np.repeat(np.arange(24), 12), np.tile(np.arange(12), 24)
    y = 23.0 + rng.normal(0.0, 0.85, 24)[plate] + rng.normal(0.0, 1.8, 12)[sample]
    y = y + rng.normal(0.0, 0.55, 288)
    return pd.DataFrame({"plate": _named("a", plate), "sample": _named("b", sample), "y": y})


def _ticks(rng: np.random.Generator) -> pd.DataFrame:
    """As grouseticks: counts on chicks of 60 broods at 12 places that cross them, by height."""
    brood, place = rng.integers(0, 60, 400), rng.integers(0, 12, 400)
    height = rng.normal(460.0, 35.0, 400)
    eta = 0.6 - 0.012 * (height - 460.0) + rng.normal(0.0, 0.6, 60)[brood] + rng.normal(0.0, 0.5, 12)[place]
    y = rng.poisson(np.exp(eta))
    return pd.DataFrame({"height": height, "brood": _named("b", brood), "place": _named("l", place), "y": y})


def _weeds(rng: np.random.Generator) -> pd.DataFrame:
    """Counts that vary beyond Poisson's, of 40 fields in 12 years, 300 rows."""
    field, year = rng.integers(0, 40, 300), rng.integers(0, 12, 300)
    rain = rng.normal(0.0, 1.0, 300)
    eta = 1.5 + 0.3 * rain + rng.normal(0.0, 0.7, 40)[field] + rng.normal(0.0, 0.4, 12)[year]
    y = rng.poisson(np.exp(eta) * rng.gamma(3.0, 1.0 / 3.0, 300))
    return pd.DataFrame({"rain": rain, "field": _named("f", field), "year": _named("y", year), "y": y})


TABLES = {
    "sleep": Grouped(_sleep, "y ~ day + (1 + day | subject)", "gaussian", ("subject",), ("day",), "", "day"),
    "herds": Grouped(_herds, "y | size ~ period + (1 | herd)", "binomial", ("herd",), (), "period"),
    "plates": Grouped(_plates, "y ~ (1 | plate) + (1 | sample)", "gaussian", ("plate", "sample")),
    "ticks": Grouped(
        _ticks, "y ~ height + (1 | brood) + (1 | place)", "poisson", ("brood", "place"), ("height",)
    ),
    "weeds": Grouped(
        _weeds, "y ~ rain + (1 | field) + (1 | year)", "negative_binomial", ("field", "year"), ("rain",)
    ),
}


def sampled(one: Grouped, seed: int = 0) -> dict[str, Any]:
    """By term as `flyrun fit` names it, mean and sd; of effects `subject[s00]`, `day by subject[s00]`."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    numpyro.enable_x64()
    frame = one.frame()
    y = frame[one.target].to_numpy(float)
    centre, scale = (y.mean(), y.std()) if one.model == "gaussian" else (0.0, 1.0)
    numbers = frame[list(one.columns)].to_numpy(float)
    mean, sd = numbers.mean(0), numbers.std(0)
    x, names = (numbers - mean) / sd, list(one.columns)
    if one.category:
        levels = sorted(frame[one.category].unique())[1:]
        x = np.column_stack([frame[one.category] == level for level in levels]).astype(float)
        names, mean, sd = [f"{one.category}[{level}]" for level in levels], np.zeros(len(levels)), 1.0
    factors = [pd.factorize(frame[group], sort=True) for group in one.groups]
    half_t = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 2.5))

    def model() -> None:
        eta = numpyro.sample("intercept", dist.Normal(0, 10.0))
        if names:
            eta = eta + x @ numpyro.sample("slopes", dist.Normal(0, 2.5).expand([len(names)]).to_event(1))
        for k, (code, levels) in enumerate(factors):
            sd_of = numpyro.sample(f"sd{k}", half_t)
            z = numpyro.sample(f"z{k}", dist.Normal().expand([len(levels)]).to_event(1))
            eta = eta + numpyro.deterministic(f"b{k}", sd_of * z)[code]
            if one.slope and k == 0:
                other, cor = numpyro.sample("sd_slope", half_t), numpyro.sample("cor", dist.Uniform(-1, 1))
                own = numpyro.sample("z_slope", dist.Normal().expand([len(levels)]).to_event(1))
                slope = other * (cor * z + (1 - cor**2) ** 0.5 * own)
                eta = eta + numpyro.deterministic("b_slope", slope)[code] * x[:, 0]
        if one.model == "gaussian":
            sigma = numpyro.sample("sigma", dist.Exponential(1.0))
            numpyro.sample("y", dist.Normal(eta, sigma), obs=(y - centre) / scale)
        elif one.model == "binomial":
            numpyro.sample("y", dist.Binomial(frame["size"].to_numpy(), logits=eta), obs=y.astype(int))
        elif one.model == "poisson":
            numpyro.sample("y", dist.Poisson(jax.numpy.exp(eta)), obs=y.astype(int))
        else:
            phi = numpyro.sample("phi", dist.Exponential(0.5))
            numpyro.sample("y", dist.NegativeBinomial2(jax.numpy.exp(eta), phi), obs=y.astype(int))

    kernel = numpyro.infer.NUTS(model, target_accept_prob=0.95)
    run = numpyro.infer.MCMC(
        kernel, num_warmup=WARM_UP, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    run.run(jax.random.PRNGKey(seed))
    draws = {name: np.asarray(each) for name, each in run.get_samples(group_by_chain=True).items()}
    found = {}
    for k, (group, (_, levels)) in enumerate(zip(one.groups, factors, strict=True)):
        shift = draws["b_slope"] * mean[0] / sd[0] if one.slope and k == 0 else 0.0
        found[f"sd({group})"] = draws[f"sd{k}"] * scale
        effects = (draws[f"b{k}"] - shift) * scale
        found |= {f"{group}[{level}]": effects[..., j] for j, level in enumerate(levels)}
    found["intercept"] = draws["intercept"] * scale + centre
    if names:
        slopes = draws["slopes"] * scale / sd
        found["intercept"] = found["intercept"] - slopes @ mean
        found |= {name: slopes[..., d] for d, name in enumerate(names)}
    if one.slope:
        s0, s1, cor, by = draws["sd0"], draws["sd_slope"], draws["cor"], f"{one.slope} by {one.groups[0]}"
        shift = mean[0] / sd[0]
        at_zero = np.sqrt(s0**2 - 2.0 * shift * cor * s0 * s1 + (shift * s1) ** 2)
        found[f"sd({one.groups[0]})"] = at_zero * scale
        found[f"sd({by})"], found[f"cor({by})"] = s1 * scale / sd[0], (cor * s0 - shift * s1) / at_zero
        slopes = draws["b_slope"] * scale / sd[0]
        found |= {f"{by}[{level}]": slopes[..., j] for j, level in enumerate(factors[0][1])}
    found |= {name: draws[name] * scale for name in ("sigma", "phi") if name in draws}
    return {
        "ess": float(min(effective_sample_size(each) for each in found.values())),
        "rhat": float(max(split_gelman_rubin(each) for each in found.values())),
        "mean": {name: float(each.mean()) for name, each in found.items()},
        "sd": {name: float(each.std()) for name, each in found.items()},
    }


if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        reference.store({name: sampled(TABLES[name])})
