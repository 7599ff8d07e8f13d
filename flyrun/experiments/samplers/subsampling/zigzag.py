"""The Zig-Zag process with control variates at the MAP (Bierkens, Fearnhead & Roberts 2019), to second order.

In coordinates φ where the posterior is nearly N(0, I) (chain/surrogate) φ moves along v ∈ {±1}^P and v_i
flips at the rate (v_i ∂_iU)₊, U = −log posterior. The rate is split, and each part has a clock of its
own: the Gaussian part's, (a_i + b_i t)₊, is known along the line, so that it rings without a look at any
datum; what the data add, (−v_i x̃_ni r_n(δ))₊ with r_n what f' leaves over f'(η̂) and, for order 2,
f''(η̂)δ, is below κ_n|x̃_ni| s_n‖φ‖ (order 1, theirs) or ½κ_n|x̃_ni| s_n²‖φ‖² (order 2, ours, whose
Gaussian part holds all the likelihood's curvature). One clock rings for all data, n is drawn in
proportion to its share, i to |x̃_ni|, and the datum's own slope, one query, decides.

The path is recorded at the ends of slices of equal time: where v flips is no draw from the posterior.
"""

import time
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.features import Model
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.problem import Problem, prior_curvature, prior_scores
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground import mapped
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.alias import Alias, Even, alias_table, pick
from flyrun.ground.numerics.compiled import jit, outer_jit
from flyrun.ground.numerics.rows import add_row, row_dot
from flyrun.ground.numerics.state import generator, generator_state, seeded
from flyrun.ground.threads import one_blas_thread


class Process(NamedTuple):
    """All that the process needs; P parameters, N data of one predictor each."""

    order: int
    model: Model
    rows: np.ndarray  # (N, P)
    mean: np.ndarray  # θ̂, (P,)
    colour: np.ndarray  # C, (P, P): θ = θ̂ + Cφ
    matrix: np.ndarray  # of the Gaussian part, (P, P): its gradient is matrix·φ − pull
    pull: np.ndarray  # (P,)
    known: np.ndarray  # (N, 3): η̂, f'(η̂) and −f''(η̂)
    bounds: np.ndarray  # κ_n s_n, and for order 2 ½κ_n s_n², (N,)
    table: Alias | Even  # draws n in proportion to that times Σ_i |x̃_ni|
    total: float
    datum: np.ndarray  # (1,) int64: workspace, as are the next
    eta: np.ndarray  # (1, 1)
    value: np.ndarray  # (1,)
    slope: np.ndarray  # (1, 1)
    room: np.ndarray  # (3, P): x̃_n, and matrix times φ and v


@jit
def _time_to_ring(a, b, ring):
    """When the integral of (a + bt)₊ reaches `ring`; infinite where it never does."""
    if b > 0.0:
        return -a / b + sqrt(2.0 * ring / b) if a < 0.0 else 2.0 * ring / (a + sqrt(a * a + 2.0 * b * ring))
    if a <= 0.0:
        return np.inf
    under = a * a + 2.0 * b * ring
    return 2.0 * ring / (a + sqrt(under)) if under >= 0.0 else np.inf


@jit
def _time_to_look(order, square, towards, size, ring):
    """When the integral of a bound of ‖φ + vt‖ (order 1) or of its square (order 2) reaches `ring`.

    square: ‖φ‖²; towards: φᵀv; size: ‖v‖² = P. For order 1 the bound is ‖φ‖ + √P·t.
    """
    if order == 1:
        return _time_to_ring(sqrt(square), sqrt(size), ring)
    # the integral is increasing in t, but flat where φ passes near 0: Newton within a bracket
    low, high = 0.0, 1.0
    while square * high + towards * high * high + size * high**3 / 3.0 < ring:
        low, high = high, 2.0 * high
    t = 0.5 * (low + high)
    for _ in range(60):
        over = t * (square + t * (towards + size * t / 3.0)) - ring
        if over < 0.0:
            low = t
        else:
            high = t
        rate = square + t * (2.0 * towards + size * t)
        step = over / rate if rate > 0.0 else 0.0
        moved = t - step
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - t) <= 1e-14 * high:
            return moved
        t = moved
    return t


@jit
def _look(process, rng, phi, v, bound):
    """Let a datum decide whether a coordinate flips: which one, or −1. bound: of ‖φ‖ or ‖φ‖² here."""
    n = pick(process.table, rng, 0)
    index, whitened, size = process.datum, process.room[0], phi.shape[0]
    index[0] = n
    for d in range(size):
        whitened[d] = 0.0
    for d in range(size):
        add_row(process.colour, d, float(process.rows[n, d]), whitened)
    total, away = 0.0, 0.0
    for d in range(size):
        total += abs(whitened[d])
        away += whitened[d] * phi[d]
    process.eta[0, 0] = process.known[n, 0] + away
    log_likelihood(process.model, index, process.eta, process.value, process.slope)
    over = process.slope[0, 0] - process.known[n, 1]
    if process.order == 2:
        over += process.known[n, 2] * away
    limit = process.bounds[n] * bound
    if not abs(over) <= limit * (1.0 + 1e-9) + 1e-12:
        raise DensityError("a slope exceeds its bound, or is not a number: look for huge values in the data")
    left = rng.random() * total
    i = 0
    while i < size - 1 and left >= abs(whitened[i]):
        left -= abs(whitened[i])
        i += 1
    pushed = -over if v[i] * whitened[i] > 0.0 else over
    return i if rng.random() * limit < pushed else -1


@jit
def _move(process, phi, v, dt):
    here, along = process.room[1], process.room[2]
    for d in range(phi.shape[0]):
        phi[d] += dt * v[d]
        here[d] += dt * along[d]


@jit
def _slice(process, rng, phi, v, length):
    """The process for a time `length`; looks at data, and flips."""
    size = phi.shape[0]
    here, along = process.room[1], process.room[2]
    for d in range(size):
        here[d] = row_dot(process.matrix, d, phi) - process.pull[d]
        along[d] = row_dot(process.matrix, d, v)
    looks, left, flipped, until, first = 0, length, True, 0.0, 0
    while True:
        # Gaussian clocks have no memory: after a flip all may be wound up anew, before it none need
        if flipped:
            until, first = np.inf, 0
            for d in range(size):
                wait = _time_to_ring(v[d] * here[d], v[d] * along[d], rng.standard_exponential())
                if wait < until:
                    until, first = wait, d
        square, towards = 0.0, 0.0
        for d in range(size):
            square += phi[d] * phi[d]
            towards += phi[d] * v[d]
        ring = rng.standard_exponential() / process.total
        soonest, flips = _time_to_look(process.order, square, towards, float(size), ring), -1
        if until < soonest:
            soonest, flips = until, first
        if soonest >= left:
            _move(process, phi, v, left)
            return looks
        _move(process, phi, v, soonest)
        left -= soonest
        until -= soonest
        if flips < 0:
            looks += 1
            bound = sqrt(square) + sqrt(float(size)) * soonest
            if process.order == 2:
                bound = square + soonest * (2.0 * towards + size * soonest)
            flips = _look(process, rng, phi, v, bound)
        flipped = flips >= 0
        if flipped:
            v[flips] = -v[flips]
            for d in range(size):
                along[d] += 2.0 * v[flips] * process.matrix[flips, d]


@outer_jit
def _run(process, rng, phi, v, length, first, thin, theta, queries):
    row = 0
    for k in range(queries.shape[0]):
        queries[k] = _slice(process, rng, phi, v, length)
        if (first + k + 1) % thin == 0:
            for d in range(phi.shape[0]):
                theta[row, d] = process.mean[d] + row_dot(process.colour, d, phi)
            row += 1


def process_of(arm: Arm, problem: Problem, setup: Setup, order: int, local: bool) -> Process:
    """Fit together what the process needs; `setup` counts the passes."""
    surrogate, size = setup.surrogate(order), len(problem.fit.theta_map)
    module, model, rows = setup.module, problem.model, problem.features.rows
    colour, eta = surrogate.colour, surrogate.predictors

    def work(block: slice) -> np.ndarray:
        part, at = module.part(model, block), np.ascontiguousarray(eta[block])
        lengths = np.abs(rows[block].astype(np.float64) @ colour).sum(axis=1)
        bend = module.curvature(part, at)[:, 0, 0]
        return np.column_stack([at[:, 0], passes.slopes(part, at)[:, 0], bend, lengths])

    setup.queries += len(rows)
    known = passes.gathered(len(rows), work)
    kappa = module.remainder_constants(model, eta, order, local)
    bounds = kappa * setup.roots_of_leverages**order / order
    weights = bounds * known[:, 3]
    of_prior = colour.T @ prior_curvature(arm, problem) @ colour
    matrix = of_prior if order == 1 else of_prior + surrogate.bend
    score = prior_scores(arm, problem, problem.fit.theta_map[None])[0]
    return Process(
        order=order,
        model=model,
        rows=rows,
        mean=surrogate.mean,
        colour=colour,
        matrix=np.ascontiguousarray((matrix + matrix.T) / 2.0),
        pull=surrogate.pull + colour.T @ score,
        known=np.ascontiguousarray(known[:, :3]),
        bounds=bounds,
        table=alias_table(weights),
        total=float(weights.sum()),
        datum=np.zeros(1, np.int64),
        eta=np.zeros((1, 1)),
        value=np.zeros(1),
        slope=np.zeros((1, 1)),
        room=np.zeros((3, size)),
    )


class ZigZag(OnData):
    """A step is a slice of time of the path; its queries are the data that were looked at."""

    unit = "slice"
    shown = ("{queries} queries/slice",)
    label, exact = "Zig-Zag", True

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        setup = Setup(arm, problem)
        started = time.perf_counter()
        with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
            self.process = process_of(arm, problem, setup, arm.sampler.order, arm.sampler.bounds == "local")
        self.own_queries, self.own_seconds = setup.queries, time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.process,)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """φ from N(0, I), the same for all arms of a seed that start so, and every direction even odds."""
        phi = seeded(seed).standard_normal(self.n_params)
        rng = seeded(seed, self.arm.method())
        v = np.where(rng.random(self.n_params) < 0.5, 1.0, -1.0)
        count = {"step": np.zeros(1, np.int64), "candidates": np.zeros(1, np.int64)}
        return {"phi": phi, "v": v, **count, "rng": generator_state(rng)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more slices. Draws: theta (n // thin, P); by slice queries, (n,)."""
        first, thin = int(state["step"][0]), self.arm.protocol.thin
        phi, v, rng = state["phi"].copy(), state["v"].copy(), generator(state["rng"])
        theta = np.empty(((first + n) // thin - first // thin, self.n_params))
        queries = np.empty(n, np.int64)
        mapped.expect(self.problem.features.rows, random=True)
        _run(self.process, rng, phi, v, self.arm.sampler.slice, first, thin, theta, queries)
        count = {"step": state["step"] + n, "candidates": state["candidates"] + queries.sum()}
        new = {"phi": phi, "v": v, **count, "rng": generator_state(rng)}
        return new, {"theta": theta, "queries": queries}

    def more(self, state: State | None) -> dict[str, Any]:
        """Data looked at so far; one beyond its bound ends a run."""
        return {} if state is None else {"candidates": int(state["candidates"][0])}


build = ZigZag
