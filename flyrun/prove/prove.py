"""The trials of a proof, and the verb: run them, print what they found, keep the outcome.

Every trial is run a second time against the posterior at another temperature, which it must tell from the
right one: a sampler that never moves, or chains too short to tell, prove nothing.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from flyrun.config import plugins
from flyrun.config.arm import Arm
from flyrun.config.schema import Choice
from flyrun.errors import ConfigError
from flyrun.models import passes
from flyrun.models.base_density import log_base
from flyrun.models.collapse import collapse
from flyrun.models.likelihood import log_bound
from flyrun.models.problem import Problem
from flyrun.numerics.compiled import jit
from flyrun.prove import posteriors
from flyrun.prove.counted import COUNT
from flyrun.prove.posteriors import HEAT, CountedLogistic, Truth
from flyrun.runner import proofs
from flyrun.runner.environment import one_thread
from flyrun.samplers.method import prepare

LEVEL = 1e-5
"""Probability that a proof fails by luck alone; small, as seeds are fixed: each try has the same luck."""
CHAINS, STARTS, STEPS = 24, 4_000, 20


class Trial(NamedTuple):
    """One line of a proof: what was tried, on which posterior, whether it passed, and the figures."""

    name: str
    of: str
    passed: bool
    said: str


def prove(choice: Choice, iterations: int, say: Callable[[str], object]) -> bool:
    """Run all trials of a sampler, likelihood or prior; print and keep what they found; whether all passed.

    Raises ConfigError where there is nothing to try: no posterior that it goes with, or no draws.
    """
    arms = posteriors.arms(choice, iterations)
    lines, good = [], True
    with tempfile.TemporaryDirectory(prefix="flyrun-prove-") as folder, one_thread():
        for trial in _trials(choice, arms, Path(folder)):
            lines.append(f"{'passed' if trial.passed else 'FAILED'}  {trial.name}, {trial.of}: {trial.said}")
            say(lines[-1])
            good = good and trial.passed
    proofs.keep(choice, good, lines)
    say(_outcome(choice, good))
    return good


def _outcome(choice: Choice, good: bool) -> str:
    what = f"{choice.group}={choice.name}"
    if not good:
        return f"{what}: not proven"
    if not plugins.is_foreign(choice):
        return f"{what}: proven"
    if not choice.exact:
        return f"{what}: proven, but its class does not say `exact = True`, so tables say exact: unknown"
    return f"{what}: proven; tables say exact: yes while its sources and settings stay as they are"


def _trials(choice: Choice, arms: dict[str, Arm], folder: Path) -> Iterator[Trial]:
    level = LEVEL / (10 * len(arms))
    for of, arm in arms.items():
        right, wrong = Truth(arm, folder), Truth(arm, folder, HEAT)
        if choice.group != "sampler" and of == choice.name:
            yield from _functions(choice, arm, right.problem, of)
        method = prepare(arm, folder)
        if method.answers == "density":
            raise ConfigError(
                f"prove {choice.name}: answers with a density, of which there is nothing to prove"
            )
        found, told, made = answers(method)
        p_wrong, _ = by_seeds(found, wrong, level)
        yield _told("moments", of, *by_seeds(found, right, level), p_wrong, level, f"{CHAINS} seeds")
        if isinstance(arm.model, CountedLogistic):
            yield Trial("counting", of, told == made, f"{told:,} queries told, {made:,} made")
        if method.answers == "draws" and (ends := from_exact(method, right, STARTS, STEPS)) is not None:
            bad: Any = from_exact(method, wrong, STARTS, STEPS)
            what = f"{STEPS} steps from each of {STARTS:,} exact draws"
            p_wrong, _ = paired(wrong, bad[0], bad[1], level)
            yield _told("invariance", of, *paired(right, *ends, level), p_wrong, level, what)


def answers(method: Any) -> tuple[list[tuple[np.ndarray, np.ndarray]], int, int]:
    """(draws (n, 2), weights (n,)) of CHAINS seeds, and the queries told of and made in all steps."""
    found, told, made = [], 0, 0
    protocol = method.arm.protocol
    for seed in range(CHAINS):
        state = method.init(seed)
        COUNT[0] = 0
        state, records = method.advance(state, protocol.iterations)
        told, made = told + int(records["queries"].sum()), made + int(COUNT[0])
        if method.answers == "draws":
            theta = records["theta"][protocol.burn_in :]
            found.append((theta, np.full(len(theta), 1.0 / len(theta))))
        else:
            result = method.result(state)
            weight = np.exp(result["log_weight"] - result["log_weight"].max()) * result.get("sign", 1.0)
            found.append((result["theta"], weight / weight.sum()))
    return found, told, made


def by_seeds(found: list, truth: Truth, level: float) -> tuple[float, float]:
    """Least p of moments over independent seeds against quadrature, by t, and the mean, in sds, that the
    level would see.
    """
    off = np.array([weight @ truth.functions(theta) for theta, weight in found]) - truth.expected
    se = np.maximum(off.std(axis=0, ddof=1) / np.sqrt(len(off)), 1e-300)
    p = 2 * stats.t.sf(np.abs(off.mean(axis=0)) / se, len(off) - 1)
    return float(p.min()), float(stats.t.isf(level / 2, len(off) - 1) * se[:2].max())


def from_exact(method: Any, truth: Truth, starts: int, steps: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Exact draws, and where so many steps of a tuned method lead; None where it cannot begin there."""
    tuned, _ = method.advance(method.init(0), max(method.arm.protocol.burn_in, 1))
    begin = truth.draws(starts, seed=5)
    ends = np.empty_like(begin)
    for i, theta in enumerate(begin):
        state = method.at(theta, tuned, i)
        if state is None:
            return None
        ends[i] = method.advance(state, steps)[1]["theta"][-1]
    return begin, ends


def paired(truth: Truth, begin: np.ndarray, end: np.ndarray, level: float) -> tuple[float, float]:
    """Least p of paired differences of moments, by z, and the mean, in sds, that the level would see."""
    off = truth.functions(end) - truth.functions(begin)
    se = np.maximum(off.std(axis=0, ddof=1) / np.sqrt(len(off)), 1e-300)
    p = 2 * stats.norm.sf(np.abs(off.mean(axis=0)) / se)
    return float(p.min()), float(stats.norm.isf(level / 2) * se[:2].max())


def _told(name: str, of: str, p: float, seen: float, p_wrong: float, level: float, what: str) -> Trial:
    """A trial that must not tell the draws from the right posterior, and must from the wrong one."""
    control = f"at temperature {HEAT:g} in its place p = {p_wrong:.0e}"
    if p_wrong >= level:
        control += ", so it cannot tell: more iterations could (iterations=N)"
    said = f"{what}, least p = {p:.2g} of {level:.0e}; a mean off by {seen:.2g} sd would show; {control}"
    return Trial(name, of, p >= level > p_wrong, said)


@jit
def _bounds(bound, model, index, eta, values, slopes):
    log_bound(bound, model, index, eta, values, slopes)


@jit
def _bases(base, thetas, values, gradients):
    for g in range(thetas.shape[0]):
        values[g] = log_base(base, thetas[g], gradients[g])


def _functions(choice: Choice, arm: Arm, problem: Problem, of: str) -> Iterator[Trial]:
    """What a likelihood or a prior says of itself: slopes, bounds, and their product."""
    rng = np.random.default_rng(3)
    if choice.group == "prior":
        theta = rng.standard_normal((60, 2)) * problem.fit.scale
        step = np.array([1e-6, 0.0]) * (1.0 + np.abs(theta[:, :1]))
        below, here, above = (_log_bases(problem.prior, theta + side * step) for side in (-1, 0, 1))
        yield _close("slopes", of, (above[0] - below[0]) / (2 * step[:, 0]), here[1][:, 0], 1e-4)
        return
    model, features = problem.model, problem.features
    every = slice(0, len(features.rows))
    touching = passes.block_predictors(model, features, problem.fit.theta_map, every)
    far = np.exp(rng.uniform(-3, 6, (400, *touching.shape)))
    places = touching + far * rng.choice([-1.0, 1.0], far.shape)
    step = 1e-6 * (1.0 + np.abs(places[0]))
    below, here, above = (passes.values_and_slopes(model, places[0] + side * step) for side in (-1, 0, 1))
    yield _close("slopes", of, (above[0] - below[0]) / (2 * step[:, 0]), here[1][:, 0], 1e-4)
    if not arm.model.bounds:
        return
    bound = arm.model.code.map_bound(model, touching)
    worst = -np.inf
    for eta in places:
        log_b = _log_bounds(bound, model, eta)[0]
        over = (log_b - passes.values_and_slopes(model, eta)[0]) / (1.0 + np.abs(log_b))
        worst = max(worst, float(over.max()))
    said = f"log B - log L is at most {worst:.1e} of its size at {places.size:,} predictors"
    yield Trial("bounds", of, worst < 1e-9, said)
    ours, theirs = _log_bounds(bound, model, touching), passes.values_and_slopes(model, touching)
    yield _close("bounds touch", of, ours[0], theirs[0], 1e-6)
    yield _close("bounds touch, slope", of, ours[1], theirs[1], 1e-6)
    theta = rng.standard_normal((20, 2))
    predictors = (passes.block_predictors(model, features, one, every) for one in theta)
    sums = np.array([_log_bounds(bound, model, eta)[0].sum() for eta in predictors])
    yield _close("product of bounds", of, _log_bases(collapse(bound, model, features), theta)[0], sums, 1e-8)


def _log_bounds(bound: Any, model: Any, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log B_n, (N,), and slopes, (N, K), at predictors (N, K)."""
    values, slopes = np.zeros(len(eta)), np.zeros(eta.shape)
    _bounds(bound, model, np.arange(len(eta)), np.ascontiguousarray(eta), values, slopes)
    return values, slopes


def _log_bases(base: Any, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities, (G,), and gradients, (G, P), of a base at positions (G, P)."""
    values, gradients = np.zeros(len(thetas)), np.zeros(thetas.shape)
    _bases(base, thetas, values, gradients)
    return values, gradients


def _close(name: str, of: str, found: np.ndarray, wanted: np.ndarray, room: float) -> Trial:
    off = float((np.abs(found - wanted) / (1.0 + np.abs(wanted))).max())
    return Trial(name, of, off < room, f"off by at most {off:.1e} of 1 + its size, {room:.0e} allowed")
