"""Two classes for logistic regression, as many rows as one likes: generated, float32, memory-mapped.

Recipe: x of 20 independent standard normals and a bias of 1; t = ±1 with p(t) = 1/(1 + exp(-t θ·x)), θ of
margins with standard deviation 1.5. A stored row is t·x, what logistic regression works on, so that nothing
has to be copied to be used.
"""

from typing import Any

import numpy as np

from flyrun.experiments.config.dataset.row_data import Tall
from flyrun.experiments.data import generated
from flyrun.tables.dataset import Dataset

NAME = "tall"
FULL, SEED, BLOCK, SIZE = 10_000_000, 1977, 50_000, 21
MARGIN_SD = 1.5
# Raise this when what `_start` draws changes: it is part of the files' fingerprint.
RECIPE = 1
FILES = ("rows.npy", "target.npy")


def load(config: Tall) -> Dataset:
    """Rows t·x, (n_data, 21) float32, mapped copy-on-write from the cache, never read whole; no test rows."""
    names = (*(f"x{d}" for d in range(1, SIZE)), "bias")
    return store(config.n_data).dataset(names, _info, folded=True)


def _info(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": "Generated logistic regression, tall",
        "source": "x ~ N(0, I) and a bias, p(t) = 1/(1 + exp(-t θ·x))",
        "coefficients": facts["coefficients"],
    }


def fingerprint(config: Tall) -> str:
    """Digest of the recipe."""
    return store(config.n_data).key


def store(n_data: int | None = None) -> generated.Generated:
    """The files of n_data rows, by default of the full size."""
    n_data = n_data or FULL
    recipe = [RECIPE, n_data, SEED, BLOCK, SIZE, MARGIN_SD]
    return generated.Generated(NAME, (n_data, SIZE), recipe, FILES, SEED, BLOCK, _start)


def _start() -> tuple[dict[str, Any], generated.Draw]:
    """θ, a direction by the seed, of length MARGIN_SD without the bias; and what draws a block by it."""
    theta = np.random.default_rng(SEED).standard_normal(SIZE)
    theta = MARGIN_SD * theta / np.linalg.norm(theta[:-1])

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        block = np.ones((BLOCK, SIZE), dtype=np.float32)
        block[:, :-1] = rng.standard_normal((BLOCK, SIZE - 1), dtype=np.float32)
        labels = np.where(rng.random(BLOCK) * (1.0 + np.exp(-(block @ theta))) < 1.0, 1.0, -1.0)
        return block * labels[:, None], labels

    return {"coefficients": theta.tolist()}, draw
