"""MNIST8M's eights against sixes: 135 copies of each of 11,769 digits, deformed, as 50 scores and a bias.

Dai, He, Dai & Song (2016), with deformations of our own (infimnist.py). Principal components are those of the
11,769 digits themselves, pixels divided by 255. A stored row is t·x, what logistic regression works on.
"""

import itertools
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from flyrun.experiments.config.dataset.row_data import Mnist8m8v6
from flyrun.experiments.data import generated, infimnist, mnist, registry
from flyrun.ground import feature_cache
from flyrun.tables.dataset import Dataset

NAME = "mnist8m_8v6"
CLASSES = (8, 6)
N_DIGITS, N_COMPONENTS = 11_769, 50
FULL = infimnist.COPIES * N_DIGITS
# Raise this when what `_start` draws changes: it is part of the files' fingerprint.
RECIPE = 1
FILES = ("rows.npy", "target.npy")


def load(config: Mnist8m8v6) -> Dataset:
    """The first rows of MNIST8M's order, t·x, (limit, 51) float32, mapped from the cache; 1,932 test rows.

    Fewer components than 50 are a copy in memory.
    """
    names = tuple(f"pc{number}" for number in range(1, N_COMPONENTS + 1))
    data = store(config.limit).dataset((*names, "bias"), _info, folded=True)
    if config.n_components == N_COMPONENTS:
        return data
    kept = [*range(config.n_components), N_COMPONENTS]
    return replace(
        data,
        features=np.asarray(data.features[:, kept]),
        test_features=data.test_features[:, kept],
        feature_names=tuple(data.feature_names[d] for d in kept),
    )


def _info(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        **registry.origin(NAME),
        "positive": f"digit {CLASSES[0]}",
        "negative": f"digit {CLASSES[1]}",
        "explained_variance": facts["explained_variance"],
        "note": f"MNIST8M as far as it can be made again: {infimnist.OURS}.",
    }


def fingerprint(config: Mnist8m8v6) -> str:
    """Digest of the recipe and of the digits that it starts from."""
    return store(config.limit).key


def store(n_data: int | None = None) -> generated.Generated:
    """The files of n_data rows, by default of all."""
    n_data = n_data or FULL
    raw = [md5 for _, md5, _ in mnist.FILES.values()]
    made_by = [version(package) for package in ("scipy", "scikit-learn")]
    recipe = [RECIPE, n_data, infimnist.OURS, raw, made_by]
    shape, kept = (n_data, N_COMPONENTS + 1), ("test_features", "test_target")
    return generated.Generated(NAME, shape, recipe, FILES, 0, N_DIGITS, _start, kept)


def _start() -> tuple[dict[str, Any], generated.Draw]:
    """Test rows and components; and what makes one copy of all digits after the other, no luck in it."""
    from sklearn.decomposition import PCA  # late: two seconds, and rows are kept

    digits = mnist.fetch_all()
    place = np.flatnonzero(np.isin(digits["train_labels"], CLASSES))
    images, sign = digits["train_images"][place], _signs(digits["train_labels"][place])
    test = mnist.pair(digits, CLASSES)
    del digits
    grey = images.reshape(len(images), -1)
    pca = PCA(N_COMPONENTS, svd_solver="covariance_eigh").fit(grey / 255.0)
    loadings, centre = pca.components_.T / 255.0, pca.mean_ @ pca.components_.T
    pixels = (infimnist.SIDE, infimnist.SIDE)
    # to move an image is to move the loadings the other way
    of_shift = [
        infimnist.shifted(loadings.T.reshape(-1, *pixels), -down, -right).reshape(loadings.shape[::-1]).T
        for down, right in infimnist.SHIFTS
    ]
    field, slopes, copies = infimnist.fields(), infimnist.tangents(images), itertools.count()

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        rows, copy = np.ones((len(grey), N_COMPONENTS + 1)), next(copies)
        if copy == 0:
            rows[:, :-1] = grey @ loadings - centre
            return rows * sign[:, None], sign
        chosen = infimnist.choices(copy, place)
        for shift, moved in enumerate(of_shift):
            at = np.flatnonzero(chosen[0] % len(of_shift) == shift)
            deformation = tuple(values[at] for values in chosen)
            image = infimnist.deformed(grey[at], (slopes[0][at], slopes[1][at]), field, deformation)
            rows[at, :-1] = image.astype(np.float64) @ moved - centre
        return rows * sign[:, None], sign

    held_out = test["test_images"].reshape(len(test["test_images"]), -1) @ loadings - centre
    facts = {
        "explained_variance": float(pca.explained_variance_ratio_.sum()),
        "test_features": feature_cache.with_bias(held_out),
        "test_target": _signs(test["test_labels"]),
    }
    return facts, draw


def _signs(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == CLASSES[0], 1.0, -1.0)
