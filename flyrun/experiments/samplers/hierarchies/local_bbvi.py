"""Black-box variational inference of global and local variables (Ranganath, Gerrish & Blei 2014).

q(θ) Π q(z_n), Gaussians. Rao–Blackwellised the score of q(z_n) is weighted by the terms that contain z_n, and
that of q(θ) by those that contain θ: (5.34) of the survey. Without it every score is weighted by the whole
log joint, whose variance grows with N.
"""

import numpy as np

from flyrun.experiments.models.about_mean import AboutMean
from flyrun.experiments.samplers.approximations.gradients import by_scores
from flyrun.experiments.samplers.hierarchies.method import OfHierarchies
from flyrun.experiments.samplers.method import State
from flyrun.ground.numerics.adam import Adam, refuse_lost


class LocalBbvi(OfHierarchies):
    """`at`: means of θ and of every z_n, then the logarithms of their sds, (2 + 2N,), from 0 and 1."""

    model: AboutMean
    label = "Black-box VI"

    def more_state(self, natural: np.ndarray) -> State:
        size = 2 * (1 + self.model.n_data)
        return {name: np.zeros(size) for name in ("at", "slope", "square")}

    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        config, at = self.arm.sampler, state["at"]
        gradient = self.gradient(at, rng)
        refuse_lost(gradient, t + 1, self.label)
        adam = Adam(config.rate, decay=config.decay)
        state["at"], state["slope"], state["square"] = adam.climbed(
            at, gradient, state["slope"], state["square"], t + 1
        )
        mean, log_sd = np.split(state["at"], 2)
        precision = np.exp(-2 * log_sd[0])
        state["natural"] = np.array([precision, precision * mean[0]])
        return config.draws * len(index)

    def gradient(self, at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Noisy slope of the bound by `at`, (2N + 2,)."""
        config, (mean, log_sd) = self.arm.sampler, np.split(at, 2)
        noise = rng.standard_normal((config.draws, len(mean)))
        drawn = mean + noise * np.exp(log_sd)
        prior, given, seen = self.model.log_joint(drawn[:, 0], drawn[:, 1:])
        separate = 0.5 * noise**2 + log_sd + 0.5 * np.log(2 * np.pi)  # −log q
        shared = np.zeros(config.draws)
        if config.baseline == "none":
            shared = prior + (given + seen).sum(axis=1)
        else:
            separate[:, 0] += prior + given.sum(axis=1)
            separate[:, 1:] += given + seen
        return by_scores(config.baseline, noise, log_sd, shared, separate)


build = LocalBbvi
