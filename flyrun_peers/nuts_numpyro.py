"""NumPyro's NUTS (Hoffman & Gelman 2014; Phan, Pradhan & Jankowiak 2019): its kernel's `init` and `sample`.

`MCMC.run` compiles anew at every call, for seconds, and would be timed with it.
"""

from pathlib import Path
from typing import Any

from numpyro.infer import NUTS

from flyrun.experiments.models.problem import bind
from flyrun.experiments.samplers.method import Arm
from flyrun_peers.jax_chain import JaxChain


def prepare(arm: Arm, folder: Path) -> "Nuts":
    """Load the data, find the MAP and its curvature."""
    return Nuts(arm, bind(arm, folder, needs_map=True))


class Nuts(JaxChain):
    """Step and mass are adapted during burn-in."""

    label = "NUTS (NumPyro)"

    def first(self, key: Any, w: Any) -> tuple[Any, int]:
        sampler, log_density = self.arm.sampler, self.whitened.log_density
        self.kernel = NUTS(
            potential_fn=lambda w: -log_density(w),
            dense_mass=sampler.dense,
            target_accept_prob=sampler.target_accept,
        )
        return self.kernel.init(key, self.arm.protocol.burn_in, w, (), {}), 1

    def step(self, state: Any) -> tuple[Any, Any, Any, Any]:
        state = self.kernel.sample(state, (), {})
        return state, state.z, state.num_steps, state.accept_prob
