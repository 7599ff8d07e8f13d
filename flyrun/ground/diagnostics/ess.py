"""Rank-normalised bulk and tail ESS and split R-hat, by ArviZ (Vehtari et al. 2021).

ArviZ walks autocorrelations lag by lag: minutes for a table of sticky chains. A chain whose draws stay alike
for τ iterations says the same when every (τ/10)-th is kept, so that is what ArviZ is given; a chain of
independent draws is given whole. One value differs from ArviZ's: a coordinate that never moves has ESS 0.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.ground.diagnostics import coda

TAIL_PROBABILITIES = (0.05, 0.95)
MIN_DRAWS = 4
HIGH_RHAT = 1.05  # of chains that do not agree
_PER_TIME = 10  # draws kept per autocorrelation time
_ENOUGH = 1000  # draws of a chain that are never thinned further
_ESS: dict[str, dict[str, object]] = {  # what ArviZ is asked for
    "bulk": {"method": "bulk"},
    "tail": {"method": "tail", "prob": TAIL_PROBABILITIES},
    "square": {"method": "sd"},
}


class Summary(NamedTuple):
    """Per coordinate, each (D,): ESS in draws of all chains together, and R-hat (NaN for a single chain)."""

    bulk: np.ndarray
    tail: np.ndarray
    square: np.ndarray
    rhat: np.ndarray


def summary(chains: np.ndarray, largest: float = 0.0, wanted: tuple[str, ...] = Summary._fields) -> Summary:
    """Diagnostics of (C, T, D) draws; `square`: ESS of (θ - mean)², which antithetic chains cannot flatter.

    All NaN with fewer than 4 draws a chain or a value that is not finite (per coordinate). Where nothing
    moves ESS is 0, and R-hat infinite if the chains rest at different places. largest: R-CODA's ESS of the
    best chain's best coordinate, where it is known. wanted: names of a Summary; what is not is NaN.
    """
    chains, usable, moving = _checked(chains)
    measures = Summary(*np.full((4, chains.shape[2]), np.nan))
    draws = _thinned(chains[:, :, moving], largest) if moving.any() else None
    for name in _ESS.keys() & wanted:
        values = getattr(measures, name)
        values[usable] = 0.0
        if draws is not None:
            values[moving] = _ess(draws, **_ESS[name])
    if chains.shape[0] > 1 and "rhat" in wanted:
        apart = np.ptp(chains.mean(axis=1), axis=0) > 0
        measures.rhat[usable & ~moving & apart] = np.inf
        if draws is not None:
            measures.rhat[moving] = _arviz().rhat(draws, chain_axis=0, draw_axis=1, method="rank")
    return measures


def _checked(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(C, T, D) as floats; which coordinates, (D,), have values to speak of, and which of those move."""
    chains = np.asarray(chains, dtype=np.float64)
    if chains.ndim != 3:
        raise ValueError(f"chains must have shape (C, T, D), not {chains.shape}")
    usable = np.isfinite(chains).all(axis=(0, 1)) & (chains.shape[1] >= MIN_DRAWS)
    return chains, usable, usable & (np.ptp(chains, axis=1) > 0).any(axis=0)


def _thinned(chains: np.ndarray, largest: float = 0.0) -> np.ndarray:
    """Every k-th draw of (C, T, D), k a tenth of the shortest autocorrelation time among the coordinates."""
    n_draws = chains.shape[1]
    if n_draws <= _ENOUGH:
        return chains
    largest = largest or max(float(coda.effective_size(chain).max()) for chain in chains)
    time = n_draws / max(largest, 1.0)
    return chains[:, :: max(1, min(int(time / _PER_TIME), n_draws // _ENOUGH))]


def _ess(chains: np.ndarray, **how: object) -> np.ndarray:
    return np.asarray(_arviz().ess(chains, chain_axis=0, draw_axis=1, **how))


def _arviz() -> Any:
    from arviz_stats.base import array_stats  # late: two seconds, which a worker's own summaries do without

    return array_stats
