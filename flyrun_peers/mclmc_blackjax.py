"""BlackJAX's microcanonical Langevin Monte Carlo (Robnik et al. 2023), unadjusted or accepted by Metropolis.

Unadjusted steps read two gradients each (the integrator of McLachlan's) and leave a bias that the energy's
variance per step bounds. Length and step come from BlackJAX's own search, before the first step and charged
to it.
"""

from pathlib import Path
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from blackjax.mcmc import adjusted_mclmc_dynamic, mclmc

from flyrun.experiments.models.problem import bind
from flyrun.experiments.samplers.method import Arm
from flyrun_peers.jax_chain import JaxChain

_GRADIENTS = 2  # of one step of the integrator


def prepare(arm: Arm, folder: Path) -> JaxChain:
    """Load the data, find the MAP and its curvature."""
    made = Adjusted if arm.sampler.adjusted else Unadjusted
    return made(arm, bind(arm, folder, needs_map=True))


class Unadjusted(JaxChain):
    """The Langevin form, whose momentum is refreshed partly at every step."""

    label, exact = "MCLMC, unadjusted (BlackJAX)", False

    def first(self, key: Any, w: Any) -> tuple[Any, int]:
        init_key, tune_key, key = jax.random.split(key, 3)
        sampler, log_density = self.arm.sampler, self.whitened.log_density
        state, tuned, steps = blackjax.mclmc_find_L_and_step_size(
            mclmc_kernel=mclmc.build_kernel(desired_energy_var=sampler.energy_variance),
            num_steps=sampler.tuning,
            state=mclmc.init(w, log_density, init_key),
            rng_key=tune_key,
            logdensity_fn=log_density,
            diagonal_preconditioning=sampler.metric == "identity",
            desired_energy_var=sampler.energy_variance,
        )
        return (key, state, tuned), 1 + _GRADIENTS * int(steps)

    def step(self, state: Any) -> tuple[Any, Any, Any, Any]:
        key, inner, tuned = state
        key, use = jax.random.split(key)
        kernel = mclmc.build_kernel(desired_energy_var=self.arm.sampler.energy_variance)
        inner, info = kernel(
            use, inner, self.whitened.log_density, tuned.inverse_mass_matrix, tuned.L, tuned.step_size
        )
        return (key, inner, tuned), inner.position, _GRADIENTS, info.nonans


class Adjusted(JaxChain):
    """Trajectories of random numbers of steps, accepted by Metropolis."""

    label = "MCLMC, adjusted (BlackJAX)"

    def _kernel(self) -> Any:
        def steps(key, average):
            return jnp.ceil(jax.random.uniform(key) * adjusted_mclmc_dynamic.rescale(average)).astype(int)

        return adjusted_mclmc_dynamic.build_kernel(integration_steps_fn=steps)

    def first(self, key: Any, w: Any) -> tuple[Any, int]:
        init_key, tune_key, key = jax.random.split(key, 3)
        sampler, log_density = self.arm.sampler, self.whitened.log_density
        state, tuned, steps = blackjax.adjusted_mclmc_find_L_and_step_size(
            mclmc_kernel=self._kernel(),
            logdensity_fn=log_density,
            num_steps=sampler.tuning,
            state=adjusted_mclmc_dynamic.init(w, log_density, init_key),
            rng_key=tune_key,
            target=sampler.target_accept,
            diagonal_preconditioning=sampler.metric == "identity",
        )
        return (key, state, tuned), 1 + _GRADIENTS * int(steps)

    def step(self, state: Any) -> tuple[Any, Any, Any, Any]:
        key, inner, tuned = state
        key, use = jax.random.split(key)
        inner, info = self._kernel()(
            use,
            inner,
            self.whitened.log_density,
            tuned.step_size,
            inverse_mass_matrix=tuned.inverse_mass_matrix,
            integration_steps_params=(tuned.L / tuned.step_size,),
        )
        taken = _GRADIENTS * info.num_integration_steps
        return (key, inner, tuned), inner.position, taken, info.acceptance_rate
