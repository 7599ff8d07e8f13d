"""CIFAR-10's airplanes, automobiles and birds as 256 binary features and a bias (Maclaurin & Adams 2014).

The paper took its features from a deep autoencoder (Krizhevsky 2009) that was never published. Ours are
codes learnt by patch_codes.py from the 15,000 images of the training files, without their labels: not the
paper's features, but of the same number and kind.
"""

from collections.abc import Callable

import numpy as np

from flyrun.experiments.config.dataset.row_data import Cifar3
from flyrun.experiments.data import cifar, patch_codes, registry
from flyrun.ground import feature_cache
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset

NAME = "cifar3"
BITS, SEED = 256, 2014
ARRAYS = ("train_codes", "train_labels", "test_codes", "test_labels")
# Raise this when what `_random_signs` returns changes: it is part of the cache's key.
RANDOM_SIGNS = 1


def load(config: Cifar3) -> Dataset:
    """Features (N, 257): 256 bits and a bias; target 0 airplane, 1 automobile, 2 bird.

    coding: "sign" codes a bit as ±1, "zero_one" as 0 or 1. The posterior's condition number, and with it
    every chain's ESS, depends on the coding; the paper says "binary features" and no more.

    split: "paper" takes all 18,000 rows for training, those of the training files first, and leaves no
    test row; "held_out" keeps the 3,000 of the test file apart.  codes: "learnt" is the stored file;
    "random_signs" needs the images (see cifar.py).  limit keeps the first training rows.
    """
    rows, digest = registry.arrays(NAME, ARRAYS)
    if config.codes == "random_signs":
        key = {"what": ["random signs", RANDOM_SIGNS], "rows": cifar.ROWS_SHA256, "seed": SEED}
        rows |= feature_cache.cached(("train_codes", "test_codes"), key, _random_signs)
    train, test = (_coded(rows[f"{part}_codes"], config.coding) for part in ("train", "test"))
    target, test_target = (rows[f"{part}_labels"].astype(np.int64) for part in ("train", "test"))
    if config.split == "paper":
        train, target = np.concatenate([train, test]), np.concatenate([target, test_target])
        test, test_target = test[:0], test_target[:0]
    limit = _limit(config.limit, target)
    return Dataset(
        name=NAME,
        features=feature_cache.with_bias(train[:limit]),
        target=target[:limit],
        test_features=feature_cache.with_bias(test),
        test_target=test_target,
        feature_names=(*(f"bit{number}" for number in range(1, BITS + 1)), "bias"),
        sha256=digest,
        info={
            **registry.origin(NAME),
            "classes": list(cifar.CLASSES),
            "codes": config.codes,
            "coding": config.coding,
            "split": config.split,
        },
        task="classes",
    )


def collect(echo: Callable[[str], object]) -> dict[str, np.ndarray]:
    """What `flyrun data build cifar3` stores: uint8 codes, 8 bits a byte, (N, 32), and labels (N,)."""
    rows = cifar.fetch(echo)
    codes = patch_codes.learnt(rows["train_images"], rows["test_images"], BITS, SEED, echo)
    stored = rows | _packed(codes)
    return {name: stored[name] for name in ARRAYS}


def _random_signs() -> dict[str, np.ndarray]:
    rows = cifar.fetch_kept(feature_cache.tell)
    return _packed(patch_codes.random_signs(rows["train_images"], rows["test_images"], BITS, SEED))


def _packed(codes: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        f"{part}_codes": np.packbits(bits, axis=1)
        for part, bits in zip(("train", "test"), codes, strict=True)
    }


def _coded(packed: np.ndarray, coding: str) -> np.ndarray:
    """(N, BITS // 8) bytes -> (N, BITS) of 0.0 or -1.0, and 1.0."""
    bits = np.unpackbits(packed, axis=1).astype(np.float64)
    return bits if coding == "zero_one" else bits * 2.0 - 1.0


def _limit(limit: int | None, target: np.ndarray) -> int:
    """Number of rows of `target`, (N,), to keep; ConfigError unless they are there, of all three classes."""
    limit = feature_cache.checked_limit(limit, len(target))
    if len(np.unique(target[:limit])) < len(cifar.CLASSES):
        enough = max(int(np.argmax(target == number)) for number in range(len(cifar.CLASSES))) + 1
        raise ConfigError(f"dataset.limit={limit}: lacks one of the classes; choose {enough} or more")
    return limit
