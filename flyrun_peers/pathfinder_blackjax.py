"""BlackJAX's multi-path Pathfinder (Zhang et al. 2022), whose Gaussians importance sampling corrects.

Paths of L-BFGS start at draws from the prior; of each, the Gaussian of the best evidence lower bound is kept.
A step is a draw from the Gaussian of the next path in turn, weighted by the posterior's density over its own.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.vi import multipathfinder, pathfinder
from scipy.special import softmax

from flyrun.extend import OnData, bind, seeded


def prepare(arm: Any, folder: Path) -> "Pathfinder":
    """Load the data."""
    return Pathfinder(arm, bind(arm, folder, needs_map=False))


class Pathfinder(OnData):
    """What the paths cost is charged to the first step."""

    answers, unit = "weighted", "iteration"
    label, exact = "Pathfinder with importance weights (BlackJAX)", True

    def init(self, seed: int, needed: tuple = ()) -> dict:
        """The paths' Gaussians, as BlackJAX keeps them."""
        rng, config = seeded(seed, self.arm.method()), self.config
        key, use = jax.random.split(jax.random.PRNGKey(int(rng.integers(2**31))))
        self.density.taken()
        paths, _ = multipathfinder.multi_approximate(
            use,
            self.density.jax.vmappable,
            jnp.asarray(self.density.draw_prior(rng, config.paths)),
            config.elbo_draws,
            maxiter=config.steps,
        )
        leaves, self._tree = jax.tree.flatten(paths.path_states)
        state = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        empty = {"theta": np.empty((0, self.n_params)), "log_weight": np.empty(0)}
        return state | empty | {"key": np.asarray(key), "owed": np.array([self.density.taken()])}

    def advance(self, state: dict, n: int) -> tuple[dict, dict]:
        """n more draws, N queries each."""
        if not hasattr(self, "_tree"):
            self.init(0)  # the tree that a stored state's arrays are of
        done, key = len(state["theta"]), jnp.asarray(state["key"])
        leaves = [jnp.asarray(state[name]) for name in sorted(state) if name.startswith("leaf")]
        theta, log_q = np.empty((n, self.n_params)), np.empty(n)
        for i in range(n):  # one by one, so that it does not matter where they are cut
            path = (done + i) % self.config.paths
            theta[i], log_q[i] = self._draw(
                jax.random.fold_in(key, done + i), [leaf[path] for leaf in leaves]
            )
        self.density.taken()
        new = {"theta": theta, "log_weight": self.density.log_density(theta) - log_q}
        queries = np.full(n, self.density.taken() // n)
        queries[0] += state["owed"][0]
        grown = {name: np.concatenate([state[name], values]) for name, values in new.items()}
        return state | grown | {"owed": np.zeros(1, np.int64)}, {"queries": queries}

    def _draw(self, key: Any, leaves: list) -> tuple[np.ndarray, float]:
        """A draw from a path's Gaussian, (P,), and its log density there."""
        if not hasattr(self, "_sample"):
            tree = self._tree
            self._sample = jax.jit(
                lambda key, leaves: pathfinder.sample(key, jax.tree.unflatten(tree, leaves), 1)
            )
        theta, log_q = self._sample(key, leaves)
        return np.asarray(theta[0], float), float(log_q[0])

    def estimates(self, state: dict) -> dict:
        """Weighted moments."""
        weight = softmax(state["log_weight"])
        return {"mean": weight @ state["theta"], "square": weight @ state["theta"] ** 2}

    def result(self, state: dict) -> dict:
        """Draws and log weights."""
        return {name: state[name] for name in ("theta", "log_weight")}
