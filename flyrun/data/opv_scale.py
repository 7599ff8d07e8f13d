"""A regression of the size of the paper's OPV data, 1,800,000 x 57: generated, float32, memory-mapped.

Recipe: x ~ N(0, S), S the second moments of qm9_gap's standardised descriptors; y = θ·x + σ·t₄ noise, θ
qm9_gap's least-squares coefficients, σ such that the noise has the variance of its residuals. Drawn block
by block, each from its own stream, so that a smaller set is the beginning of a larger one.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from flyrun.config.dataset import OpvScale, Qm9Gap
from flyrun.data import archive, descriptors, features, generated, qm9_gap, registry
from flyrun.data.dataset import Dataset

NAME = "opv_scale"
FULL, SEED, BLOCK, DF = 1_800_000, 2014, 50_000, 4
# Raise this when what `_generate` writes changes: it is part of the files' fingerprint.
RECIPE = 1
FILES = ("features.npy", "target.npy")


def load(config: OpvScale) -> Dataset:
    """Features (n_data, 57) float32, mapped copy-on-write from the cache, never read whole; no test rows."""
    files = _files(config.n_data)
    rows, target = files.load(features.tell)
    facts = files.facts()
    return Dataset(
        name=NAME,
        features=rows,
        target=np.array(target, dtype=np.float64),
        test_features=np.empty((0, rows.shape[1])),
        test_target=np.empty(0),
        feature_names=descriptors.QM9,
        sha256=files.key,
        info={
            "title": "Generated regression of the OPV data's size",
            "source": "x ~ N(0, S) with qm9_gap's second moments S, y = θ·x + σ·t4 noise",
            "noise_scale": facts["noise_scale"],
            "noise_df": DF,
            "coefficients": facts["coefficients"],
            "target": "in units of qm9_gap's standardised gap",
            "intercept": "none: features and target have expectation 0",
        },
        task="regression",
    )


def fingerprint(config: OpvScale) -> str:
    """Digest of the recipe and of what it starts from."""
    return _files(config.n_data).key


def store() -> generated.Generated:
    """The files of the full size."""
    return _files(FULL)


def _files(n_data: int) -> generated.Generated:
    start = [RECIPE, n_data, SEED, BLOCK, DF, registry.entry(qm9_gap.NAME)["sha256"], np.__version__]
    return generated.Generated(
        name=NAME,
        key=archive.sha256(json.dumps(start).encode()),
        shapes={FILES[0]: (n_data, len(descriptors.QM9)), FILES[1]: (n_data,)},
        generate=_generate,
        needed=("noise_scale", "coefficients"),
    )


def _generate(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    rows, target = (arrays[file] for file in FILES)
    root, theta, scale = fitted()
    for start in range(0, len(rows), BLOCK):
        rng = np.random.default_rng([SEED, start // BLOCK])
        # Always a whole block, so that the rows do not depend on n_data.
        block = (rng.standard_normal((BLOCK, len(theta))) @ root.T).astype(np.float32)
        noise = scale * rng.standard_t(DF, BLOCK)
        end = min(start + BLOCK, len(rows))
        rows[start:end] = block[: end - start]
        target[start:end] = (block @ theta + noise)[: end - start]
    return {"noise_scale": scale, "coefficients": theta.tolist()}


def fitted() -> tuple[np.ndarray, np.ndarray, float]:
    """Out of qm9_gap: root (D, D) of the second moments, coefficients θ (D,), scale σ of the t₄ noise."""
    data = qm9_gap.load(Qm9Gap())
    moments = data.features.T @ data.features / len(data.features)
    theta = np.linalg.solve(moments, data.features.T @ data.target / len(data.target))
    variance = np.mean((data.target - data.features @ theta) ** 2)
    return np.linalg.cholesky(moments), theta, float(np.sqrt(variance * (DF - 2) / DF))
