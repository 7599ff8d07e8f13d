"""Expectation propagation of hierarchies (Gelman et al. 2014): (5.51) to (5.56) of the survey.

q(θ) = p(θ) Π_k f_k(θ). A worker draws θ and the z_n of its shard from q/f_k · Π_n p(z_n | θ) p(y_n | z_n) by
Gibbs sampling, z_n by a Metropolis step where it is not conjugate, and takes as its new site the Gaussian of
θ's moments over the cavity q/f_k. Local variables leave no shard.
"""

import numpy as np

from flyrun.experiments.models.about_mean import AboutMean
from flyrun.experiments.samplers.hierarchies.method import OfHierarchies
from flyrun.experiments.samplers.method import State
from flyrun.ground.errors import ConfigError

_WARM_UP = 10  # sweeps from the cavity's mean that are thrown away


class HierarchicalEp(OfHierarchies):
    """A step is a round over all shards, at once."""

    model: AboutMean
    label = "Hierarchical EP"

    def more_state(self, natural: np.ndarray) -> State:
        """ConfigError for more shards than rows."""
        shards, n_data = self.arm.sampler.shards, self.model.n_data
        if shards > n_data:
            raise ConfigError(f"sampler.shards={shards}: the data have {n_data:,} rows; take at most as many")
        return {"sites": np.zeros((shards, 2))}

    def rows(self, rng: np.random.Generator, key: int, t: int) -> np.ndarray:
        """All indices, (N,), dealt to the shards alike in every round."""
        return super().rows(rng, key, 0)

    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        sites, config = state["sites"], self.arm.sampler
        cavities = state["natural"] - sites
        for k, shard in enumerate(np.array_split(index, len(sites))):
            site = self.tilted(rng, cavities[k], shard) - cavities[k]
            sites[k] += config.damping * (site - sites[k])
        state["natural"] = self.model.prior + sites.sum(axis=0)
        return (_WARM_UP + config.draws) * len(index)

    def tilted(self, rng: np.random.Generator, cavity: np.ndarray, shard: np.ndarray) -> np.ndarray:
        """Natural parameters, (2,), of θ's Gaussian under the cavity and the rows of a shard, from draws.

        Moments are those of θ given each draw's z, mixed: Var θ is the mean variance and the means' variance.
        """
        model, draws = self.model, self.arm.sampler.draws
        precision = cavity[0] + len(shard) * model.tight
        theta, means, z = np.array(cavity[1] / cavity[0]), np.empty(_WARM_UP + draws), None
        for s in range(len(means)):
            z = model.redrawn(rng, theta, z, shard)
            means[s] = (cavity[1] + model.tight * z.sum()) / precision
            theta = np.array(means[s] + rng.standard_normal() / np.sqrt(precision))
        kept = means[_WARM_UP:]
        mixed = 1.0 / (1.0 / precision + kept.var(ddof=1))
        return np.array([mixed, mixed * kept.mean()])


build = HierarchicalEp
