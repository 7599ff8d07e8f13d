"""Particle mirror descent (Dai, He, Dai & Song 2016): particles that follow a density stepping down KL.

The prox step in KL, q ← q^{1−γ}·p^γ·p(x_B|θ)^{γN/b}, on particles from a base π with log π_i kept:
log a_i ← (1−γ) log a_i + γ(U(θ_i) − log π_i), a = q/π, U = log p(θ) + (N/b) Σ_B log p(x_n|θ). They are
rejuvenated by draws from the weighted kernel density of them, which is the base from then on: never (their
Strategy 1, weighted particles), before every step (Strategy 2, Algorithm 1), before those of the first share
of the steps (their §3.3, with more particles from then on where `later` says so), or as soon as few particles
carry the weight (ours).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from flyrun.experiments.config.sampler.particles import Pmd
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Facts, Records, State
from flyrun.experiments.samplers.particles.method import Weighted
from flyrun.experiments.samplers.particles.target import Target
from flyrun.experiments.samplers.particles.weights import longest, normalised
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.kernels import local_sd, log_density, silverman
from flyrun.ground.numerics.resampling import effective, systematic
from flyrun.ground.numerics.state import generator, generator_state, seeded

BETA = 2.0  # the smoothness that a Gaussian kernel makes use of
FEWEST = 50  # particles that a growing number begins with
_BISECTIONS = 40


def mirror(log_a: np.ndarray, towards: np.ndarray, gamma: float) -> np.ndarray:
    """log a after a step, (m,). towards: U(θ_i) − log π_i."""
    return towards if gamma == 1.0 else (1.0 - gamma) * log_a + gamma * towards


def step_size(config: Pmd, step: int, m: int, n_params: int) -> float:
    """γ of a step, counted from 1, with m particles."""
    if config.schedule == "theorem":  # Theorem 6
        return min(2.0 / (step + 1.0), config.eta * m ** (-BETA / (n_params + 2 * BETA)))
    over = {"inverse": step + config.t0, "root": config.t0 + np.sqrt(step), "constant": 1.0}
    return float(config.eta / over[config.schedule])


class MirrorDescent(Weighted):
    """A step is a batch: m·b queries, b visits."""

    update = "Particle mirror descent"
    shown = (*Weighted.shown, "γ {gamma}")

    def __init__(self, arm: Arm, target: Target):
        super().__init__(arm, target)
        self.config, self.batches = arm.sampler, batches_of(arm, target.n_data)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Particles from the prior, or from the Gaussian of a pilot, whose cost the first step is charged."""
        rng = seeded(seed, self.arm.method())
        key = rng.integers(1 << 62, size=1)
        m, spent = self._number(1), np.zeros(2)
        if needed:
            theta, log_base, spent = _from_pilot(needed[0], rng, m)
            log_prior = self.target.log_prior(theta)
        else:
            theta = self.target.draw(rng, m)
            log_prior = log_base = self.target.log_prior(theta)
        return {
            "rng": generator_state(rng),
            "key": key,
            "step": np.zeros(1, np.int64),
            "theta": theta,
            "log_weight": log_prior - log_base,  # a = q/π, q the prior
            "log_base": log_base,
            "log_prior": log_prior,
            "spent": spent,
            # of the prior, and Σ of their squares, of the weights w_t with log q = W log p + Σ w_t U_t
            "left": np.ones(1),
            "squares": np.zeros(1),
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng, steps = generator(state["rng"]), []
        for _ in range(n):
            state, record = self._step(rng, state)
            steps.append(record)
        records = {name: np.array([record[name] for record in steps], float) for name in steps[0]}
        return state | {"rng": generator_state(rng)}, records

    def _step(self, rng: np.random.Generator, state: State) -> tuple[State, dict[str, float]]:
        step = int(state["step"][0]) + 1
        kernels, (queries, visits) = 0, state["spent"]
        if self._is_due(step, state):
            state, kernels = self._rejuvenated(rng, state, step)
        rows = self.batches.rows(step - 1, rng, int(state["key"][0]))
        m = len(state["theta"])
        likelihood = self.target.log_likelihood(state["theta"], rows)
        towards = state["log_prior"] + self.batches.factor * likelihood - state["log_base"]
        gamma = step_size(self.config, step, m, self.target.n_params)
        if self.config.adaptive is not None:
            least, log_a = self.config.adaptive * m, state["log_weight"]
            gamma = longest(lambda g: mirror(log_a, towards, g), 0.0, gamma, least, _BISECTIONS)
        log_weight = mirror(state["log_weight"], towards, gamma)
        weight = normalised(log_weight, step, self.remedy)
        moved = {
            "step": np.array([step]),
            "log_weight": log_weight - log_weight.max(),
            "spent": np.zeros(2),
            "left": (1.0 - gamma) * state["left"],
            "squares": (1.0 - gamma) ** 2 * state["squares"] + gamma**2,
        }
        return state | moved, {
            "queries": queries + m * len(rows),
            "visits": visits + len(rows),
            "kernel_evaluations": kernels,
            "ess": effective(weight),
            "gamma": gamma,
        }

    def _is_due(self, step: int, state: State) -> bool:
        """Whether to rejuvenate before a step: by the state alone, so that cuts do not matter."""
        config = self.config
        if step == 1 or config.rejuvenate == "never":
            return False
        if config.rejuvenate == "until":
            return step <= self._switch or (config.later is not None and step == self._switch + 1)
        return config.rejuvenate == "always" or effective(self.weights(state)) < config.ess * len(
            state["theta"]
        )

    def _rejuvenated(self, rng: np.random.Generator, state: State, step: int) -> tuple[State, int]:
        """Particles drawn from their weighted kernel density, which is their base now; kernel evaluations."""
        theta, weight = state["theta"], self.weights(state)
        bandwidth, m = self._bandwidth(theta, weight, step), self._number(step)
        ancestors = theta[systematic(rng, weight, m)]
        drawn = ancestors + bandwidth * rng.standard_normal(ancestors.shape)
        with np.errstate(divide="ignore"):
            log_base = log_density(drawn, theta, np.log(weight), bandwidth)
        fresh = {"theta": drawn, "log_weight": np.zeros(m), "log_base": log_base}
        return state | fresh | {"log_prior": self.target.log_prior(drawn)}, m * len(theta)

    def _bandwidth(self, theta: np.ndarray, weight: np.ndarray, step: int) -> np.ndarray:
        """(P,). FlyrunError where the particles have no spread."""
        size, width = self.target.n_params, self.config.width
        if self.config.bandwidth == "theorem":
            return np.full(size, width * len(theta) ** (-1.0 / (size + 2 * BETA)))
        bandwidth = width * silverman(effective(weight), size) * local_sd(theta, weight)
        if not (bandwidth > 0).all():
            raise FlyrunError(
                f"step {step:,}: the particles have collapsed onto one point, so that their kernels have no "
                f"width; {self.remedy}, or sampler.bandwidth=theorem"
            )
        return bandwidth

    @property
    def _switch(self) -> int:
        """The last step before which `until` rejuvenates."""
        return int(self.config.until * self.arm.protocol.iterations)

    def _number(self, step: int) -> int:
        """Of particles at a step: the same throughout, or growing; and those of §3.3's second stage."""
        config, most = self.config, self.config.particles
        if config.rejuvenate == "until" and config.later is not None and step > self._switch:
            return config.later
        if config.growth == "fixed":
            return most
        if config.growth == "linear":
            now = most * step / self.arm.protocol.iterations
        else:  # Theorem 6
            now = min(step ** (2 + self.target.n_params / BETA), 1e9)
        return min(most, max(FEWEST, int(now)))

    def facts(self, state: State | None = None) -> Facts:
        """What power of the likelihood the weights add up to."""
        facts = super().facts(state)
        if state is None:
            return facts
        power, squares = 1.0 - float(state["left"][0]), float(state["squares"][0])
        tuned: Mapping[str, float] = {"likelihood_power": power, "sum_of_squared_weights": squares}
        return Facts(**{**vars(facts), "tuned": tuned})


build = MirrorDescent


def _from_pilot(cell: Any, rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """m draws, (m, P), from a finished cell's Gaussian, its log density there, and its queries and visits."""
    with cell.file() as file:
        mean, covariance = (file["approximation"][name][:] for name in ("mean", "covariance"))
        spent = np.array([file["estimate"][name][-1] for name in ("queries", "visits")])
    root = np.linalg.cholesky(covariance)
    noise = rng.standard_normal((m, len(mean)))
    constant = np.log(np.diag(root)).sum() + 0.5 * len(mean) * np.log(2 * np.pi)
    return mean + noise @ root.T, -0.5 * (noise**2).sum(axis=1) - constant, spent
