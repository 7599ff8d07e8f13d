"""Two samplers that need JAX in double and in single precision, which is a switch of the whole process.

[project.entry-points."flyrun.samplers"]: wide = "flyrun_wide:Wide"; narrow = "flyrun_wide:Narrow".
"""

from typing import ClassVar

import numpy as np

from flyrun.extend import OnData, Sampler, bind, generator, generator_state, log_densities, option, seeded

# isort: split
from flyrun.extend import setting


@option("sampler", "narrow")
class Narrow(Sampler):
    """A random walk that needs JAX in single precision."""

    double: ClassVar[bool] = False
    step: float = setting(0.1, above=0)


@option("sampler", "wide")
class Wide(Sampler):
    """A random walk that needs JAX in double precision."""

    worker: ClassVar[str] = "jax64"
    double: ClassVar[bool] = True
    step: float = setting(0.1, above=0)


def prepare(arm, folder):
    return Walk(arm, bind(arm, folder, needs_map=True))


class Walk(OnData):
    """θ' ~ N(θ, step²), accepted by Metropolis."""

    label, exact = "Walk", True

    def init(self, seed, needed=()):
        rng = seeded(seed, self.arm.method())
        return {"rng": generator_state(rng), "theta": self.starting_point(seed)}

    def advance(self, state, n):
        import jax

        if jax.config.jax_enable_x64 != self.config.double:
            raise TypeError(f"JAX is in {'double' if jax.config.jax_enable_x64 else 'single'} precision")
        rng, theta, kept = generator(state["rng"]), state["theta"], []
        for _ in range(n):
            proposal = theta + self.config.step * rng.standard_normal(len(theta))
            here, there = sum(log_densities(self.arm, self.problem, np.stack([theta, proposal])))
            theta = proposal if np.log(rng.random()) < there - here else theta
            kept.append(theta)
        after = {"rng": generator_state(rng), "theta": theta}
        return after, {"theta": np.array(kept), "queries": np.full(n, 2 * self.n_data)}
