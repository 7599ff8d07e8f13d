"""What a method's cells are worth at every budget, held against a reference whose own error is known.

Errors are in the posterior's units, so that n independent exact draws score 1/n: of a mean (m − μ)/σ, of a
variance (v/σ² − 1)/√(κ − 1), κ the kurtosis. A budget's error is the larger of the two mean squared errors
over coordinates and seeds, of what each seed would have handed in by then.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from flyrun.experiments.accuracy.posterior_errors import at_budget, of_moments
from flyrun.experiments.accuracy.score import held_out, likeness
from flyrun.experiments.gold import store
from flyrun.experiments.gold.reference import bound
from flyrun.experiments.gold.store import Gold
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.section import Row
from flyrun.ground.diagnostics.distances import ksd
from flyrun.ground.diagnostics.psis import pareto_k

SHOWN = (1.0, 10.0, 100.0, 1000.0)
MOST = SHOWN[-1]
NOISE = 3.0  # floors: nearer than that is not told from the truth
#: budgets, mostly a factor √2 apart; curves go on where a chain did
PASSES = np.union1d(0.01 * 2.0 ** (np.arange(41) / 2), SHOWN)
#: queries after set-up, for what is compared over numbers of data
AFTER = 10.0 ** (np.arange(8, 41) / 4)
_DRAWS, _SCORED, _FEWEST = 2_000, 400, 200


class _Estimates(NamedTuple):
    """Snapshots of a cell, T of them: steps and costs (T,), moments (T, D)."""

    step: np.ndarray
    queries: np.ndarray
    span: np.ndarray  # queries on the longest path
    seconds: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    mean_all: np.ndarray  # over all iterations, not the last half


def _estimates(draws: Draws) -> _Estimates | None:
    """None where a cell has no moments of a vector θ."""
    values: dict[str, Any] = {name: draws.values("estimate", name) for name in _Estimates._fields}
    if values["mean_all"] is None:
        values["mean_all"] = values["mean"]
    if any(value is None or not len(value) for value in values.values()) or values["mean"].ndim != 2:
        return None
    return _Estimates(**values)


def pool(chains: list[Draws]) -> Row:
    """`arena`: what the cells of an arm are worth at every budget; {} where no reference is of their
    posterior.

    mse, worst, se: (2, T), of means and of variances, worst the largest over coordinates; critical,
    critical_se: by queries on the longest path, where several workers share them.  bias, spread: (T,),
    squared bias and variance over seeds of the means, and early: (2, T), of means over all iterations. NaN
    before a seed's first estimate.  ended: passes after which the first seed ended.  end, half: squared bias
    and variance over seeds, (2, 2), of means and of variances, at the end, or after MOST passes, and after
    half of the steps there; NaN where that is none.
    """
    match = store.matching(chains[0].info.get("settings", {}), store.own_of(chains[0].cell.folder))
    cells = [cell for draws in chains if (cell := _estimates(draws)) is not None]
    if match is None or len(cells) < len(chains):
        return {}
    name, gold = match
    if cells[0].mean.shape[1] != len(gold.mean) or gold.facts["n_predictors"] > 1:
        return {}  # squares of several predictors' coordinates do not tell of their free combinations
    budgets, n = PASSES * gold.facts["n_data"], len(cells)
    offs = [
        (*of_moments(cell.mean, cell.square - cell.mean**2, gold), (cell.mean_all - gold.mean) / gold.sd)
        for cell in cells
    ]
    off_mean, off_variance, off_all = (
        np.array([at_budget(cell.queries, budgets, off[k]) for cell, off in zip(cells, offs, strict=True)])
        for k in range(3)
    )
    squares = np.stack([off_mean**2, off_variance**2])  # (2, S, T, D)
    each = squares.mean(axis=3)
    setup = [float(draws.facts.get("setup_queries", 0)) for draws in chains]
    after = [
        [at_budget(cell.queries - cost, AFTER, off[k] ** 2).mean(axis=1) for k in range(2)]
        for cell, off, cost in zip(cells, offs, setup, strict=True)
    ]
    bias, spread = _parts(off_mean)
    nothing = np.full(len(gold.mean), np.nan)
    most = MOST * gold.facts["n_data"]
    lasts = [max(int(np.searchsorted(cell.queries, most, side="right")) - 1, 0) for cell in cells]
    halves = [
        int(np.searchsorted(cell.step, cell.step[last] / 2, side="right")) - 1
        for cell, last in zip(cells, lasts, strict=True)
    ]
    parts = {
        name: np.transpose(
            [
                _parts(
                    np.array(
                        [off[k][at] if at >= 0 else nothing for off, at in zip(offs, places, strict=True)]
                    )
                )
                for k in range(2)
            ]
        )
        for name, places in {"end": lasts, "half": halves}.items()
    }
    shared = [
        [at_budget(cell.span, budgets, off[k] ** 2).mean(axis=1) for k in range(2)]
        for cell, off in zip(cells, offs, strict=True)
    ]
    arena = {
        "gold": name,
        "about": _about(name, gold),
        "n_data": gold.facts["n_data"],
        "floors": gold.floors,
        "seconds": np.array([at_budget(cell.queries, budgets, cell.seconds) for cell in cells]).mean(axis=0),
        "mse": each.mean(axis=1),
        "worst": squares.mean(axis=1).max(axis=2),
        "se": each.std(axis=1, ddof=1) / math.sqrt(n) if n > 1 else np.full((2, len(PASSES)), np.nan),
        "bias": bias,
        "spread": spread,
        "early": _parts(off_all),
        "ended": min(cell.queries[-1] for cell in cells) / gold.facts["n_data"],
        **parts,
        "setup": np.mean(setup),
        "workers": bool(any(cell.span[-1] < cell.queries[-1] for cell in cells)),
        "critical": np.mean(shared, axis=0),
        "critical_se": _se(shared),
        "after": np.mean(after, axis=0),
        "after_se": _se(after),
        **_at_the_end(chains, name, gold),
    }
    return {"arena": {key: np.asarray(value).tolist() for key, value in arena.items()}}


def _about(name: str, gold: Gold) -> str:
    """What makes a reference, and what certifies it, in a sentence."""
    certificate = "; ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in gold.facts["certificate"].items()
    )
    floors = f"floors {gold.floors[0]:.1g} (means) and {gold.floors[1]:.1g} (variances)"
    return f"Reference {name}: {gold.facts['recipe']}; {floors}; {certificate}."


def _se(each: list[Any]) -> np.ndarray:
    """Standard error of the mean over seeds; 0 where there is one."""
    n = len(each)
    return np.std(each, axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.zeros(np.shape(each[0]))


def _parts(off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared bias, without what few seeds add to it, and variance over seeds, (…), of errors (S, …, D)."""
    n = len(off)
    spread = off.var(axis=0, ddof=1) if n > 1 else np.zeros(off.shape[1:])
    return (off.mean(axis=0) ** 2 - spread / n).mean(axis=-1), spread.mean(axis=-1)


def _at_the_end(chains: list[Draws], name: str, gold: Gold) -> Row:
    """What a method's last draws, or its density, are like; means over seeds. {} where it has neither."""
    arm, problem = bound(gold.facts["settings"], chains[0].cell.folder.parents[1] / "setup")
    store.check_data(gold, problem.dataset, name)
    rows = [row for k, draws in enumerate(chains) if (row := _like(draws, gold, arm, problem, k == 0))]
    return {name: np.mean([row[name] for row in rows if name in row]) for name in rows[0]} if rows else {}


def _last_half(draws: Draws) -> np.ndarray:
    """The draws in the last half of all iterations, (T, D), as far as they are kept."""
    theta, info = draws.positions(), draws.info
    before = int(info.get("burn_in", 0)) // max(1, int(info.get("thin", 1)))
    return theta[max(0, (len(theta) - before) // 2) :]


def _like(draws: Draws, gold: Gold, arm: Any, problem: Any, deep: bool) -> Row:
    """deep: with what takes hundreds of passes over the data."""
    from flyrun.experiments.models.problem import (  # late: numba, which most reports do without
        log_densities,
        scores,
    )

    weight: Any = None
    theta: Any = draws.values("weighted", "theta")
    mean, covariance = (draws.values("approximation", name) for name in ("mean", "covariance"))
    row: Row = {}
    if draws.real():
        theta = _last_half(draws)
    elif theta is not None and (log_weight := draws.values("weighted", "log_weight")) is not None:
        weight, sign = softmax(log_weight), draws.values("weighted", "sign")
        row |= {
            "pareto_k": pareto_k(log_weight),
            "largest_weight": float(weight.max()),
            "weights": len(weight),
        }
        weight = weight if sign is None else weight * sign
    elif mean is not None and covariance is not None:
        root = np.linalg.cholesky(covariance)
        noise = np.random.default_rng(0).standard_normal((_DRAWS, len(mean)))
        theta = mean + noise @ root.T
        if deep:
            log_p = sum(log_densities(arm, problem, theta[:_SCORED]))
            log_q = -0.5 * (noise[:_SCORED] ** 2).sum(axis=1) - 0.5 * len(mean) * np.log(2 * np.pi)
            log_q -= np.log(np.diag(root)).sum()
            row |= {"pareto_k": pareto_k(log_p - log_q), "kl": np.mean(log_q - log_p) + gold.facts["log_z"]}
    else:
        return {}
    if len(theta) < 2:
        return {}
    at = np.linspace(0, len(theta) - 1, min(len(theta), _DRAWS)).astype(int)
    theta, weight = theta[at], None if weight is None else weight[at]
    few = np.linspace(0, len(theta) - 1, min(len(theta), _SCORED)).astype(int)
    if deep and weight is None and len(few) >= _FEWEST:
        root = np.linalg.cholesky(np.linalg.inv(np.atleast_2d(np.cov(gold.draws.T))))
        row["ksd"] = ksd(theta[few], scores(arm, problem, theta[few]), root)
    if deep and len(problem.dataset.test_target):
        row["held_out"] = held_out(arm, problem, theta[few], None if weight is None else weight[few])
    return row | likeness(theta, weight, gold)


def errors_of(arm: ArmResult) -> dict[str, Any]:
    """What `pool` gave of an arm."""
    return arm.pooled.arena


def held(arms: Iterable[ArmResult]) -> list[ArmResult]:
    """Those that are held against a reference."""
    return [arm for arm in arms if hasattr(arm.pooled, "arena")]
