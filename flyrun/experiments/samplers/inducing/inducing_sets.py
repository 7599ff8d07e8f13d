"""Weighted sets of inducing inputs, fixed, each with its q(u|Z): mirror descent, SVI and SMC.

Particle mirror descent (Dai, He, Dai & Song 2016, Algorithm 1, §F.1): q_{t+1}(Z, u) ∝ q_t^{1−γ} (p(Z) p(u|Z)
p(y_B|u, Z)^{N/b})^γ. Given particles Z from the prior the step has a closed form: q(u|Z) stays Gaussian, its
natural parameters and the log weight are mixed as the sums are. With γ = 1/t and epochs without replacement
the weights are after each epoch the evidences of DTC, log N(y; 0, Q_nn + β⁻¹I).
"""

from abc import abstractmethod
from typing import Any, Literal

import numpy as np

from flyrun.experiments.models.gaussian_process import Inducing, Posterior, Process, Sums, no_sums
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.inducing.method import Predictor, inducing_rows
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.numerics.state import generator, generator_state, seeded


class Particles(Predictor):
    """m sets Z from the prior, M rows' inputs each. A step reads b rows: m·b queries, m·b·M kernel values.

    q(u|Z) is held as the sums that its natural parameters are made of, Λ = I + Σ AAᵀ/noise for u = Lv: the
    prior's part stays 1 in every step, (1 − γ) + γ. The log weight is the normaliser of q: that of the
    batches' likelihoods, weighted as the sums are.
    """

    answers: Literal["draws", "weighted", "density"] = "weighted"

    def __init__(self, arm: Arm, process: Process, seconds: float):
        super().__init__(arm, process, seconds)
        self.sets, self.batches = getattr(arm.sampler, "particles", 1), batches_of(arm, self.n_data)

    @abstractmethod
    def weights(self, step: int) -> tuple[float, float]:
        """What the sums are multiplied by in step 1, 2, …, and the batch's; (1, 0) reads nothing."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Z, and nothing known of u but its prior."""
        rows = inducing_rows(seed, self.n_data, self.sets, self.size)
        rng, sums = seeded(seed, self.arm.method()), no_sums(self.sets, self.size)._asdict()
        key, step = rng.integers(1 << 62, size=1), np.zeros(1, np.int64)
        return {"rows": rows, "step": step, "key": key, "rng": generator_state(rng), **sums}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        inducing = Inducing(self.process, state["rows"])
        sums = Sums(*(state[name] for name in Sums._fields))
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        visits, kernels = np.zeros(n), np.zeros(n)
        for k in range(n):
            keep, weight = self.weights(first + k + 1)
            if weight:
                rows = self.batches.rows(first + k, rng, key)
                sums = sums.mixed(keep, inducing.sums_over(rows), weight)
                visits[k] = len(rows)
            kernels[k] = self.sets * self.size * (visits[k] + (self.size if first + k == 0 else 0))
        records = {"queries": self.sets * visits, "visits": visits, "kernel_evaluations": kernels}
        after = {"step": state["step"] + n, "rng": generator_state(rng)}
        return {**state, **sums._asdict(), **after}, records

    def log_weight(self, sums: Sums, posterior: Posterior) -> np.ndarray:
        """(m,): what q(Z) is proportional to."""
        return posterior.log_evidence

    def posterior(self, state: State) -> tuple[Inducing, Posterior, np.ndarray]:
        """The sets, q(u|Z) of each, and their log weights, (m,)."""
        inducing, sums = Inducing(self.process, state["rows"]), Sums(*(state[name] for name in Sums._fields))
        posterior = inducing.posterior(sums)
        return inducing, posterior, self.log_weight(sums, posterior)

    def predictions(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inducing, posterior, log_weight = self.posterior(state)
        return log_weight, *inducing.predict(posterior, self.process.test_features)

    def result(self, state: State) -> dict[str, np.ndarray]:
        """theta: Z, (m, M, D), centred as the kernel has them.  mean, covariance: of u, in its scale."""
        inducing, posterior, log_weight = self.posterior(state)
        half = np.linalg.solve(posterior.root, inducing.root.swapaxes(1, 2))
        return {
            "theta": inducing.points,
            "log_weight": log_weight,
            "mean": (inducing.root @ posterior.mean[..., None])[..., 0],
            "covariance": half.swapaxes(1, 2) @ half,
        }


class Descent(Particles):
    """γ_t = (t + delay)^(−decay)."""

    label = "Particle mirror descent"

    def weights(self, step: int) -> tuple[float, float]:
        """(1 − γ, γN/b)."""
        gamma = (step + self.arm.sampler.delay) ** -self.arm.sampler.decay
        return 1.0 - gamma, gamma * self.batches.factor


class Bounded(Descent):
    """Ours: each set weighed by its bound on the exact evidence (Titsias 2009, eq. 9), which is that of DTC
    less what the set leaves unexplained, tr(K_nn − Q_nn)/2 noise. It is a sum over rows, so it is mixed too.
    """

    def log_weight(self, sums: Sums, posterior: Posterior) -> np.ndarray:
        unexplained = sums.number - np.trace(sums.gram, axis1=1, axis2=2)
        return posterior.log_evidence - 0.5 * unexplained / self.process.noise


class Variational(Descent):
    """Stochastic variational inference (Hensman, Fusi & Lawrence 2013, eqs. 5 and 6). Its answer is q(u).

    Natural gradient steps on q(u) of one set of inducing inputs: mirror descent with one particle.
    """

    answers = "density"
    label = "Stochastic variational inference"

    def result(self, state: State) -> dict[str, Any]:
        """points (M, D), mean (M,) and covariance (M, M) of u."""
        first = super().result(state)
        return {"points": first["theta"][0], "mean": first["mean"][0], "covariance": first["covariance"][0]}


class OnePass(Particles):
    """One-pass sequential Monte Carlo (after Balakrishnan & Madigan 2006): all weights 1 within the pass.

    log a += log p(y_B | Z, what came before), u integrated out; rows once, without N/b and without decay.
    Sets of inducing inputs that moved would have to read the past again, so they stay, and as none is
    duplicated by resampling, weights are carried on instead. After its pass it stands still.
    """

    label = "One-pass SMC"

    def weights(self, step: int) -> tuple[float, float]:
        """(1, 1) while there are rows left."""
        return 1.0, float(step <= self.batches.in_epoch)


def _descent(arm: Arm, process: Process, seconds: float) -> Method:
    return (Bounded if arm.sampler.weights == "bound" else Descent)(arm, process, seconds)


build = {"pmd_inducing": _descent, "svi_gp": Variational, "smc_inducing": OnePass}
