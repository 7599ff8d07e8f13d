"""The rows that a dataset's config asks for."""

from dataclasses import replace

import numpy as np

from flyrun.tables import checks, shards
from flyrun.tables.dataset import Dataset
from flyrun.tables.dataset_options import Dataset as Options
from flyrun.tables.dataset_options import Rows


def load(config: Options) -> Dataset:
    """The rows that a dataset's config asks for, checked: finite, matching, at least two classes.

    config: names the loader, which does the work. Training
    features are rounded to float32 where `config.dtype` says so, and `config.shard` is a part of the rows.
    DataError or ConfigError, in one line, for what a person can mend.
    """
    data = checks.prepared(config.code.load(config))
    if isinstance(config, Rows) and config.shard is not None:
        data = shards.shard(data, config)
    if getattr(config, "dtype", "float64") == "float32":
        return replace(data, features=data.features.astype(np.float32))
    return data
