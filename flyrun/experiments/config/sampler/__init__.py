"""Choices of sampler, a file for each family."""

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.experiments.config.sampler.chain import ThetaUpdate  # first, as errors list them

# isort: split
from flyrun.experiments.config.sampler import (
    approximations,
    combinations,
    gibbs,
    hierarchies,
    hogwild,
    inducing,
    mixture,
    particles,
    prefetching,
    streamed,
    subsampling,
    topics,
)

__all__ = [
    "Sampler",
    "ThetaUpdate",
    "approximations",
    "combinations",
    "gibbs",
    "hierarchies",
    "hogwild",
    "inducing",
    "mixture",
    "particles",
    "prefetching",
    "streamed",
    "subsampling",
    "topics",
]
