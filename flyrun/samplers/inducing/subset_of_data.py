"""Subset of data: the exact process on some rows alone (Quiñonero-Candela & Rasmussen 2005, §4)."""

import numpy as np

from flyrun.models.gaussian_process import Process
from flyrun.samplers.inducing.exact_gp import OnRows
from flyrun.samplers.inducing.method import checked_size, inducing_rows
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, process: Process, seconds: float) -> Method:
    """The method of an arm."""
    size = checked_size("inducing", arm.sampler.inducing, process)
    return Subset(arm, process, seconds, size, "Subset of data", False)


class Subset(OnRows):
    """The rows whose inputs are the first set of inducing inputs."""

    def rows(self, seed: int) -> np.ndarray:
        return inducing_rows(seed, self.n_data, 1, self.size)[0]
