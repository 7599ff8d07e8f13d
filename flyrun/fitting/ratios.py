"""Coefficients as ratios, e to them, where they are logs of ratios."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from flyrun.ground.errors import ConfigError
from flyrun.tables.layout import Layout

_OF_LINKS = {"logit": "odds_ratio", "log": "rate_ratio", "cloglog": "hazard_ratio"}
_NO_LOGS = {
    "identity": "differences of the target",
    "probit": "on the probit scale",
    "cauchit": "on the cauchit scale",
    "own": "on the model's own scale",
}


def name_of(link: str, target: str, log_target: bool = False, asked: str = "--exp") -> str:
    """What e to a coefficient is called. asked: by what. Raises ConfigError where it is no ratio."""
    if log_target:
        return "ratio"
    if link not in _OF_LINKS:
        raise ConfigError(
            f"{asked}: effects on {target} are {_NO_LOGS[link]}, no logs of ratios; leave {asked} out"
        )
    return _OF_LINKS[link]


def beside(
    rows: Sequence[dict[str, Any]], beta: np.ndarray, link: str, layout: Layout, asked: str = "--exp"
) -> list[dict[str, Any]]:
    """Rows of coefficients, those of columns with the median and the ends of the interval of their ratio.

    beta: draws of even weight, (C, T, D), or (C, T, K-1, D) of K classes, whose ratios are against the first.
    Raises ConfigError as `name_of`.
    """
    name = name_of(link, layout.target.name, layout.log_target, asked)
    with np.errstate(over="ignore"):
        middle = np.median(np.exp(beta), axis=(0, 1))  # (D,) or (K-1, D)
    classes = (layout.target.levels or [])[1:] if middle.ndim == 2 else [""]
    names = layout.names[: middle.shape[-1]]
    keys = [(level, coefficient) for level in classes for coefficient in names]
    of = dict(zip(keys, middle.ravel().tolist(), strict=True))
    extended = []
    for row in rows:
        key = (row["class"], row["coefficient"])
        if "effect_mean" in row and key in of:
            with np.errstate(over="ignore"):
                ends = {f"{name}_{end}": float(np.exp(row[end])) for end in ("q03", "q97")}
            row = row | {name: of[key]} | ends
        extended.append(row)
    return extended
