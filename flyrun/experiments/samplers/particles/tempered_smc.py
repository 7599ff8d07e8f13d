"""Tempered sequential Monte Carlo on all data, from the prior to the posterior (Del Moral et al. 2006).

A step raises the power of the likelihood as far as leaves half of the particles effective, resamples, and
moves every particle by a random walk shaped like them. Handed in before the end: the particles weighed by
what is left of the likelihood. Steps after power 1 do nothing and cost nothing.
"""

from typing import Any

import numpy as np

from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.particles.method import Weighted
from flyrun.experiments.samplers.particles.target import Target
from flyrun.experiments.samplers.particles.weights import longest, normalised, root_of
from flyrun.ground.numerics.resampling import effective, systematic
from flyrun.ground.numerics.state import generator, generator_state, seeded

_BISECTIONS = 60


class Tempered(Weighted):
    """A step is a stage: m·N queries a move, and as many for the first likelihoods."""

    update, exact, unit = "Tempered SMC", True, "stage"
    remedy = "take more particles"
    shown = ("power {power:.3f}", "accepted {accepted:.2f}", "{queries} queries/stage")

    def __init__(self, arm: Arm, target: Target):
        super().__init__(arm, target)
        self.config, self.all = arm.sampler, np.arange(target.n_data)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Draws from the prior; their likelihoods are the first stage's, which tells of these queries."""
        rng = seeded(seed, self.arm.method())
        theta = self.target.draw(rng, self.config.particles)
        return {
            "step": np.zeros(1, np.int64),
            "theta": theta,
            "likelihood": np.zeros(len(theta)),
            "log_weight": np.zeros(len(theta)),
            "power": np.zeros(1),
            "rng": generator_state(rng),
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more stages, as long as the power is below 1."""
        rng = generator(state["rng"])
        records = {name: np.zeros(n) for name in ("queries", "visits", "power", "accepted", "ess")}
        for i in range(n):
            accepted, done = 0.0, state["power"][0] >= 1.0
            moves = 0 if done else self.config.moves + (state["step"][0] == 0)
            if not done:
                state, accepted = self._stage(rng, state)
            records["queries"][i] = moves * self.config.particles * self.target.n_data
            records["visits"][i] = moves * self.target.n_data
            records["power"][i], records["accepted"][i] = state["power"][0], accepted
            records["ess"][i] = effective(self.weights(state))
            state = state | {"step": state["step"] + 1}
        return state | {"rng": generator_state(rng)}, records

    def _stage(self, rng: np.random.Generator, state: State) -> tuple[State, float]:
        theta, likelihood = state["theta"], state["likelihood"]
        power, step = float(state["power"][0]), int(state["step"][0]) + 1
        if step == 1:
            likelihood = self.target.log_likelihood(theta, self.all)
        least, under = self.config.ess * len(theta), likelihood - likelihood.max()
        after = longest(lambda to: (to - power) * under, power, 1.0, least, _BISECTIONS)
        weight = normalised((after - power) * likelihood, step, self.remedy)
        root = root_of(theta, weight) * 2.38 / np.sqrt(self.target.n_params)  # Roberts et al. 1997
        chosen = systematic(rng, weight, len(theta))
        theta, likelihood = theta[chosen], likelihood[chosen]
        prior, accepted = self.target.log_prior(theta), 0.0
        for _ in range(self.config.moves):
            proposal = theta + rng.standard_normal(theta.shape) @ root.T
            new_prior = self.target.log_prior(proposal)
            new_likelihood = self.target.log_likelihood(proposal, self.all)
            log_ratio = new_prior - prior + after * (new_likelihood - likelihood)
            yes = np.log(rng.random(len(theta))) < log_ratio
            theta = np.where(yes[:, None], proposal, theta)
            likelihood, prior = (
                np.where(yes, new, old) for new, old in ((new_likelihood, likelihood), (new_prior, prior))
            )
            accepted += yes.mean() / self.config.moves
        left = (1.0 - after) * likelihood
        moved = {"theta": theta, "likelihood": likelihood, "log_weight": left - left.max()}
        return state | moved | {"power": np.array([after])}, float(accepted)


build = Tempered
