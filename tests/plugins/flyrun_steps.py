"""Two methods of one step: a walk in NumPy, and Langevin's in JAX, which another package imports for it.

[project.entry-points."flyrun.samplers"]: plain_walk = "flyrun_steps:PlainWalk".
"""

from typing import TYPE_CHECKING

import numpy as np

from flyrun.extend import Sampler, Stepwise, option, setting

if TYPE_CHECKING:  # it takes a second to import, for which the command line need not wait
    from flyrun.extend import Posterior


@option("sampler", "plain_walk")
class PlainWalk(Sampler):
    """A random walk whose step burn-in tunes."""

    exact = True
    step: float = setting(0.5, "of a coordinate, where burn-in begins", above=0)


class Walk(Stepwise):
    label, exact = "plain walk", True
    records, learnt = ("accepted",), ("step",)

    def first(self, rng, theta):
        density: Posterior = self.density
        value, step = density.log_density(theta), self.config.step
        return {"theta": theta, "value": value, "step": step, "accepted": 0.0}

    def step(self, rng, state):
        theta = state["theta"] + state["step"] * rng.standard_normal(self.n_params)
        value = self.density.log_density(theta)
        accepted = float(np.exp(min(value - state["value"], 0.0)))
        step = state["step"]
        if state["iteration"] < self.arm.protocol.burn_in:
            step = step * np.exp((accepted - 0.3) / np.sqrt(1.0 + state["iteration"][0]))
        if rng.random() >= accepted:
            theta, value = state["theta"], state["value"]
        return {"theta": theta, "value": value, "step": step, "accepted": accepted}


prepare = Walk.prepare
