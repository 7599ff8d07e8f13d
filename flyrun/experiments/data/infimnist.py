"""Deformed handwritten digits without end, after InfiMNIST (Loosli, Canu & Bottou 2007; infimnist 1.3).

Digit i ≥ 70,000 is training digit j = (i − 10,000) mod 60,000, deformed to x + s(F_k1 ⊙ T_x − F_k2 ⊙ T_y) and
moved by one of nine steps of at most a pixel: T_x, T_y the image's slopes, F fields of displacements, s = ±1.
MNIST8M is the first 135 copies of every digit, of which the first is the digit itself. The published fields
and tangents are nowhere to be had: ours stand in, so that no image is bit for bit one of MNIST8M's.
"""

import numpy as np
from scipy.ndimage import gaussian_filter

COPIES = 135
N_FIELDS, SIDE = 1522, 28
_SEED, _SMOOTH, _BLUR = 20070, 4.0, 0.9  # ours; pixels
_TEST, _TRAIN = 10_000, 60_000
OURS = (
    f"the displacement fields and tangents are not InfiMNIST's, which are lost, but {N_FIELDS:,} fields of "
    f"uniform noise smoothed over {_SMOOTH:g} pixels, of 1 pixel rms, seed {_SEED}, and Gaussian derivatives "
    f"over {_BLUR:g} pixels"
)
SHIFTS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def fields() -> np.ndarray:
    """F, (1522, 784) float32: displacements in pixels."""
    noise = np.random.default_rng(_SEED).uniform(-1.0, 1.0, (N_FIELDS, SIDE, SIDE))
    smooth = gaussian_filter(noise, (0.0, _SMOOTH, _SMOOTH))
    return (smooth / np.sqrt(np.mean(smooth**2))).reshape(N_FIELDS, -1).astype(np.float32)


def tangents(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """T_x and T_y, (n, 784) float32, of images (n, 28, 28): grey levels a pixel, to the right and down."""
    grey, blur = images.astype(np.float32), (0.0, _BLUR, _BLUR)
    right, down = (gaussian_filter(grey, blur, order) for order in ((0, 0, 1), (0, 1, 0)))
    return right.reshape(len(images), -1), down.reshape(len(images), -1)


def choices(copy: int, digit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """k1, k2 and s, (n,) each, of copy 1, 2, … of training digits j, (n,); the shift is k1 mod 9."""
    i = _TEST + _TRAIN * copy + digit.astype(np.int64)
    k1 = (i * 131_071 % 2**32) % 1521
    k2 = (k1 + 1 + 2 * i) % N_FIELDS
    return k1, k2, np.where((k1 + k2) % 2, -1, 1).astype(np.float32)


def deformed(
    grey: np.ndarray, slopes: tuple[np.ndarray, np.ndarray], field: np.ndarray, chosen: tuple[np.ndarray, ...]
) -> np.ndarray:
    """Whole grey levels 0 … 255, (n, 784) float32, not yet shifted, of images (n, 784) with their slopes."""
    k1, k2, sign = chosen
    right, down = slopes
    moved = sign[:, None] * (field[k1] * right - field[k2] * down)
    moved += grey
    return np.trunc(np.clip(moved, 0.0, 255.0, out=moved), out=moved)


def shifted(images: np.ndarray, down: int, right: int) -> np.ndarray:
    """Images (…, 28, 28) moved by a pixel at most, 0 coming in."""
    padded = np.pad(images, [(0, 0)] * (images.ndim - 2) + [(1, 1), (1, 1)])
    return padded[..., 1 - down : SIDE + 1 - down, 1 - right : SIDE + 1 - right]
