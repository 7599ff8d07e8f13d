"""Choices of sampler, a file for each family."""

import importlib

from flyrun.config.sampler.base import Sampler
from flyrun.config.sampler.chain import ThetaUpdate

__all__ = ["Sampler", "ThetaUpdate"]  # what a plug-in derives from

# in the order in which errors list them
for _family in ("gibbs", "approximations", "subsampling", "particles", "mixture", "inducing", "topics"):
    importlib.import_module(f"{__name__}.{_family}")
