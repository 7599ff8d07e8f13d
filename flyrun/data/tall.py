"""Two classes for logistic regression, as many rows as one likes: generated, float32, memory-mapped.

Recipe: x of 20 independent standard normals and a bias of 1; t = ±1 with p(t) = 1/(1 + exp(-t θ·x)), θ of
margins with standard deviation 1.5. A stored row is t·x, what logistic regression works on, so that nothing
has to be copied to be used. Drawn block by block, each from its own stream: a smaller set is the beginning
of a larger one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.data import archive, features, generated
from flyrun.data.dataset import Dataset

if TYPE_CHECKING:
    from flyrun.config.dataset import Tall

NAME = "tall"
FULL, SEED, BLOCK, SIZE = 10_000_000, 1977, 50_000, 21
MARGIN_SD = 1.5
# Raise this when what `_generate` writes changes: it is part of the files' fingerprint.
RECIPE = 1
FILES = ("rows.npy", "target.npy")


def load(config: Tall) -> Dataset:
    """Rows t·x, (n_data, 21) float32, mapped copy-on-write from the cache, never read whole; no test rows."""
    files = _files(config.n_data)
    rows, target = files.load(features.tell)
    return Dataset(
        name=NAME,
        features=rows,
        target=np.array(target, dtype=np.float64),
        test_features=np.empty((0, SIZE)),
        test_target=np.empty(0),
        feature_names=(*(f"x{d}" for d in range(1, SIZE)), "bias"),
        sha256=files.key,
        info={
            "title": "Generated logistic regression, tall",
            "source": "x ~ N(0, I) and a bias, p(t) = 1/(1 + exp(-t θ·x))",
            "coefficients": files.facts()["coefficients"],
        },
        folded=True,
    )


def fingerprint(config: Tall) -> str:
    """Digest of the recipe."""
    return _files(config.n_data).key


def store() -> generated.Generated:
    """The files of the full size."""
    return _files(FULL)


def coefficients() -> np.ndarray:
    """θ, (21,): a direction by the seed, of length MARGIN_SD without the bias."""
    theta = np.random.default_rng(SEED).standard_normal(SIZE)
    return MARGIN_SD * theta / np.linalg.norm(theta[:-1])


def _files(n_data: int) -> generated.Generated:
    start = [RECIPE, n_data, SEED, BLOCK, SIZE, MARGIN_SD, np.__version__]
    return generated.Generated(
        name=NAME,
        key=archive.sha256(json.dumps(start).encode()),
        shapes={FILES[0]: (n_data, SIZE), FILES[1]: (n_data,)},
        generate=_generate,
        needed=("coefficients",),
    )


def _generate(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    rows, target = (arrays[file] for file in FILES)
    theta = coefficients()
    for start in range(0, len(rows), BLOCK):
        rng = np.random.default_rng([SEED, start // BLOCK])
        # Always a whole block, so that the rows do not depend on n_data.
        block = np.ones((BLOCK, SIZE), dtype=np.float32)
        block[:, :-1] = rng.standard_normal((BLOCK, SIZE - 1), dtype=np.float32)
        labels = np.where(rng.random(BLOCK) * (1.0 + np.exp(-(block @ theta))) < 1.0, 1.0, -1.0)
        end = min(start + BLOCK, len(rows))
        rows[start:end] = (block * labels[:, None])[: end - start]
        target[start:end] = labels[: end - start]
    return {"coefficients": theta.tolist()}
