"""Features computed from stored rows, and a cache of them."""

import contextlib
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from flyrun.ground import archive, files, paths
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.threads import one_blas_thread

# Raise this when what `principal_scores` returns changes: it is part of the cache's key.
PRINCIPAL_SCORES = 1


def principal_scores(train: np.ndarray, test: np.ndarray, n_components: int) -> dict[str, np.ndarray]:
    """Scores on the leading principal components of `train`, not rescaled.

    train (N, P), test (M, P) -> train (N, K), test (M, K), explained (K,) shares of the variance.
    Both parts are centred by the mean of `train`. The largest loading (in absolute value) of each
    component is positive: scikit-learn's rule. BLAS runs one thread, for the last bits of the
    scores depend on their number.
    """
    from sklearn.decomposition import PCA  # late: two seconds, and scores are cached

    with one_blas_thread():
        pca = PCA(n_components, svd_solver="full").fit(train)
        return {
            "train": pca.transform(train),
            "test": pca.transform(test),
            "explained": pca.explained_variance_ratio_,
        }


def with_bias(scores: np.ndarray) -> np.ndarray:
    """(N, K) -> (N, K + 1): `scores` and a last column of ones."""
    return np.column_stack([scores, np.ones(len(scores))])


def cached(
    names: tuple[str, ...], key: dict[str, Any], compute: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """What `compute()` returns, kept per user under a digest of `key` and of the versions it depends on.

    names: those of the arrays.  key: plain values that determine them. A cache file that is damaged
    or cannot be written costs a computation, nothing else.
    """
    versions = {package: version(package) for package in ("numpy", "scipy", "scikit-learn")}
    digest = archive.sha256(json.dumps([key, versions], sort_keys=True).encode())
    path = paths.cache_dir("features") / f"{digest[:32]}.npz"
    with contextlib.suppress(OSError, DataError):
        return archive.from_bytes(path.read_bytes(), names, str(path))
    arrays = compute()
    files.keep(archive.write, path, archive.to_bytes(arrays, compress=False))
    return arrays


def checked_limit(limit: int | None, n_rows: int) -> int:
    """Number of leading rows that `dataset.limit` keeps of `n_rows`; ConfigError where they are not there."""
    if limit is None:
        return n_rows
    if not 2 <= limit <= n_rows:
        raise ConfigError(f"dataset.limit={limit}: choose 2 to {n_rows}, the number of training rows")
    return limit


def tell(line: str) -> None:
    """Say on stderr what a loader does that takes its time: stdout is for results."""
    print(line, file=sys.stderr, flush=True)
