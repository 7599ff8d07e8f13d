"""A method that answers with weighted draws: importance sampling from a t about the mode.

[project.entry-points."flyrun.samplers"]: toy_importance = "flyrun_toy_importance:ToyImportance".
"""

import numpy as np
from scipy.special import softmax
from scipy.stats import multivariate_t

from flyrun.extend import OnData, Sampler, bind, generator, generator_state, log_densities, option

# isort: split
from flyrun.extend import posterior_curvature, seeded, setting


@option("sampler", "toy_importance")
class ToyImportance(Sampler):
    """Draws from a t of `freedom` degrees with the posterior's curvature; a step is a draw."""

    freedom: float = setting(8.0, above=0)


def prepare(arm, folder):
    return ImportanceSampling(arm, bind(arm, folder, needs_map=True))


class ImportanceSampling(OnData):
    """θ ~ q with log weight log p(θ, data) − log q(θ)."""

    answers, label, exact = "weighted", "Importance", True

    def __init__(self, arm, problem):
        super().__init__(arm, problem)
        self.own_queries = self.n_data  # of the curvature
        spread = np.linalg.inv(posterior_curvature(arm, problem))
        self.proposal = multivariate_t(problem.fit.theta_map, spread, arm.sampler.freedom)

    def init(self, seed, needed=()):
        theta = np.empty((0, self.problem.fit.theta_map.size))
        rng = seeded(seed, self.arm.method())
        return {"rng": generator_state(rng), "theta": theta, "log_weight": theta.sum(axis=1)}

    def advance(self, state, n):
        """n more draws, one by one, so that it does not matter where they are cut."""
        rng = generator(state["rng"])
        theta = np.array([self.proposal.rvs(random_state=rng) for _ in range(n)])
        log_weight = sum(log_densities(self.arm, self.problem, theta)) - self.proposal.logpdf(theta)
        new = {"theta": theta, "log_weight": np.atleast_1d(log_weight)}
        grown = {name: np.concatenate([state[name], values]) for name, values in new.items()}
        return grown | {"rng": generator_state(rng)}, {"queries": np.full(n, self.n_data)}

    def estimates(self, state):
        weight = softmax(state["log_weight"])
        return {"mean": weight @ state["theta"], "square": weight @ state["theta"] ** 2}

    def result(self, state):
        return {name: state[name] for name in ("theta", "log_weight")}
