"""Generated tables as Parquet shards, each row group from a key of its own: never a whole table in memory."""

from pathlib import Path

import numpy as np

GROUP, FILE = 500_000, 5_000_000  # rows of a row group, and of a file, at most
_GROUPS = 50  # in a table, at least: a scan's stages are made of them
TARGET = "y"
_SPREAD, _SEED = 1.5, 7  # sd of the predictor; of the coefficients


def coefficients(columns: int) -> np.ndarray:
    """The table's true ones, (D + 1,), the intercept last."""
    drawn = np.random.default_rng([_SEED, columns]).standard_normal(columns)
    return np.append(drawn * _SPREAD / np.linalg.norm(drawn), -0.5)


def rows(first: int, n: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal features, (D, n), float32, and 0-1 targets of a logistic regression, (n,), int8.

    first: number of their first row, which is their key.
    """
    rng = np.random.Generator(np.random.Philox(key=[first, columns]))
    x = rng.standard_normal((columns, n), dtype=np.float32)
    theta = coefficients(columns).astype(np.float32)
    eta = theta[:-1] @ x + theta[-1]
    return x, (rng.random(n, dtype=np.float32) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int8)


def write(
    folder: Path, n: int, columns: int, group: int = GROUP, file: int = FILE, checksums: bool = False
) -> int:
    """Write n rows, float32 with snappy; bytes. Needs room for 4·D + 1 bytes a row.

    checksums: of pages, which pyarrow writes only where it is asked to.
    """
    import pyarrow  # late: an extra
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    group = min(group, max(n // _GROUPS, 1))
    names = [*(f"x{k}" for k in range(columns)), TARGET]
    schema = pyarrow.schema([*((name, pyarrow.float32()) for name in names[:-1]), (TARGET, pyarrow.int8())])
    for number, begin in enumerate(range(0, n, file)):
        with parquet.ParquetWriter(
            folder / f"part-{number:05d}.parquet",
            schema,
            compression="snappy",
            use_dictionary=False,
            write_page_checksum=checksums,
        ) as shard:
            end = min(begin + file, n)
            for first in range(begin, end, group):
                x, y = rows(first, min(group, end - first), columns)
                shard.write_table(pyarrow.table([*x, y], schema=schema), row_group_size=group)
    return sum(path.stat().st_size for path in folder.iterdir())
