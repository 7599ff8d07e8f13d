"""MNIST's sevens against nines: principal component scores and a bias (Maclaurin & Adams 2014, Table 1)."""

from collections.abc import Callable

import numpy as np

from flyrun.experiments.config.dataset.row_data import Mnist7v9
from flyrun.experiments.data import mnist, registry
from flyrun.ground import archive, feature_cache
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset

NAME = "mnist_7v9"
STORED = (7, 9)
ARRAYS = tuple(mnist.FILES)
PIXELS = 28 * 28


def load(config: Mnist7v9) -> Dataset:
    """Features (N, n_components + 1) and t = +1 for the first of `config.classes`, -1 for the second.

    Pixels are divided by 255, centred by the training mean and turned into scores on the leading
    principal components of all training rows, which are not rescaled; the last column is 1. `limit`
    keeps the first rows and leaves the features as they are. 7 and 9 are stored; other classes need
    the full files. ConfigError names the key that is wrong.
    """
    classes, n_components = _classes(config.classes), config.n_components
    if not 1 <= n_components <= PIXELS:
        raise ConfigError(f"dataset.n_components={n_components}: choose 1 to {PIXELS}, the number of pixels")
    if sorted(classes) == sorted(STORED):
        content, digest = registry.read(NAME)

        def arrays(*names: str) -> dict[str, np.ndarray]:
            return archive.from_bytes(content, names, str(registry.path(NAME)))
    else:
        digits = mnist.fetch_pair(classes)
        digest = archive.sha256(b"".join(digits[name].tobytes() for name in ARRAYS))

        def arrays(*names: str) -> dict[str, np.ndarray]:
            return digits

    def scores() -> dict[str, np.ndarray]:
        images = arrays("train_images", "test_images")
        train, test = (images[f"{part}_images"].reshape(-1, PIXELS) / 255.0 for part in ("train", "test"))
        return feature_cache.principal_scores(train, test, n_components)

    key = {"what": feature_cache.PRINCIPAL_SCORES, "rows": digest, "n_components": n_components}
    score = feature_cache.cached(("train", "test", "explained"), key, scores)
    labels = arrays("train_labels", "test_labels")
    target = _signs(labels["train_labels"], classes)
    limit = _limit(config.limit, target)
    return Dataset(
        name=NAME,
        features=feature_cache.with_bias(score["train"][:limit]),
        target=target[:limit],
        test_features=feature_cache.with_bias(score["test"]),
        test_target=_signs(labels["test_labels"], classes),
        feature_names=(*(f"pc{number}" for number in range(1, n_components + 1)), "bias"),
        sha256=digest,
        info={
            **registry.origin(NAME),
            "positive": f"digit {classes[0]}",
            "negative": f"digit {classes[1]}",
            "explained_variance": float(score["explained"].sum()),
        },
    )


def collect(echo: Callable[[str], object]) -> dict[str, np.ndarray]:
    """What `flyrun data build mnist_7v9` stores: uint8 images (N, 28, 28), labels (N,), training and test."""
    return mnist.pair(mnist.fetch(echo), STORED)


def _classes(chosen: tuple[int, int]) -> tuple[int, int]:
    digits = tuple(chosen)
    if len(digits) != 2 or digits[0] == digits[1] or not all(digit in range(10) for digit in digits):
        raise ConfigError(f"dataset.classes={list(digits)}: choose two different digits of 0 to 9, as [7,9]")
    return digits


def _limit(limit: int | None, target: np.ndarray) -> int:
    """Number of rows of `target`, (N,), to keep; ConfigError unless they are there and hold both classes."""
    limit = feature_cache.checked_limit(limit, len(target))
    if np.all(target[:limit] == target[0]):
        enough = int(np.argmax(target != target[0])) + 1
        raise ConfigError(f"dataset.limit={limit}: keeps rows of one class only; choose {enough} or more")
    return limit


def _signs(labels: np.ndarray, classes: tuple[int, int]) -> np.ndarray:
    return np.where(labels == classes[0], 1.0, -1.0)
