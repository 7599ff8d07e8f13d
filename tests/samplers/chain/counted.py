"""What every update asks of every target, counted apart from the meter; printed as JSON.

Counted at the two doors through which all evaluations and proposals go.
"""

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.samplers.chain import elliptical_slice, independence, mala, random_walk, slice
from flyrun.experiments.samplers.chain.brightness.explicit import explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.loop import empty_draws, run_chain
from flyrun.experiments.samplers.chain.targets.firefly import brighten, darken, evaluate_dark, query, select
from flyrun.experiments.samplers.chain.targets.target import (
    bright_count,
    data_gradient,
    keep,
    kept_log_data,
    log_data,
    start,
)
from flyrun.ground.numerics.compiled import implements
from tests.exactness.chains import firefly_target, full_target, reference, toy


class Counted(NamedTuple):
    """A target that counts what is asked of it and passes it on."""

    base: Any
    memory: Any
    inner: Any
    features: Any
    evaluations: np.ndarray
    queried: np.ndarray


def counted(target):
    return Counted(
        target.base, target.memory, target, target.features, np.zeros(1, np.int64), np.zeros(1, np.int64)
    )


@implements(log_data, Counted)
def _log_data(target, theta, gradient):
    target.evaluations[0] += 1
    return log_data(target.inner, theta, gradient)


@implements(data_gradient, Counted)
def _data_gradient(target, theta, gradient):
    target.evaluations[0] += 1
    data_gradient(target.inner, theta, gradient)


@implements(query, Counted)
def _query(target, index, theta):
    target.queried[0] += index.shape[0]
    query(target.inner, index, theta)


@implements(evaluate_dark, Counted)
def _look(target, index, theta):
    target.queried[0] += index.shape[0]
    evaluate_dark(target.inner, index, theta)


@implements(select, Counted)
def _choose(target, chosen, n):
    select(target.inner, chosen, n)


@implements(darken, Counted)
def _dim(target, i):
    darken(target.inner, i)


@implements(brighten, Counted)
def _light(target, n, j):
    brighten(target.inner, n, j)


@implements(keep, Counted)
def _keep(target):
    keep(target.inner)


@implements(kept_log_data, Counted)
def _kept_log_data(target, gradient):
    return kept_log_data(target.inner, gradient)


@implements(start, Counted)
def _start(target, rng, theta):
    start(target.inner, rng, theta)


@implements(bright_count, Counted)
def _bright_count(target):
    return bright_count(target.inner)


UPDATES = {
    "random_walk": (random_walk, SimpleNamespace(target_accept=0.35, step=0.1)),
    "mala": (mala, SimpleNamespace(target_accept=0.57, step=0.1)),
    "slice": (slice, SimpleNamespace(width=0.1, most_widenings=20)),
    "elliptical_slice": (elliptical_slice, SimpleNamespace()),
    "independence": (independence, SimpleNamespace(freedom=8.0)),
}
SHAPED = ("elliptical_slice", "independence")
N, ITERATIONS = 120, 40
SWEEPS = {
    "regular": lambda: NoBrightness(),
    "implicit": lambda: implicit(0.1, N),
    "implicit, all proposed": lambda: implicit(1.0, N),
    "explicit": lambda: explicit(0.3, "with_replacement", N),
    "explicit, all visited": lambda: explicit(1.0, "sequential", N),
}


def run(name: str, arm: str) -> dict[str, Any]:
    """Of each iteration: bright data before it, queries metered, density evaluations, dark data asked; and
    how many moved."""
    module, config = UPDATES[name]
    problem, sweep = toy(n_data=N), SWEEPS[arm]()
    if arm == "regular":
        target = counted(full_target(problem, module.GRADIENTS))
    else:
        target = counted(firefly_target(problem, module.GRADIENTS))
    theta, rng = problem.mode.copy(), np.random.default_rng(7)
    shape = (reference(problem, target.inner),) if name in SHAPED else ()
    kernel = module.build(config, theta.size, *shape)
    start(target, rng, theta)
    first, rows, moved = int(target.memory.queries[0]), [], 0
    for i in range(ITERATIONS):
        target.evaluations[0], target.queried[0] = 0, 0
        n_bright = N if arm == "regular" else int(target.memory.partition.n_bright[0])
        draws, before = empty_draws(1, 1, i, theta.size), theta.copy()
        run_chain(rng, target, kernel, sweep, theta, i, 0, 1, draws)
        moved += bool(np.any(theta != before))
        rows.append([n_bright, int(draws.queries[0]), int(target.evaluations[0]), int(target.queried[0])])
    return {"first": first, "rows": rows, "moved": moved}


if __name__ == "__main__":
    print(json.dumps({name: {arm: run(name, arm) for arm in SWEEPS} for name in UPDATES}))
