"""Generated: many factors of `width` variables each, every variable in as many, few tables shared by all.

The regime of De Sa et al. (2018) in which minibatches win: Δ factors a variable, each of little energy, so
that L and Ψ = n·L/width stay what they are however large Δ is.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.ground.archive import no_file as fingerprint  # noqa: F401


class SharedTables(NamedTuple):
    """Factors with masses M_f, several at one table of φ/M."""

    sizes: np.ndarray  # (n,): values of each variable
    scopes: np.ndarray  # (F, width) int32
    masses: np.ndarray  # (F,): M_f
    table_of: np.ndarray  # (F,): the number of each factor's table
    table_first: np.ndarray  # (T,): where in `tables` each begins
    tables: np.ndarray  # (T·D^width,), the last variable of a scope fastest
    ends: np.ndarray  # (E, 2) int32: the pairs whose agreement is watched, those of the first factors


def load(config: options.graph_data.RandomFactors) -> SharedTables:
    """Random regular graph: `degree` times, the variables are shuffled and dealt out to n/width factors.

    So each variable stands in `degree` factors, all of one M, and each L_i is `local` exactly.
    φ/M = a·(share of the others that agree with the first) + (1 − a)·U(differences to the first, mod D),
    a = `agreement`, U uniform: a shift of all values changes nothing; marginals are uniform.
    """
    rng = np.random.default_rng(config.seed)
    n, width, degree, n_values = config.n_variables, config.width, config.degree, config.n_values
    order = rng.permuted(np.broadcast_to(np.arange(n, dtype=np.int32), (degree, n)), axis=1)
    scopes = order.reshape(-1, width)
    masses = np.full(len(scopes), config.local / degree)
    size = n_values**width
    tables = np.concatenate([_table(rng, n_values, width, config.agreement) for _ in range(config.n_tables)])
    table_of = rng.integers(config.n_tables, size=len(scopes))
    ends = scopes[: n // width, :2].copy()
    return SharedTables(
        np.full(n, n_values), scopes, masses, table_of, np.arange(config.n_tables) * size, tables, ends
    )


def _table(rng: np.random.Generator, n_values: int, width: int, agreement: float) -> np.ndarray:
    """(D^width,): one table of φ/M."""
    off = rng.random((n_values,) * (width - 1))
    values = np.indices((n_values,) * width)
    differences = (values[1:] - values[0]) % n_values
    agree = (differences == 0).mean(axis=0)
    return (agreement * agree + (1.0 - agreement) * off[tuple(differences)]).ravel()
