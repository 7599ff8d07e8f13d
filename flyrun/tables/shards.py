"""Parts of a data set, each the data of a subposterior."""

from dataclasses import replace

import numpy as np

from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset
from flyrun.tables.dataset_options import Rows


def split(n: int, config: Rows, shards: int, seed: int = 0) -> list[np.ndarray]:
    """Row numbers, (n_j,), of each of `shards` parts of n, ascending; sizes n_j differ by at most one.

    Shuffled rows are dealt so that the parts of J are parts of those of J/2; seed: beside config.shards_seed.
    ConfigError where there are more parts than rows.
    """
    if shards > n:
        raise ConfigError(
            f"dataset={config.name}: has {n:,} rows, which make no {shards:,} shards; take at most {n} with "
            "sampler.shards or dataset.shard"
        )
    order = np.arange(n)
    if config.shards_by == "random":
        order = np.random.Generator(np.random.PCG64(config.shards_seed + seed)).permutation(n)
    return [np.sort(order[k * n // shards : (k + 1) * n // shards]) for k in range(shards)]


def shard(data: Dataset, config: Rows) -> Dataset:
    """Part k of J of the training rows, config.shard = (k, J); test rows stay whole. Errors as split's."""
    k, shards = config.shard or (0, 1)
    rows = split(len(data.target), config, shards)[k]
    return replace(
        data,
        features=np.ascontiguousarray(data.features[rows]),
        target=np.ascontiguousarray(data.target[rows]),
        **{name: values[rows] for name, values in data.beside.items()},
    )


def one_class(data: Dataset, config: Rows, shards: int, seed: int) -> int:
    """How many of the parts have rows of one class alone; 0 of numbers."""
    parts = [] if not data.n_classes else split(len(data.target), config, shards, seed)
    return sum(bool(np.ptp(data.target[rows]) == 0) for rows in parts)
