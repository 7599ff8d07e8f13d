"""Posteriors on which samplers are compared: logistic regression, every coefficient N(0, scale²)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flyrun import config
from flyrun.data import load


@dataclass(frozen=True, eq=False)
class Problem:
    """rows (N, D), the constant's column included; target (N,) of ±1; what flyrun is given for the same."""

    name: str
    dataset: Any
    prior: Any
    rows: np.ndarray
    target: np.ndarray


def problem(name: str) -> Problem:
    """By name: mnist, tall_1e4, tall_1e5, …"""
    of_size = name.removeprefix("tall_")
    dataset = config.Mnist7v9() if name == "mnist" else config.Tall(n_data=int(float(of_size)))
    data = load(dataset)
    # folded rows are t·x already: every label is then +1
    target = np.ones(len(data.features)) if data.folded else data.target
    return Problem(name, dataset, config.Gaussian(scale=1.0), data.features, target)
