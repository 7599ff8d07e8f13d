"""The pilot's rows: encoded as all others will be, what they are worth, how badly second order fits them."""

import numpy as np

from flyrun.fitting.rows_posterior import Posterior, Rows
from flyrun.fitting.scan.encoded_rows import Encoding, Sample
from flyrun.fitting.scan.second_order import Centre, Sites


def effective(chance: np.ndarray) -> float:
    """Rows that as many weighted ones are worth."""
    return float((1.0 / chance).sum() ** 2 / (1.0 / chance**2).sum())


def rows_of(pilot: Sample, encoding: Encoding, given: str) -> Rows:
    """As the looks encode them, each standing for as many as it was drawn from."""
    x = (pilot.x.astype(np.float64) - encoding.mean) / encoding.sd
    if encoding.ones:
        x = np.column_stack([x, np.ones(len(x))])
    y = encoding.targets(pilot.y, given)
    return Rows(x, y, weights=1.0 / pilot.chance)


def sizes(start: Posterior, encoding: Encoding, model: str, centre: Centre) -> np.ndarray:
    """Sizes of what second order leaves of the pilot's rows, (n,)."""
    rows = start.rows
    sites = Sites(model, rows.features.shape[1], len(encoding.values), centre)
    found = np.empty(len(rows))
    for block in start.blocks(8_192):
        x = np.ascontiguousarray(rows.features[block].T.astype(np.float32))
        found[block] = sites.of(x, rows.target[block])[2]
    return found
