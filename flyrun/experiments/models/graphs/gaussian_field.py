"""A Gaussian by its precision 𝒥 and potential h: x_i | rest ~ N((h_i − Σ 𝒥_ij x_j)/𝒥_ii, 1/𝒥_ii)."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config import model as options


class GaussianField(NamedTuple):
    """N(𝒥⁻¹h, 𝒥⁻¹)."""

    precision: np.ndarray  # (n, n), symmetric
    potential: np.ndarray  # (n,)


def bind(config: options.GaussianField, data: Any) -> GaussianField:
    """Model of a Precision; nothing to configure."""
    return GaussianField(data.matrix, data.potential)
