"""The kinds of files that hold tables, by their endings."""

from pathlib import Path

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
#: of Arrow's file format, which Feather is too
ARROW = (".feather", ".arrow")
PARQUET = (".parquet", ".pq")
ENDINGS = (*_CSV, ".npz", *PARQUET, *ARROW)
FORMATS = ".csv, .tsv (or .csv.gz), .parquet, .feather or .npz"
#: what makes a table that can be read of others
_OTHERS = {
    (".svmlight", ".libsvm", ".svm"): "in Python, numpy.savez('mine.npz', x=X.toarray(), y=y) of "
    "sklearn.datasets.load_svmlight_file",
    (".dta", ".sav", ".sas7bdat"): "in Python, pandas.read_stata, read_spss or read_sas, and to_csv",
    (".rds", ".rdata"): "in R, write.csv(table, 'mine.csv', row.names = FALSE)",
    (".json", ".jsonl"): "in Python, pandas.read_json, and to_csv",
    (".xls", ".ods"): "save the sheet as CSV",
}


def remedy(path: Path | str) -> str:
    """What helps with a file of another kind."""
    name = str(path).lower()
    return next((f"; {how}" for endings, how in _OTHERS.items() if name.endswith(endings)), "")


def is_csv(path: Path | str) -> bool:
    """Whether a file holds text, which has decimal signs."""
    return str(path).lower().endswith(_CSV)
