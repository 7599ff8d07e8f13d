"""Posteriors of all tables by the second implementation, into results/reference/truth/moments.json.

    python -m tools.truth.reference [NAME …]

Small and hard tables: NumPyro's NUTS, whose moments shape the t from which draws are weighted then
(importance sampling): `apart` is by how much a mean of these two differs, in sds. Where few of these are
effective, or an sd has more noise than 1 %, as of a posterior far from a t, longer chains alone. Tables of
10⁶ rows: Sobol' points about the mode that Newton's method finds, of its mean and covariance, weighted by all
rows. Kept: means and sds of slopes and intercept on the columns' own scales and of the numbers that are
sampled, R-hat, effective draws.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.fitting.proposal import Mixture, Several
from tools.truth.tables import LONG, TABLES, Table

STORED = Path(__file__).parents[2] / "results" / "reference" / "truth" / "moments.json"
CHAINS, WARM_UP, DRAWS, LONGER = 4, 500, 1_000, 10_000
_FEWEST, _NOISE = 10_000, 0.01  # effective weighted draws, and the relative error of an sd
WEIGHTED, _CALL = 200_000, 2_000  # draws, and of one call
_FREEDOM, _WIDER = 5.0, 1.3  # of the t
POINTS = 64
_BLOCK, _FEW = 100_000, 20_000  # rows


def stored() -> dict[str, dict[str, Any]]:
    """All references that there are, by the table's name."""
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}


def sampled(table: Table, seed: int = 0) -> dict[str, Any]:
    """By NUTS."""
    import jax
    import numpyro.infer
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
    from scipy.optimize import minimize

    from tools.truth import second

    its, shift, unit = second.data(table)

    def potential(x: Any) -> Any:
        return -second.of_rows(table.family, its, x) - second.log_prior(table.family, x)

    slope = jax.jit(jax.value_and_grad(potential))
    begin = np.zeros(its.x.shape[1] + len(second.NUMBERS[table.family]))
    middle = minimize(lambda x: tuple(map(np.asarray, slope(x))), begin, jac=True, method="BFGS")
    root = np.linalg.cholesky(middle.hess_inv)
    start = np.random.default_rng(seed + 1).standard_t(4.0, (CHAINS, len(begin)))

    def chains(many: int) -> tuple[np.ndarray, dict[str, Any]]:
        kernel = numpyro.infer.NUTS(
            potential_fn=lambda z: potential(middle.x + root @ z), target_accept_prob=0.9, dense_mass=True
        )
        run = numpyro.infer.MCMC(
            kernel, num_warmup=WARM_UP, num_samples=many, num_chains=CHAINS, chain_method="vectorized",
            progress_bar=False,
        )  # fmt: skip
        run.run(jax.random.PRNGKey(seed), init_params=start)
        x = middle.x + np.asarray(run.get_samples(group_by_chain=True)) @ root.T
        each = np.moveaxis(x, -1, 0)
        rhat = max(float(np.max(split_gelman_rubin(one))) for one in each)
        ess = min(float(np.min(effective_sample_size(one))) for one in each)
        return x.reshape(-1, len(begin)), {"nuts_ess": ess, "rhat": rhat}

    x, told = chains(DRAWS)
    nuts = _own_scale(table, x, shift, unit)
    draws, weight = _sharpened(x, jax.jit(jax.vmap(potential)), seed)
    found = _moments(_own_scale(table, draws, shift, unit), weight)
    if found["ess"] < _FEWEST or _noise(_own_scale(table, draws, shift, unit), weight, found) > _NOISE:
        x, told = chains(LONGER)
        found = _moments(_own_scale(table, x, shift, unit), np.full(len(x), 1.0 / len(x)))
        return found | told | {"by": "NUTS", "ess": told["nuts_ess"]}
    apart = max(abs(float(nuts[name].mean()) - found["mean"][name]) / found["sd"][name] for name in nuts)
    return found | told | {"by": "NUTS and weights", "apart": apart}


def _sharpened(x: np.ndarray, potential: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws (S, P) and their weights (S,), of t's about parts of x, (T, P), then of the draws before.

    One t about the moments does not reach a tail that bends away, and nor do chains: of a Weibull's shape by
    one event NUTS' sd is .97, and 1.10 by draws of such parts.
    """
    rng, weight = np.random.default_rng(seed), np.full(len(x), 1.0 / len(x))
    for many in (*[WEIGHTED // 5] * 4, WEIGHTED):
        centre = weight @ x
        whole = Mixture.of(centre, _WIDER * ((x - centre).T * weight) @ (x - centre), _FREEDOM, _FREEDOM)
        parts = Several.of_draws(x, weight, [whole], rng)
        x = parts.draw(rng, many)
        log_p = [-np.asarray(potential(x[first : first + _CALL])) for first in range(0, many, _CALL)]
        log_weight = np.concatenate(log_p) - parts.log_density(x)
        weight = np.exp(log_weight - np.nanmax(log_weight))
        weight = np.where(np.isfinite(weight), weight, 0.0)
        weight /= weight.sum()
    return x, weight


def _moments(found: dict[str, np.ndarray], weight: np.ndarray) -> dict[str, Any]:
    """Mean and sd by term, of draws (S,) each with weights (S,), and how many are effective."""
    mean = {name: float(weight @ one) for name, one in found.items()}
    sd = {name: float(np.sqrt(weight @ (one - mean[name]) ** 2)) for name, one in found.items()}
    return {"ess": float(1.0 / (weight**2).sum()), "mean": mean, "sd": sd}


def _noise(draws: dict[str, np.ndarray], weight: np.ndarray, found: dict[str, Any]) -> float:
    """The largest relative standard error of an sd: of a long tail effective draws tell too little."""
    away = [((x - found["mean"][name]) / found["sd"][name]) ** 2 - 1.0 for name, x in draws.items()]
    return max(0.5 * float(np.sqrt(weight**2 @ one**2)) for one in away)


def weighted(table: Table) -> dict[str, Any]:
    """By weights of all rows."""
    import jax
    import jax.numpy as jnp
    from scipy.stats import norm, qmc

    from tools.truth import second

    its, shift, unit = second.data(table)
    family, n = table.family, len(its.y)

    def of_block(block: Any, x: Any) -> Any:
        return second.of_rows(family, block, x)

    blocks = [second.Data(*(one[first : first + _BLOCK] for one in its[:3]), *its[3:])
              for first in range(0, n, _BLOCK)]  # fmt: skip
    # what is of values counts once
    blocks = [one._replace(rows=its.rows * (k == 0)) for k, one in enumerate(blocks)]
    value, second_order = jax.jit(of_block), jax.jit(jax.hessian(of_block, argnums=1))
    slope = jax.jit(jax.grad(of_block, argnums=1))
    of_prior = jax.grad(lambda x: second.log_prior(family, x))

    def of_all(function: Any, parts: list[Any], x: Any) -> np.ndarray:
        return np.sum([np.asarray(function(part, x)) for part in parts], axis=0)

    def step_of(parts: list[Any], x: Any) -> tuple[np.ndarray, np.ndarray, float]:
        """Newton's step by these rows, minus the second derivatives, and what it gains."""
        rise = of_all(slope, parts, x) + np.asarray(of_prior(x))
        bent = -of_all(second_order, parts, x) - np.asarray(jax.jacobian(of_prior)(x))
        values, vectors = np.linalg.eigh(bent)
        step = vectors @ ((vectors.T @ rise) / np.maximum(np.abs(values), 1.0))
        return step * min(1.0, 1.0 / np.abs(step).max()), bent, abs(float(step @ rise))

    x = jnp.zeros(its.x.shape[1] + len(second.NUMBERS[family])).at[its.x.shape[1] - 1].set(table.level)
    few = second.Data(*(one[:_FEW] for one in its[:3]), its.values, its.rows * (_FEW / n))
    for rows, enough in (([few], 1e-3), (blocks, 1e-8)):  # from where a few rows lead
        for _ in range(60):
            step, bent, gain = step_of(rows, x)
            x = x + step
            if gain < enough:
                break
        else:
            raise SystemExit(f"{table.name}: Newton's method did not end")
    root = np.linalg.cholesky(np.linalg.inv(bent))
    noise = norm.ppf(qmc.Sobol(len(x), seed=0).random(POINTS).clip(1e-9, 1.0 - 1e-9))
    noise -= noise.mean(axis=0)
    noise = noise @ np.linalg.inv(np.linalg.cholesky(np.cov(noise.T, bias=True))).T
    points = np.asarray(x) + noise @ root.T
    log_weight = np.array(
        [of_all(value, blocks, p) + float(second.log_prior(family, p)) + 0.5 * z @ z
         for p, z in zip(points, noise, strict=True)]
    )  # fmt: skip
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return {"by": "weights", **_moments(_own_scale(table, points, shift, unit), weight)}


def _own_scale(table: Table, x: np.ndarray, shift: np.ndarray, unit: np.ndarray) -> dict[str, np.ndarray]:
    """Draws (...) by term, per unit of the columns as they stand in the file, of draws x (..., P)."""
    from tools.truth.second import NUMBERS

    slopes = x[..., :3] / unit
    terms = {name: slopes[..., d] for d, name in enumerate(("normal", "skew", "two"))}
    terms["intercept"] = x[..., 3] - slopes @ shift
    further = NUMBERS[table.family]
    return terms | {f"{one.of} {one.name}": x[..., 4 + k] for k, one in enumerate(further)}


def main() -> int:
    """Those that are named, or all that are not there yet."""
    named = sys.argv[1:]
    for one in TABLES:
        if one.name in named or (not named and one.name not in stored()):
            found = (weighted if one.rows == LONG else sampled)(one)
            STORED.parent.mkdir(parents=True, exist_ok=True)
            half = STORED.with_suffix(".part")
            kept = stored() | {one.name: found}
            half.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
            half.replace(STORED)
            told = {key: found.get(key) for key in ("ess", "nuts_ess", "rhat", "apart")}
            print(f"{one.name}: {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
