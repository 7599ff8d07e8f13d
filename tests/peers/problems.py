"""Posteriors on which samplers are compared: logistic regression, every coefficient N(0, scale²)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flyrun import config
from flyrun.data import load


@dataclass(frozen=True)
class Problem:
    """rows (N, D), the constant's column included; target (N,) of ±1; what flyrun is given for the same."""

    name: str
    dataset: Any
    prior: Any
    rows: np.ndarray
    target: np.ndarray


def problem(name: str) -> Problem:
    """By name: mnist, tall_1e4, tall_1e5, …"""
    if name == "mnist":
        dataset, scale = config.Mnist7v9(), 1.0
    else:
        dataset, scale = config.Tall(n_data=int(float(name.removeprefix("tall_")))), 1.0
    data = load(dataset)
    return Problem(name, dataset, config.Gaussian(scale=scale), data.features, data.target)
