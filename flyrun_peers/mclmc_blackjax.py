"""BlackJAX's microcanonical Langevin Monte Carlo (Robnik et al. 2023), unadjusted or accepted by Metropolis.

Unadjusted steps read two gradients each (the integrator of McLachlan's) and leave a bias that the energy's
variance per step bounds. Length and step come from BlackJAX's own search, before the first step and charged
to it.
"""

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from blackjax.mcmc import adjusted_mclmc_dynamic, mclmc

from flyrun_peers.whitened import Whitened


class Unadjusted(Whitened):
    """The Langevin form, whose momentum is refreshed partly at every step."""

    label, exact = "MCLMC, unadjusted (BlackJAX)", False

    def first(self, key: Any, theta: Any) -> Any:
        init_key, tune_key = jax.random.split(key)
        sampler, log_density, w = self.config, self.log_density, self.begin(theta)
        state, tuned, _ = blackjax.mclmc_find_L_and_step_size(
            mclmc_kernel=mclmc.build_kernel(desired_energy_var=sampler.energy_variance),
            num_steps=sampler.tuning,
            state=mclmc.init(w, log_density, init_key),
            rng_key=tune_key,
            logdensity_fn=log_density,
            diagonal_preconditioning=sampler.metric == "identity",
            desired_energy_var=sampler.energy_variance,
        )
        return state, tuned

    def step(self, key: Any, state: Any) -> Any:
        inner, tuned = state
        kernel = mclmc.build_kernel(desired_energy_var=self.config.energy_variance)
        inner, info = kernel(
            key, inner, self.log_density, tuned.inverse_mass_matrix, tuned.L, tuned.step_size
        )
        return (inner, tuned), {"theta": inner.position, "accepted": info.nonans}


class Adjusted(Whitened):
    """Trajectories of random numbers of steps, accepted by Metropolis."""

    label = "MCLMC, adjusted (BlackJAX)"

    def _kernel(self) -> Any:
        def steps(key, average):
            return jnp.ceil(jax.random.uniform(key) * adjusted_mclmc_dynamic.rescale(average)).astype(int)

        return adjusted_mclmc_dynamic.build_kernel(integration_steps_fn=steps)

    def first(self, key: Any, theta: Any) -> Any:
        init_key, tune_key = jax.random.split(key)
        sampler, log_density, w = self.config, self.log_density, self.begin(theta)
        state, tuned, _ = blackjax.adjusted_mclmc_find_L_and_step_size(
            mclmc_kernel=self._kernel(),
            logdensity_fn=log_density,
            num_steps=sampler.tuning,
            state=adjusted_mclmc_dynamic.init(w, log_density, init_key),
            rng_key=tune_key,
            target=sampler.target_accept,
            diagonal_preconditioning=sampler.metric == "identity",
        )
        return state, tuned

    def step(self, key: Any, state: Any) -> Any:
        inner, tuned = state
        inner, info = self._kernel()(
            key,
            inner,
            self.log_density,
            tuned.step_size,
            inverse_mass_matrix=tuned.inverse_mass_matrix,
            integration_steps_params=(tuned.L / tuned.step_size,),
        )
        return (inner, tuned), {"theta": inner.position, "accepted": info.acceptance_rate}


def prepare(arm: Any, folder: Any) -> Whitened:
    """The method of an arm: adjusted or not."""
    return (Adjusted if arm.sampler.adjusted else Unadjusted).prepare(arm, folder)
