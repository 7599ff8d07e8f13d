"""The trials of a proof, and the verb: run them, print what they found, keep the outcome.

Every trial is run a second time against the posterior at another temperature, which it must tell from the
right one: a sampler that never moves, or chains too short to tell, prove nothing.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.features import Model
from flyrun.experiments.models.likelihood import log_bound
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.prove import posteriors
from flyrun.experiments.prove.counted import COUNT, counts
from flyrun.experiments.prove.posteriors import HEAT, Truth
from flyrun.experiments.runner import proofs
from flyrun.experiments.samplers import method as samplers
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.environment import one_thread
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.numerics.compiled import jit
from flyrun.ground.schema import Choice

LEVEL = 1e-5
"""Probability that a proof fails by luck alone; small, as seeds are fixed: each try has the same luck."""
CHAINS, STARTS, STEPS = 24, 4_000, 20


class Trial(NamedTuple):
    """One line of a proof: what was tried, on which posterior, whether it passed, and the figures."""

    name: str
    of: str
    passed: bool | None  # None: not tried
    text: str

    def __str__(self) -> str:
        """Say it in a line."""
        verdict = {True: "passed", False: "FAILED", None: "not tried"}[self.passed]
        return f"{verdict}  {self.name}, {self.of}: {self.text}"


def prove(choice: Choice, iterations: int, say: Callable[[str], object], starts: int | None = None) -> bool:
    """Run all trials of a sampler, likelihood or prior; print and keep what they found; whether all passed.

    starts: exact draws that chains begin at, STARTS where None.
    Raises ConfigError where there is nothing to try: no posterior that it goes with, or no draws.
    """
    arms = posteriors.arms(choice, iterations)
    lines, good, claims = [], True, set[bool | None]()
    with tempfile.TemporaryDirectory(prefix="flyrun-prove-") as folder, one_thread():
        for trial in _trials(choice, arms, Path(folder), claims, starts or STARTS):
            lines.append(str(trial))
            say(lines[-1])
            good = good and trial.passed is not False
    proofs.keep(choice, good, lines)
    say(_outcome(choice, good, claims))
    return good


def _outcome(choice: Choice, good: bool, claims: set[bool | None]) -> str:
    what = f"{choice.group}={choice.name}"
    if not good:
        return f"{what}: not proven"
    if False in claims and choice.group == "sampler":
        return f"{what}: proven, but the method says exact=False of itself, so tables say exact: no"
    if not plugins.is_foreign(choice):
        return f"{what}: proven"
    if not choice.exact:
        return f"{what}: proven, but its class does not say `exact = True`, so tables say exact: unknown"
    return f"{what}: proven; tables say exact: yes while its sources and settings stay as they are"


def _trials(
    choice: Choice, arms: dict[str, Arm], folder: Path, claims: set[bool | None], starts: int
) -> Iterator[Trial]:
    """claims: takes what the methods say of their exactness."""
    level, refused = LEVEL / (10 * len(arms)), []
    for of, arm in arms.items():
        if choice.group == "sampler" and arm.sampler.needed_at(arm, 0):
            raise ConfigError(f"prove {choice.name}: reads other arms' cells, which a proof does not run")
        # its own likelihood where this one counts, whose bounds know nothing of that; fits are kept in folder
        plain = replace(arm, model=choice) if choice.group == "model" else arm
        try:
            prepare(plain, folder)
            method = prepare(arm, folder)
        except FlyrunError as error:
            refused.append(error)
            yield Trial("all", of, None, str(error))
            continue
        if method.answers == "density":
            raise ConfigError(
                f"prove {choice.name}: answers with a density, of which there is nothing to prove"
            )
        claims.add(method.facts().exact)
        try:
            yield from _of_arm(choice, of, (arm, plain), method, folder, level, starts)
        except Exception as error:  # whatever another's code does
            yield Trial("runs", of, False, f"{type(error).__name__}: {error}")
    if len(refused) == len(arms):
        raise refused[0]
    usual = ("logistic", "logistic, Firefly", "robust") if choice.group == "sampler" else ()
    for of in (posterior for posterior in usual if posterior not in arms):
        yield Trial("all", of, None, f"{choice.group}={choice.name} does not go with it")
    most = max(getattr(arm.dataset, "n_data", 0) for arm in arms.values())
    yield Trial(
        "more", "anything", None, f"more than two coordinates, more than {most:,} rows, several predictors"
    )


def _of_arm(
    choice: Choice, of: str, arms: tuple[Arm, Arm], method: Any, folder: Path, level: float, starts: int
) -> Iterator[Trial]:
    arm, plain = arms
    right, wrong = Truth(plain, folder), Truth(plain, folder, HEAT)
    if choice.group in ("model", "prior") and of == choice.name:
        yield from _functions(choice, plain, right.problem, of)
    yield (agreed := _agreed(method, of))
    if not agreed.passed:
        return
    yield _resumed(method, prepare(arm, folder), of)
    draws, spent, counted, begun = answers(method)
    p_wrong, _ = by_seeds(draws, wrong, level)
    yield _told("moments", of, *by_seeds(draws, right, level), p_wrong, level, f"{CHAINS} seeds")
    if not counts(arm.model):
        yield Trial("counting", of, None, "this likelihood does not count its evaluations")
    elif spent and not counted:
        yield Trial(
            "counting", of, None, f"{spent:,} queries told, by code that evaluates no likelihood here"
        )
    else:
        right_count = spent in (counted, counted + begun)
        text = f"{spent:,} queries told, {counted:,} made, {begun:,} before the first steps"
        yield Trial("counting", of, right_count, text)
    if "density" in vars(method):
        yield _past_the_meter(arm, folder, method, of)
    ends = from_exact(method, right, starts, STEPS) if method.answers == "draws" else None
    if ends is None:
        yield Trial("invariance", of, None, "it has no `at(theta, tuned, seed)` to begin at exact draws")
        return
    bad: Any = from_exact(method, wrong, starts, STEPS)
    what = f"{STEPS} steps from each of {starts:,} exact draws"
    p_wrong, _ = paired(wrong, bad[0], bad[1], level)
    yield _told("invariance", of, *paired(right, *ends, level), p_wrong, level, what)


def _agreed(method: Any, of: str) -> Trial:
    """Whether states and records are as the contract has them."""
    n = min(50, method.arm.protocol.iterations)
    state = method.init(0)
    named = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    if len(named) < len(state) or any(value.dtype.hasobject for value in named.values()):
        odd = next(k for k, v in state.items() if k not in named or v.dtype.hasobject)
        return Trial("contract", of, False, f"state {odd!r} is no array of plain numbers or text")
    before = {key: value.copy() for key, value in named.items()}
    try:
        after, given = method.advance(state, n)
        records = samplers.agreed(method, given, n, n)
        theta = records.get("theta") if method.answers == "draws" else method.result(after).get("theta")
        if theta is None or theta.ndim != 2 or theta.shape[1:] != (2,) or theta.dtype.kind != "f":
            shape = None if theta is None else f"{theta.dtype} of shape {theta.shape}"
            return Trial(
                "contract", of, False, f"theta is {shape}, of two coordinates it must be (…, 2) floats"
            )
        if not np.isfinite(theta).all():
            return Trial("contract", of, False, "theta has values that are no numbers")
    except FlyrunError as error:
        return Trial("contract", of, False, str(error))
    kept = all(np.array_equal(state[key], value, equal_nan=_real(value)) for key, value in before.items())
    single = np.asarray(given.get("theta", theta)).dtype.itemsize < 8
    text = f"states, sizes and counts of {n} steps" if kept else "advance changes the state that it is given"
    return Trial(
        "contract", of, kept, text + "; draws in single precision, which are stored in double" * single
    )


def _resumed(method: Any, again: Any, of: str) -> Trial:
    """Whether steps are a function of the state: in one go, and cut here and there by another object."""
    protocol = method.arm.protocol
    total = min(protocol.iterations, protocol.burn_in + 200)
    cuts = sorted(
        {1, 3, total // 3, protocol.burn_in - 1, protocol.burn_in + 1, total - 1} & set(range(1, total))
    )
    whole, records = method.advance(method.init(1), total)
    state, parts = again.init(1), []
    for first, last in itertools.pairwise((0, *cuts, total)):
        again.advance(again.init(2), 2)  # what it remembers besides the state is another's
        state, part = again.advance({key: value.copy() for key, value in state.items()}, last - first)
        parts.append(part)
    places = ", ".join(f"{cut:,}" for cut in cuts)
    text = f"{total:,} steps in one go and cut at {places}"
    for name in records.keys() - {"seconds"}:
        joined = np.concatenate([np.asarray(part[name]) for part in parts])
        if not np.array_equal(joined, records[name], equal_nan=_real(joined)):
            alike = joined == np.asarray(records[name])
            step = int(np.argmin(alike.reshape(len(alike), -1).all(axis=1))) if alike.shape else 0
            return Trial("resumed", of, False, f"{text}: {name} differs from step {step + 1:,} on")
    for what in ("result", "estimates"):
        ours, theirs = getattr(method, what)(whole), getattr(again, what)(state)
        for name, value in ours.items():
            if not np.array_equal(value, theirs[name], equal_nan=_real(np.asarray(value))):
                return Trial("resumed", of, False, f"{text}: {name} of its {what} differs")
    return Trial("resumed", of, True, f"{text}: the same to the last bit")


def _past_the_meter(arm: Arm, folder: Path, method: samplers.Method, of: str) -> Trial:
    """Whether a method reads rows by its meter alone: other rows that it is shown must change nothing."""
    blind = prepare(posteriors.hidden(arm), folder)
    n = min(50, arm.protocol.iterations)
    (_, seen), (_, unseen) = (each.advance(each.init(3), n) for each in (method, blind))
    pairs = ((np.asarray(seen[name]), np.asarray(unseen[name])) for name in seen)
    same = all(np.array_equal(left, right, equal_nan=_real(left)) for left, right in pairs)
    text = f"{n} steps, with other rows shown in place of those that `density` reads"
    return Trial("meter", of, same, text + ": the same to the last bit" if same else text + ": others")


def _real(values: np.ndarray) -> bool:
    return values.dtype.kind == "f"


def answers(method: Any) -> tuple[list[tuple[np.ndarray, np.ndarray]], int, int, int]:
    """(draws (n, 2), weights (n,)) of CHAINS seeds, and the queries told of, made in all steps, and made
    before the first ones, which a method may charge to these.
    """
    draws, spent, counted, begun = [], 0, 0, 0
    protocol = method.arm.protocol
    for seed in range(CHAINS):
        COUNT[0] = 0
        state = method.init(seed)
        begun, COUNT[0] = begun + int(COUNT[0]), 0
        state, records = method.advance(state, protocol.iterations)
        spent, counted = spent + int(records["queries"].sum()), counted + int(COUNT[0])
        if method.answers == "draws":
            theta = np.asarray(records["theta"], float)[protocol.burn_in :]
            draws.append((theta, np.full(len(theta), 1.0 / len(theta))))
        else:
            result = method.result(state)
            weight = np.exp(result["log_weight"] - result["log_weight"].max()) * result.get("sign", 1.0)
            draws.append((result["theta"], weight / weight.sum()))
    return draws, spent, counted, begun


def by_seeds(draws: list, truth: Truth, level: float) -> tuple[float, float]:
    """Least p of moments over independent seeds against quadrature, by t, and the mean, in sds, that the
    level would see.
    """
    off = np.array([weight @ truth.functions(theta) for theta, weight in draws]) - truth.expected
    se = np.maximum(off.std(axis=0, ddof=1) / np.sqrt(len(off)), 1e-300)
    p = 2 * stats.t.sf(np.abs(off.mean(axis=0)) / se, len(off) - 1)
    return float(p.min()), float(stats.t.isf(level / 2, len(off) - 1) * se[:2].max())


def from_exact(method: Any, truth: Truth, starts: int, steps: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Exact draws, (starts, 2), and where steps of a tuned method lead; None where it cannot begin there."""
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
    """Least p, by z, of paired differences of moments of (n, 2); the mean, in sds, that level would see."""
    off = truth.functions(end) - truth.functions(begin)
    se = np.maximum(off.std(axis=0, ddof=1) / np.sqrt(len(off)), 1e-300)
    p = 2 * stats.norm.sf(np.abs(off.mean(axis=0)) / se)
    return float(p.min()), float(stats.norm.isf(level / 2) * se[:2].max())


def _told(name: str, of: str, p: float, seen: float, p_wrong: float, level: float, what: str) -> Trial:
    """A trial that must not tell the draws from the right posterior, and must from the wrong one."""
    control = f"at temperature {HEAT:g} in its place p = {p_wrong:.0e}"
    if p_wrong >= level:
        control += ", so it cannot tell: more iterations could (iterations=N)"
    text = f"{what}, least p = {p:.2g} of {level:.0e}; a mean off by {seen:.2g} sd would show; {control}"
    return Trial(name, of, p >= level > p_wrong, text)


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
    code = arm.model.code
    numeric = (below[1] - above[1])[:, 0] / (2 * step[:, 0])
    yield _close("curvature", of, numeric, code.curvature(model, places[0])[:, 0, 0], 1e-4)
    if not arm.model.bounds:
        return
    bound = code.map_bound(model, touching)
    yield _below(of, bound, model, places)
    if hasattr(code, "largest_curvature"):
        yield from _parabolas(code, model, places, of)
    ours, theirs = _log_bounds(bound, model, touching), passes.values_and_slopes(model, touching)
    yield _close("bounds touch", of, ours[0], theirs[0], 1e-6)
    yield _close("bounds touch, slope", of, ours[1], theirs[1], 1e-6)
    theta = rng.standard_normal((20, 2))
    predictors = (passes.block_predictors(model, features, at, every) for at in theta)
    sums = np.array([_log_bounds(bound, model, eta)[0].sum() for eta in predictors])
    yield _close("product of bounds", of, _log_bases(collapse(bound, model, features), theta)[0], sums, 1e-8)


def _parabolas(code: ModuleType, model: Model, places: np.ndarray, of: str) -> Iterator[Trial]:
    """Whether likelihoods bend no more than is said of them, and parabolas lie below that touch where they
    bend most. places: (M, N, 1)."""
    kappa, most = code.largest_curvature(model), np.abs(places).max()
    try:
        steepest = code.steepest(model)
    except ConfigError:  # its author says κ where the search cannot
        steepest = places[0]
    near = steepest + np.linspace(-30.0, 30.0, 6001)[:, None, None]
    wide = steepest + np.concatenate([-(grid := np.geomspace(1e-6, most, 500)), [0.0], grid])[:, None, None]
    tried = np.concatenate([places, near, wide])
    every = code.part(model, np.tile(np.arange(len(kappa)), len(tried)))
    share = code.curvature(every, tried.reshape(-1, 1)).reshape(len(tried), -1) / kappa
    worst, least = float(share.max()), float(share.min())
    text = f"-d2 log L/d eta2 is at most {worst:.5f} of kappa, {kappa.min():.4g} to {kappa.max():.4g}, at"
    yield Trial("kappa", of, worst <= 1.0 + 1e-9, f"{text} {tried.size:,} predictors")
    if code.LOG_CONCAVE:
        text = f"its class says one_mode; -d2 log L/d eta2 is at least {least:.1e} of kappa"
        yield Trial("one mode", of, least >= -1e-9, text)
    yield _below(f"{of}, where it bends most", code.map_bound(model, steepest), model, wide)


def _below(of: str, bound: NamedTuple, model: Model, places: np.ndarray) -> Trial:
    """Whether bounds lie below the likelihoods at places, (M, N, 1)."""
    worst = -np.inf
    for eta in places:
        log_b = _log_bounds(bound, model, eta)[0]
        over = (log_b - passes.values_and_slopes(model, eta)[0]) / (1.0 + np.abs(log_b))
        worst = float(np.maximum(worst, over.max()))  # what is no number stays
    text = f"log B - log L is at most {worst:.1e} of its size at {places.size:,} predictors"
    return Trial("bounds", of, worst < 1e-9, text)


def _log_bounds(bound: NamedTuple, model: Model, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log B_n, (N,), and slopes, (N, K), at predictors (N, K)."""
    values, slopes = np.zeros(len(eta)), np.zeros(eta.shape)
    _bounds(bound, model, np.arange(len(eta)), np.ascontiguousarray(eta), values, slopes)
    return values, slopes


def _log_bases(base: NamedTuple, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities, (G,), and gradients, (G, P), of a base at positions (G, P)."""
    values, gradients = np.zeros(len(thetas)), np.zeros(thetas.shape)
    _bases(base, thetas, values, gradients)
    return values, gradients


def _close(name: str, of: str, value: np.ndarray, wanted: np.ndarray, room: float) -> Trial:
    off = float((np.abs(value - wanted) / (1.0 + np.abs(wanted))).max())
    return Trial(name, of, off < room, f"off by at most {off:.1e} of 1 + its size, {room:.0e} allowed")
