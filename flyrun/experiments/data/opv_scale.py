"""A regression of the size of the paper's OPV data, 1,800,000 x 57: generated, float32, memory-mapped.

Recipe: x ~ N(0, S), S the second moments of qm9_gap's standardised descriptors; y = θ·x + σ·t₄ noise, θ
qm9_gap's least-squares coefficients, σ such that the noise has the variance of its residuals.
"""

from typing import Any

import numpy as np

from flyrun.experiments.config.dataset.row_data import OpvScale, Qm9Gap
from flyrun.experiments.data import descriptors, generated, qm9_gap, registry
from flyrun.tables.dataset import Dataset

NAME = "opv_scale"
FULL, SEED, BLOCK, DF = 1_800_000, 2014, 50_000, 4
# Raise this when what `_start` draws changes: it is part of the files' fingerprint.
RECIPE = 1
FILES = ("features.npy", "target.npy")


def load(config: OpvScale) -> Dataset:
    """Features (n_data, 57) float32, mapped copy-on-write from the cache, never read whole; no test rows."""
    return store(config.n_data).dataset(descriptors.QM9, _info, task="regression")


def _info(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": "Generated regression of the OPV data's size",
        "source": "x ~ N(0, S) with qm9_gap's second moments S, y = θ·x + σ·t4 noise",
        "noise_scale": facts["noise_scale"],
        "noise_df": DF,
        "coefficients": facts["coefficients"],
        "target": "in units of qm9_gap's standardised gap",
        "intercept": "none: features and target have expectation 0",
    }


def fingerprint(config: OpvScale) -> str:
    """Digest of the recipe and of what it starts from."""
    return store(config.n_data).key


def store(n_data: int | None = None) -> generated.Generated:
    """The files of n_data rows, by default of the full size."""
    n_data = n_data or FULL
    recipe = [RECIPE, n_data, SEED, BLOCK, DF, registry.entry(qm9_gap.NAME)["sha256"]]
    shape = (n_data, len(descriptors.QM9))
    return generated.Generated(NAME, shape, recipe, FILES, SEED, BLOCK, _start)


def _start() -> tuple[dict[str, Any], generated.Draw]:
    root, theta, scale = fitted()

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        block = (rng.standard_normal((BLOCK, len(theta))) @ root.T).astype(np.float32)
        return block, block @ theta + scale * rng.standard_t(DF, BLOCK)

    return {"noise_scale": scale, "coefficients": theta.tolist()}, draw


def fitted() -> tuple[np.ndarray, np.ndarray, float]:
    """Out of qm9_gap: root (D, D) of the second moments, coefficients θ (D,), scale σ of the t₄ noise."""
    data = qm9_gap.load(Qm9Gap())
    moments = data.features.T @ data.features / len(data.features)
    theta = np.linalg.solve(moments, data.features.T @ data.target / len(data.target))
    variance = np.mean((data.target - data.features @ theta) ** 2)
    return np.linalg.cholesky(moments), theta, float(np.sqrt(variance * (DF - 2) / DF))
