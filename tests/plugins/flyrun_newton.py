"""A method that answers with a density: Newton's steps to the mode, and the Gaussian of the curvature there.

[project.entry-points."flyrun.samplers"]: newton = "flyrun_newton:Newton".
"""

import numpy as np

from flyrun.extend import Facts, Method, Sampler, bind, derivatives, option


@option("sampler", "newton")
class Newton(Sampler):
    """The Laplace approximation; a step is a pass over the data."""


def prepare(arm, folder):
    """What flyrun calls for a family of its own: data and model bound, nothing fitted."""
    return NewtonSteps(arm, bind(arm, folder, needs_map=False))


class NewtonSteps(Method):
    """θ_{t+1} = θ_t + H⁻¹∇, under a Gaussian prior."""

    answers = "density"

    def __init__(self, arm, problem):
        self.arm, self.problem = arm, problem
        self.n_data, self.n_params = problem.features.rows.shape

    def init(self, seed, needed=()):
        """From θ = 0, whatever the seed."""
        return {"theta": np.zeros(self.n_params), "covariance": np.eye(self.n_params)}

    def advance(self, state, n):
        """N queries a step."""
        theta, ridge = state["theta"].copy(), 1.0 / self.arm.prior.scale**2
        for _ in range(n):
            here = derivatives(self.arm.model.code, self.problem.model, self.problem.features, theta)
            covariance = np.linalg.inv(here.curvature + ridge * np.eye(len(theta)))
            theta += covariance @ (here.gradient - ridge * theta)
        return {"theta": theta, "covariance": covariance}, {"queries": np.full(n, self.n_data)}

    def estimates(self, state):
        """Mean and second moment of the Gaussian."""
        return {"mean": state["theta"], "square": state["theta"] ** 2 + np.diag(state["covariance"])}

    def result(self, state):
        """Its mean and covariance."""
        return {"mean": state["theta"], "covariance": state["covariance"]}

    def facts(self, state=None):
        """An approximation: exact only where the posterior is a Gaussian."""
        return Facts("Newton", exact=False, n_data=self.n_data, n_params=self.n_params)
