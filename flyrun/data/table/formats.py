"""The kinds of files that hold tables, by their endings."""

from pathlib import Path

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
#: of Arrow's file format, which Feather is too
ARROW = (".feather", ".arrow")
PARQUET = (".parquet", ".pq")
ENDINGS = (*_CSV, ".npz", *PARQUET, *ARROW)
FORMATS = ".csv, .tsv (or .csv.gz), .parquet, .feather or .npz"


def is_csv(path: Path | str) -> bool:
    """Whether a file holds text, which has decimal signs."""
    return str(path).lower().endswith(_CSV)
