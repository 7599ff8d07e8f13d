"""A method of one step in JAX: Langevin proposals, accepted by Metropolis.

[project.entry-points."flyrun.samplers"]: jax_langevin = "flyrun_langevin:JaxLangevin".
"""

from flyrun.extend import Sampler, option, setting


@option("sampler", "jax_langevin")
class JaxLangevin(Sampler):
    """MALA in JAX, with a step that stays."""

    exact = True
    step: float = setting(0.5, "of a coordinate", above=0)


def prepare(arm, folder):
    """Late: JAX takes a second to import."""
    import jax
    import jax.numpy as jnp

    from flyrun.extend import JaxStepwise

    class Langevin(JaxStepwise):
        label, exact, records = "Langevin (JAX)", True, ("accepted",)

        def first(self, key, theta):
            return theta, *jax.value_and_grad(self.target.log_density)(theta)

        def step(self, key, state):
            theta, value, slope = state
            noise, uniform = jax.random.split(key)
            size = self.config.step
            there = theta + 0.5 * size**2 * slope + size * jax.random.normal(noise, theta.shape)
            other, rise = jax.value_and_grad(self.target.log_density)(there)
            ahead = jnp.sum((there - theta - 0.5 * size**2 * slope) ** 2)
            back = jnp.sum((theta - there - 0.5 * size**2 * rise) ** 2)
            accepted = jnp.exp(jnp.minimum(other - value + (ahead - back) / (2.0 * size**2), 0.0))
            moves = jax.random.uniform(uniform) < accepted
            state = jax.tree.map(lambda new, old: jnp.where(moves, new, old), (there, other, rise), state)
            return state, {"theta": state[0], "accepted": accepted}

    return Langevin.prepare(arm, folder)
