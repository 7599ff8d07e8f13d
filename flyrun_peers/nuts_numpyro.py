"""NumPyro's NUTS (Hoffman & Gelman 2014; Phan, Pradhan & Jankowiak 2019): its kernel's `init` and `sample`.

`MCMC.run` compiles anew at every call, for seconds, and would be timed with it.
"""

from typing import Any

from numpyro.infer import NUTS

from flyrun_peers.whitened import Whitened


class Nuts(Whitened):
    """Step and mass are adapted during burn-in."""

    label = "NUTS (NumPyro)"

    def first(self, key: Any, theta: Any) -> Any:
        self.kernel = NUTS(
            potential_fn=lambda w: -self.log_density(w),
            dense_mass=self.config.dense,
            target_accept_prob=self.config.target_accept,
        )
        return self.kernel.init(key, self.arm.protocol.burn_in, self.begin(theta), (), {})

    def step(self, key: Any, state: Any) -> Any:
        state = self.kernel.sample(state, (), {})
        return state, {"theta": state.z, "accepted": state.accept_prob}


prepare = Nuts.prepare
