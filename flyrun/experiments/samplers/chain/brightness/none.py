"""No brightness variables: what goes with the full-data target."""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import brightness as options
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.ground.numerics.compiled import implements


class NoBrightness(NamedTuple):
    """For targets without auxiliary variables."""

    unused: int = 0


def build(config: options.NoBrightness, n_data: int, expected: np.ndarray) -> NoBrightness:
    """Nothing to configure. expected: (N,)."""
    return NoBrightness()


implements(resample, NoBrightness)(lambda brightness, rng, target, theta: None)
