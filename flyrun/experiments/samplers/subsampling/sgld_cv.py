"""SGLD with control variates (Baker, Fearnhead, Fox & Nemeth 2019): a batch says by how much gradients differ
from those at the MAP, whose sum is known.

Far less noise near the MAP, so that N by the batch may grow with N at one step: queries an effective draw do
not grow. Biased still, as there is no test of acceptance.
"""

import time

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.features import pulled
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.batches import rows_of
from flyrun.experiments.samplers.subsampling.gradient_chain import noise_of
from flyrun.experiments.samplers.subsampling.sgld import Sgld


class SgldCv(Sgld):
    """A step reads a batch, b queries; what is known at the MAP costs one pass at set-up."""

    label = "SGLD-CV"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        model, features, self.centre = problem.model, problem.features, problem.fit.theta_map

        def slopes(block: slice) -> np.ndarray:
            eta = passes.block_predictors(model, features, self.centre, block)
            return passes.slopes(arm.model.code.part(model, block), eta)

        self.known = passes.gathered(self.n_data, slopes)  # ∂ log L_n/∂η there, (N, K)
        by_data = passes.over_blocks(
            self.n_data,
            lambda block: (pulled(features, features.rows[block].astype(np.float64), self.known[block]),),
        )
        self.total = passes.added(by_data)[0]  # Σ ∇ log L_n(θ̂), which is not 0 beside a prior
        self.own_queries += self.n_data
        self.own_seconds += time.perf_counter() - started

    def of_data(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        model, features = rows_of(self.arm, self.problem, index)
        eta = passes.block_predictors(model, features, theta, slice(0, len(index)))
        apart = passes.slopes(model, eta) - self.known[index]
        return self.total + self.batches.factor * pulled(features, features.rows.astype(np.float64), apart)

    def noise(self, theta: np.ndarray) -> np.ndarray:
        """A mean, (P, P), over eight positions drawn about the MAP, where θ is on average."""
        rng = np.random.Generator(np.random.PCG64(0))
        away = np.linalg.cholesky(np.linalg.inv(self._curvature())) @ rng.standard_normal((len(theta), 8))
        noises = [noise_of(self.arm, self.problem, self.centre + shift, self.known) for shift in away.T]
        return np.mean(noises, axis=0)

    def _curvature(self) -> np.ndarray:
        look = passes.look(self.arm.model.code, self.problem.model, self.problem.features, self.centre)
        return look.curvature + np.diag(priors_of(self.arm).penalty(self.problem.prior).ridges(self.centre))


build = SgldCv
