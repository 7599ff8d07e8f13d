"""Draws without the directions that the likelihood ignores, where the posterior is the prior.

A softmax likelihood knows nothing of Θ + 1vᵀ, Θ of K rows, a row a class. Chains mix well or badly there
whatever the data say, so that their ESS is counted without it: each column of Θ minus its mean over classes.
A program says so with the fact "gauge": {"classes": K}, θ being Θ row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def without(draws: np.ndarray, facts: dict[str, Any]) -> np.ndarray | None:
    """(T, K·D) draws, Θ minus its mean over classes; None where the program tells of no gauge."""
    n_classes = _classes(facts)
    return centred(draws, n_classes) if n_classes else None


def centred(draws: np.ndarray, n_classes: int) -> np.ndarray:
    """(T, K·W) draws of W columns of Θ, minus their means over classes."""
    rows = draws.reshape(len(draws), n_classes, -1)
    return (rows - rows.mean(axis=1, keepdims=True)).reshape(draws.shape)


def blocks(n_params: int, size: int, facts: dict[str, Any]) -> Iterator[list[slice]]:
    """Coordinates about `size` at a time, all classes of a column together: a slice for each class."""
    n_classes = _classes(facts)
    if not n_classes:
        return
    width = n_params // n_classes
    step = max(1, size // n_classes)
    for start in range(0, width, step):
        end = min(start + step, width)
        yield [slice(k * width + start, k * width + end) for k in range(n_classes)]


def _classes(facts: dict[str, Any]) -> int:
    return int((facts.get("gauge") or {}).get("classes", 0))
