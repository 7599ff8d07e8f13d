"""Binary codes of images: pooled responses to k-means patches (Coates, Lee, Ng 2011), hashed by ITQ.

Iterative quantisation (Gong, Lazebnik 2011) turns real features into bits: it rotates their principal
components so that the signs lose least. Everything is learnt without labels. All arithmetic is double
and on one BLAS thread, and chance comes from numpy's RandomState, whose streams are frozen: what other
libraries round otherwise stays far below the distance of any feature from 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from flyrun.ground.threads import one_blas_thread

PATCH = 6  # pixels a side
CENTROIDS = 400
SAMPLED = 60_000  # patches to learn from
ROUNDS_KMEANS = 12
ROUNDS_ITQ = 60
CONTRAST = 10.0  # added to a patch's variance (pixels of 0..255)
WHITENING = 0.1  # added to the eigenvalues of the patches' covariance


class Patches(NamedTuple):
    """What is learnt of patches: mean (P,), whitening matrix (P, P), centroids (CENTROIDS, P); P = 108."""

    mean: np.ndarray
    whiten: np.ndarray
    centroids: np.ndarray


def learnt(
    train: np.ndarray, others: np.ndarray, bits: int, seed: int, echo: Callable[[str], object]
) -> tuple[np.ndarray, np.ndarray]:
    """Codes (N, bits) and (M, bits), True where +1, of uint8 images (N, 32, 32, 3) and (M, 32, 32, 3).

    Only `train` is learnt from.
    """
    rng = np.random.RandomState(seed)
    with one_blas_thread():
        echo(f"learning {CENTROIDS} patches")
        patches = learn_patches(train, rng)
        echo(f"responses of {len(train):,} and {len(others):,} images")
        features, unseen = responses(train, patches), responses(others, patches)
        echo(f"learning {bits} bits")
        codes = learn_hash(features, bits, rng)
        return codes(features), codes(unseen)


def random_signs(
    train: np.ndarray, others: np.ndarray, bits: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Codes as `learnt` gives them, (N, bits): signs of projections of the pixels, centred by `train`."""
    flat = [images.reshape(len(images), -1).astype(np.float64) for images in (train, others)]
    mean = flat[0].mean(axis=0)
    projections = np.random.RandomState(seed).standard_normal((flat[0].shape[1], bits))
    with one_blas_thread():
        return (flat[0] - mean) @ projections > 0, (flat[1] - mean) @ projections > 0


def _patches_of(image: np.ndarray) -> np.ndarray:
    """All patches (positions, P) of one image, each with its mean removed and its contrast normalised."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH), axis=(0, 1))
    return _normalised(windows.reshape(-1, PATCH * PATCH * image.shape[2]).astype(np.float64))


def _normalised(patches: np.ndarray) -> np.ndarray:
    patches = patches - patches.mean(axis=1, keepdims=True)
    return patches / np.sqrt(patches.var(axis=1, keepdims=True) + CONTRAST)


def learn_patches(images: np.ndarray, rng: np.random.RandomState) -> Patches:
    """Whitening and k-means of patches sampled from `images` (N, H, W, 3)."""
    positions = images.shape[1] - PATCH + 1
    which = rng.randint(0, len(images), SAMPLED)
    rows, columns = rng.randint(0, positions, SAMPLED), rng.randint(0, positions, SAMPLED)
    windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
    sample = _normalised(windows[which, rows, columns].reshape(SAMPLED, -1).astype(np.float64))
    mean = sample.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(sample, rowvar=False))
    whiten = (vectors / np.sqrt(values + WHITENING)) @ vectors.T
    return Patches(mean, whiten, _k_means((sample - mean) @ whiten, rng))


def _k_means(points: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Centroids (CENTROIDS, P) of points (n, P) by Lloyd's rounds; one that lost all its points stays."""
    centroids = points[rng.permutation(len(points))[:CENTROIDS]]
    for _ in range(ROUNDS_KMEANS):
        half = 0.5 * np.sum(centroids**2, axis=1)
        # In blocks that fit the processor's cache.
        nearest = np.concatenate(
            [np.argmin(half - block @ centroids.T, axis=1) for block in np.array_split(points, 60)]
        )
        order = np.argsort(nearest, kind="stable")
        starts = np.searchsorted(nearest[order], np.arange(CENTROIDS))
        counts = np.bincount(nearest, minlength=CENTROIDS)
        kept = np.flatnonzero(counts)
        centroids[kept] = np.add.reduceat(points[order], starts[kept]) / counts[kept, None]
    return centroids


def responses(images: np.ndarray, patches: Patches) -> np.ndarray:
    """Features (N, 4·CENTROIDS): √ of the triangle responses max(0, mean distance − distance), by quarter."""
    side = images.shape[1] - PATCH + 1
    middle = (side + 1) // 2
    half = np.sum(patches.centroids**2, axis=1)
    out = np.empty((len(images), 4, CENTROIDS))
    for image, pooled in zip(images, out, strict=True):
        white = (_patches_of(image) - patches.mean) @ patches.whiten
        square = white @ (-2.0 * patches.centroids.T)
        square += half
        square += np.sum(white**2, axis=1, keepdims=True)
        distance = np.sqrt(np.maximum(square, 0.0, out=square), out=square)
        near = np.subtract(distance.mean(axis=1, keepdims=True), distance, out=distance)
        grid = np.maximum(near, 0.0, out=near).reshape(side, side, CENTROIDS)
        pooled[0] = grid[:middle, :middle].sum(axis=(0, 1))
        pooled[1] = grid[:middle, middle:].sum(axis=(0, 1))
        pooled[2] = grid[middle:, :middle].sum(axis=(0, 1))
        pooled[3] = grid[middle:, middle:].sum(axis=(0, 1))
    return np.sqrt(out.reshape(len(images), -1))


def learn_hash(
    features: np.ndarray, bits: int, rng: np.random.RandomState
) -> Callable[[np.ndarray], np.ndarray]:
    """Standardise, keep the `bits` leading principal components scaled by eigenvalue^(-1/4), rotate by ITQ.

    Returns what turns features (N, F) into codes (N, bits), True where +1.
    The scaling lies between principal components as they are, whose signs waste bits on noise, and
    whitened ones, in which noise counts as much as structure.
    """
    mean, sd = features.mean(axis=0), features.std(axis=0)
    standard = (features - mean) / sd
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    values, vectors = values[::-1][:bits], vectors[:, ::-1][:, :bits]
    # The sign of an eigenvector is the library's choice; make its largest entry positive.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    directions = vectors * np.sign(largest) * values**-0.25
    scores = standard @ directions
    rotation = np.linalg.qr(rng.standard_normal((bits, bits)))[0]
    for _ in range(ROUNDS_ITQ):
        left, _, right = np.linalg.svd(scores.T @ np.sign(scores @ rotation))
        rotation = left @ right
    turned = directions @ rotation
    return lambda rows: ((rows - mean) / sd) @ turned > 0
