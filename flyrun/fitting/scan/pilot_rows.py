"""The pilot's rows: encoded as all others will be, what they are worth, how badly second order fits them."""

from dataclasses import replace

import numpy as np

from flyrun.fitting.rows_posterior import Posterior, Rows
from flyrun.fitting.scan.encoded_rows import Encoding, Form, Sample
from flyrun.fitting.scan.second_order import Centre, Sites
from flyrun.tables.encode import features

_CORE, _CORE_LEAST = 20.0, 1e-5  # times the mean size, from where on a row is kept as it is


def effective(chance: np.ndarray) -> float:
    """Rows that as many weighted ones are worth. chance: (n,), with which each was taken."""
    return float((1.0 / chance).sum() ** 2 / (1.0 / chance**2).sum())


def rows_of(pilot: Sample, encoding: Encoding, form: Form, given: str) -> Rows:
    """As the looks encode them, each standing for as many as it was drawn from."""
    parts = features([*pilot.x.astype(np.float64).T], encoding.features)
    x = np.vstack([*parts, np.ones((int(encoding.ones), len(pilot.y)))]).T.copy("C")
    beside = encoding.others(pilot.beside.T, given)
    rows = form.rows(x, encoding.targets(pilot.y, given, beside), beside)
    return replace(rows, weights=rows.weights / pilot.chance)


def sizes(start: Posterior, chance: np.ndarray, encoding: Encoding, model: str, centre: Centre) -> np.ndarray:
    """Sizes of what second order leaves of the pilot's rows, (n,); chance: with which each was taken."""
    rows = replace(start.rows, weights=start.rows.weights * chance)
    sites = Sites(encoding, model, centre)
    size = np.empty(len(rows))
    for block in start.blocks(8_192):
        part = rows.take(block)
        size[block] = sites.of(np.ascontiguousarray(sites.form.columns(part).T, np.float32), part)[2]
    return size


def bulk_and_core(size: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mean size (n,) of a scan's rows, and from which on they are kept as they are and not in that mean."""
    # from the median: from the least size on, all rows of many columns would be kept
    core = max(_CORE_LEAST, _CORE * float(np.median(size)))
    for _ in range(3):
        bulk = np.isfinite(size) & (size <= core)
        mean = float(weight[bulk] @ size[bulk] / weight[bulk].sum()) if bulk.any() else _CORE_LEAST
        core = max(_CORE_LEAST, _CORE * mean)
    return mean, core
