"""Rates that Dai, He, Dai & Song (2016) prove of particle mirror descent, beside those measured.

Into results/measured/pmd_rates.csv. Logistic regression with one and two coefficients, whose posteriors a
grid gives. A rate is the slope of log error on log particles, or log steps, by least squares; its interval
holds 95 % of 2,000 samples of the runs, with replacement. `make theorems`.
"""

import csv
import io
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler.particles import Pmd
from flyrun.experiments.samplers.particles.pmd import MirrorDescent
from flyrun.ground import files
from flyrun.ground.numerics.kernels import log_density
from tools.results.published import MEASURED

TABLE = MEASURED / "pmd_rates.csv"
SAMPLES, SHARE = 2_000, 0.95
_COLUMNS = (
    "claim",
    "against",
    "from",
    "to",
    "first",
    "last",
    "slope",
    "low",
    "high",
    "claimed",
    "holds",
    "runs",
)
SIZES = (100, 400, 1_600, 6_400)
STEPS = (40, 160, 640, 2_560)
GROWN = (8, 13, 20, 32)  # steps, with t^(5/2) particles
FEW = (400, 1_600, 6_400)
WIDTH, LATER = 0.5, 0.25  # of the theorems' bandwidth, after one step and after several


class Toy:
    """Logistic regression of n rows, d coefficients, prior N(0, I), as methods of particles see it."""

    coordinates = ("theta",)

    def __init__(self, n: int, d: int):
        rng = np.random.default_rng(d)
        x = rng.standard_normal((n, d))
        sign = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-x.sum(axis=1))), 1.0, -1.0)
        self.signed, self.n_data, self.n_params = x * sign[:, None], n, d
        self.fit = SimpleNamespace(queries=0, seconds=0.0, scale=1.0)
        self._seen, self._table = np.empty(0), np.empty(0)
        axis = np.linspace(-6.0, 6.0, 2_401 if d == 1 else 161)
        self.grid = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
        self.cell = (axis[1] - axis[0]) ** d

    def draw(self, rng: np.random.Generator, m: int) -> np.ndarray:
        return rng.standard_normal((m, self.n_params))

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -0.5 * (theta**2).sum(axis=1) - 0.5 * self.n_params * np.log(2 * np.pi)

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Likelihoods of particles that stay are kept."""
        if theta is not self._seen:
            self._seen, self._table = theta, -np.logaddexp(0.0, -self.signed @ theta.T)
        return self._table[rows].sum(axis=0)

    def density(self, power: float = 1.0) -> np.ndarray:
        """p(θ) p(x|θ)^power, normalised, at the grid."""
        log = self.log_prior(self.grid) + power * self.log_likelihood(self.grid, np.arange(self.n_data))
        found = np.exp(log - log.max())
        return found / (found.sum() * self.cell)


def f(theta: np.ndarray) -> np.ndarray:
    """What is integrated: bounded, (m,)."""
    return np.cos(2.0 * theta[:, 0])


class Narrower(MirrorDescent):
    """Kernels narrower than Theorem 6's as particles grow: h² as t^(−3/2), not t^(−1)."""

    power = -0.3

    def _bandwidth(self, theta: np.ndarray, weight: np.ndarray, step: int) -> np.ndarray:
        return np.full(1, self.config.width * len(theta) ** self.power)


class Fixed(Narrower):
    """Kernels that do not narrow."""

    power = 0.0


def descent(toy: Toy, iterations: int, kind: type[MirrorDescent] = MirrorDescent, **options: Any) -> Any:
    """Mirror descent on it, with the theorems' kernels."""
    sampler = Pmd(bandwidth="theorem", **{"width": WIDTH, **options})  # type: ignore[arg-type]
    arm = SimpleNamespace(name="toy", sampler=sampler, method=sampler.settings)
    arm.protocol = SimpleNamespace(iterations=iterations, extend=False)
    return kind(arm, toy)  # type: ignore[arg-type]


def after(method: Any, steps: tuple[int, ...], seed: int) -> list[Any]:
    """States after so many steps of one run."""
    state, states, done = method.init(seed), [], 0
    for step in steps:
        state, _ = method.advance(state, step - done)
        states.append(state)
        done = step
    return states


def integral(method: Any, state: Any, truth: np.ndarray) -> float:
    """Squared error of E f."""
    toy = method.target
    return float((method.weights(state) @ f(state["theta"]) - truth @ f(toy.grid) * toy.cell) ** 2)


def _at_grid(method: Any, state: Any, bandwidth: np.ndarray | None = None) -> np.ndarray:
    weight = method.weights(state)
    width = method._bandwidth(state["theta"], weight, 1) if bandwidth is None else bandwidth
    with np.errstate(divide="ignore"):
        return log_density(method.target.grid, state["theta"], np.log(weight), width)


def distance(method: Any, state: Any, truth: np.ndarray, bandwidth: np.ndarray | None = None) -> float:
    """∫|q̃ − q| of the kernel density of weighted particles."""
    return float(np.abs(np.exp(_at_grid(method, state, bandwidth)) - truth).sum() * method.target.cell)


def divergence(method: Any, state: Any, truth: np.ndarray) -> float:
    """KL(posterior ‖ q̃)."""
    there = truth > 1e-12 * truth.max()
    log_q = _at_grid(method, state)[there]
    return float(truth[there] @ (np.log(truth[there]) - log_q) * method.target.cell)


class Rate(NamedTuple):
    """A slope, its interval, and the errors that it was fitted to."""

    slope: float
    low: float
    high: float
    errors: np.ndarray  # (K,)


def rate(sizes: tuple[int, ...], found: np.ndarray, root: bool = False) -> Rate:
    """Of errors (runs, K) at sizes (K,), their means over runs; root: of squared errors."""
    off = np.log(sizes) - np.log(sizes).mean()
    power = 0.5 if root else 1.0
    chosen = np.random.default_rng(0).integers(len(found), size=(SAMPLES, len(found)))
    level = power * np.log(np.concatenate([found.mean(axis=0)[None], found[chosen].mean(axis=1)]))
    slopes = level @ off / (off @ off)
    low, high = np.quantile(slopes[1:], [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Rate(float(slopes[0]), float(low), float(high), found.mean(axis=0) ** power)


def one_step(d: int, runs: int, kernels: str = "") -> np.ndarray:
    """Theorems 3 and 4: γ = ½ on all 20 rows, from particles of the prior. Errors (runs, sizes): squared of
    E f, or, of kernels "theorem" or "fixed", ∫|q̃ − q|.
    """
    toy = Toy(20, d)
    truth, wide = toy.density(0.5), np.full(d, WIDTH)
    found = np.empty((runs, len(SIZES)))
    for k, m in enumerate(SIZES):
        method = descent(toy, 1, rejuvenate="never", particles=m, batch=20, schedule="constant", eta=0.5)
        for seed in range(runs):
            state = after(method, (1,), 1_000 * k + seed)[0]
            if kernels:
                found[seed, k] = distance(method, state, truth, wide if kernels == "fixed" else None)
            else:
                found[seed, k] = integral(method, state, truth)
    return found


def weighted(runs: int, sizes: tuple[int, ...] | None, steps: tuple[int, ...], **options: Any) -> np.ndarray:
    """Theorem 5, particles of the prior throughout, 100 rows in batches of 5: squared errors of E f.

    sizes: particles at each number of steps, a run each; None: 2,000 of them, one run through all.
    """
    toy = Toy(100, 1)
    truth, found = toy.density(), np.empty((runs, len(steps)))
    options = {"rejuvenate": "never", "batch": 5, **options}
    for seed in range(runs):
        if sizes is None:
            method = descent(toy, steps[-1], particles=2_000, **options)
            found[seed] = [integral(method, state, truth) for state in after(method, steps, seed)]
            continue
        for k, (m, step) in enumerate(zip(sizes, steps, strict=True)):
            method = descent(toy, step, particles=m, **options)
            found[seed, k] = integral(method, after(method, (step,), 1_000 * k + seed)[0], truth)
    return found


def kernels(runs: int, kind: type[MirrorDescent] = MirrorDescent) -> np.ndarray:
    """Theorem 6: KL after GROWN steps, particles growing as it says, 100 rows, all in each step."""
    toy = Toy(100, 1)
    truth = toy.density()
    method = descent(
        toy, GROWN[-1], kind, rejuvenate="always", particles=10**6, growth="theorem", schedule="theorem",
        eta=2.0, batch=100, width=0.5 * LATER if kind is Fixed else LATER,
    )  # fmt: skip
    return np.array(
        [[divergence(method, one, truth) for one in after(method, GROWN, s)] for s in range(runs)]
    )


def kernels_by_size(runs: int) -> np.ndarray:
    """KL after 10 steps with FEW particles in all of them."""
    toy, found = Toy(100, 1), np.empty((runs, len(FEW)))
    truth = toy.density()
    for k, m in enumerate(FEW):
        method = descent(
            toy,
            10,
            rejuvenate="always",
            particles=m,
            schedule="theorem",
            eta=2.0 * m**0.4,
            batch=100,
            width=LATER,
        )
        for seed in range(runs):
            found[seed, k] = divergence(method, after(method, (10,), 1_000 * k + seed)[0], truth)
    return found


class Claim(NamedTuple):
    """What is measured against what, and the slope that is claimed; None of a claim of ours or a control."""

    against: str
    sizes: tuple[int, ...]
    claimed: float | None
    errors: Callable[[], np.ndarray]  # (runs, K)
    root: bool = False


RUNS, SLOW, SLOWEST = 300, 60, 20
EPOCHS, DRAWN = {"batches": "epochs"}, {"batches": "replacement"}
CLAIMS = {
    "theorem_3": Claim("particles", SIZES, -1 / 2, lambda: one_step(1, RUNS), True),
    "theorem_3_d_2": Claim("particles", SIZES, -1 / 2, lambda: one_step(2, RUNS), True),
    "theorem_4": Claim("particles", SIZES, -2 / 5, lambda: one_step(1, SLOW, "theorem")),
    "theorem_4_d_2": Claim("particles", SIZES, -1 / 3, lambda: one_step(2, SLOWEST, "theorem")),
    "theorem_4_fixed": Claim("particles", SIZES, None, lambda: one_step(1, SLOW, "fixed")),
    "theorem_5_particles": Claim(
        "particles", SIZES, -1 / 2, lambda: weighted(RUNS, SIZES, (40,) * 4, **EPOCHS), True
    ),
    "theorem_5_steps": Claim("steps", STEPS, -1 / 2, lambda: weighted(SLOW, None, STEPS, **DRAWN), True),
    "theorem_5_both": Claim(
        "steps", STEPS, -1 / 2, lambda: weighted(SLOW, tuple(4 * t for t in STEPS), STEPS, **DRAWN), True
    ),
    "theorem_5_constant": Claim(
        "steps",
        STEPS,
        None,
        lambda: weighted(SLOW, None, STEPS, schedule="constant", eta=0.05, **DRAWN),
        True,
    ),
    "theorem_6_particles": Claim("particles", FEW, -4 / 5, lambda: kernels_by_size(SLOWEST)),
    "theorem_6_steps": Claim("steps", GROWN, -1.0, lambda: kernels(SLOWEST)),
    "theorem_6_narrower": Claim("steps", GROWN, None, lambda: kernels(SLOWEST, Narrower)),
    "theorem_6_fixed": Claim("steps", GROWN, None, lambda: kernels(SLOWEST, Fixed)),
}


def row(name: str) -> dict[str, Any]:
    """Of a claim; it holds where its slope is within the interval, or above it: the error falls faster."""
    claim = CLAIMS[name]
    errors = claim.errors()
    one = rate(claim.sizes, errors, claim.root)
    return {
        "claim": name, "against": claim.against, "from": claim.sizes[0], "to": claim.sizes[-1],
        "first": one.errors[0], "last": one.errors[-1], "slope": one.slope, "low": one.low, "high": one.high,
        "claimed": claim.claimed, "holds": None if claim.claimed is None else one.low <= claim.claimed,
        "runs": len(errors),
    }  # fmt: skip


def text(found: list[dict[str, Any]]) -> str:
    """The table."""
    out = io.StringIO()
    table = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in found:
        shown = {key: f"{value:.4g}" for key, value in row.items() if isinstance(value, float)}
        table.writerow({**row, **shown})
    return out.getvalue()


if __name__ == "__main__":
    files.write_text(TABLE, text([row(name) for name in CLAIMS]))
    print(f"wrote {TABLE}")
    sys.exit(0)
