"""A method that reads other arms' cells: two chains' draws, averaged by their precisions.

[project.entry-points."flyrun.samplers"]: average = "flyrun_average:Average".
"""

from dataclasses import replace

import numpy as np

from flyrun.extend import Facts, Hmc, Method, NoBound, NoBrightness, RandomWalk, Sampler, option


@option("sampler", "average")
class Average(Sampler):
    """Precision-weighted average of a random walk's and of HMC's means; one step."""

    def needed_arms(self, arm):
        """The two chains, on all data, as long as this arm's protocol says."""
        full = {"bound": NoBound(), "brightness": NoBrightness()}
        return tuple(replace(arm, name=u.name, sampler=u, **full) for u in (RandomWalk(), Hmc()))


def prepare(arm, folder):
    """Nothing to load."""
    return Averaging()


class Averaging(Method):
    """Σ P_j m_j / Σ P_j by coordinate."""

    answers = "density"

    def init(self, seed, needed=()):
        """Means and precisions of the finished cells, and what they cost."""
        cells = [cell.tree() for cell in needed]
        draws = [tree["posterior"]["theta"].values[0] for tree in cells]
        spent = sum(float(tree["estimate"]["queries"][-1]) for tree in cells)
        precisions = np.array([1.0 / values.var(axis=0) for values in draws])
        mean = (precisions * [values.mean(axis=0) for values in draws]).sum(axis=0) / precisions.sum(axis=0)
        return {"mean": mean, "variance": 2.0 / precisions.sum(axis=0), "spent": np.array([spent])}

    def advance(self, state, n):
        """All is charged to the first step."""
        return {**state, "spent": np.zeros(1)}, {"queries": np.append(state["spent"], np.zeros(n - 1))}

    def estimates(self, state):
        """Of the Gaussian that results."""
        return {"mean": state["mean"], "square": state["mean"] ** 2 + state["variance"]}

    def result(self, state):
        """Its mean and variances."""
        return {name: state[name] for name in ("mean", "variance")}

    def facts(self, state=None):
        """An approximation, of independent coordinates."""
        return Facts("Average of two chains", exact=False)
