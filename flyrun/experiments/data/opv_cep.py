"""Harvard Clean Energy Project molecules out of a CSV that you have: their SMILES and gaps (eV).

The project (Hachmann et al. 2011) is where the paper's 1.8 million molecules came from. Its tables are
not ours to hand on: moldata.csv of its public release (2.3 million molecules, DOI
10.6084/m9.figshare.9640427) and hce_gap_pce.csv (24,953 molecules) are read as they are. 57 RDKit
descriptors, computed once a file and kept in the per-user cache.
"""

from pathlib import Path

import numpy as np

from flyrun.experiments.config.dataset.row_data import OpvCep
from flyrun.experiments.data import descriptors, regression
from flyrun.ground import feature_cache, sources
from flyrun.ground.errors import DataError
from flyrun.tables.dataset import Dataset
from flyrun.tables.your_file import YourFile

NAME = "opv_cep"
# What the public files call the columns that `dataset.smiles` and `dataset.gap` name.
HEADERS = {"smiles": ("smiles", "SMILES_str"), "gap": ("gap", "e_gap_alpha")}
WHERE = (
    "a CSV of Harvard Clean Energy Project molecules, with their SMILES and gaps (moldata.csv of the "
    "project's public release, or the 24,953 molecules of hce_gap_pce.csv); name it with dataset.path=FILE"
)
# Raise this when what `_descriptors` returns changes: it is part of the cache's key.
DESCRIPTORS = 1


def load(config: OpvCep) -> Dataset:
    """Features (N, 57), or (N, 58) with `bias`; target the gap. Both standardised; see regression.py.

    skip_bad: leave out, and count, rows whose SMILES cannot be parsed or whose gap is no number; without
    it they are a DataError that names the first. split and limit as for qm9_gap.
    """
    path = store().path(config.path)
    digest = sources.sha256_of(path)
    smiles, gap = _table(path, {"smiles": config.smiles, "gap": config.gap})
    key = {"what": ["descriptors", DESCRIPTORS], "file": digest, "names": list(descriptors.CEP)}
    key["rdkit"] = descriptors.rdkit_version()
    columns = feature_cache.cached(("columns",), key, lambda: _descriptors(smiles))["columns"]
    good = _good(columns, gap, smiles, path, config.skip_bad)
    info = {
        "title": "Harvard Clean Energy Project: gap of candidate molecules for solar cells",
        "source": f"your file {path.name}",
        "molecules": int(good.sum()),
        "skipped": int((~good).sum()),
    }
    columns = regression.winsorised(columns[good].astype(np.float64))
    return regression.prepared(config, columns, gap[good], descriptors.CEP, f"{path}", digest, info)


def fingerprint(config: OpvCep) -> str:
    """sha256 of the CSV; DataError where it is not there."""
    return sources.sha256_of(store().path(config.path))


def store() -> YourFile:
    """The file, which is not ours."""
    return YourFile(NAME, WHERE, (("features", f"{len(descriptors.CEP)} RDKit descriptors"),))


def _table(path: Path, named: dict[str, str | None]) -> tuple[list[str], np.ndarray]:
    """SMILES and gaps (N,), NaN where a gap is no number; DataError without the columns or any row."""
    import pandas as pd  # late: half a second, only for this file

    try:
        header = [str(column) for column in pd.read_csv(path, nrows=0).columns]
        columns = {what: _column(what, column, header, path) for what, column in named.items()}
        rows = pd.read_csv(path, usecols=list(columns.values()), dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise DataError(f"{path}: cannot be read as CSV ({' '.join(str(error).split())})") from error
    if not len(rows):
        raise DataError(f"{path}: has no row below its header")
    gap = pd.to_numeric(rows[columns["gap"]], errors="coerce").to_numpy(np.float64)
    return rows[columns["smiles"]].tolist(), gap


def _column(what: str, named: str | None, header: list[str], path: Path) -> str:
    """The header of the SMILES or of the gaps: `named`, or the one that a public file has; DataError."""
    known = (named,) if named else HEADERS[what]
    present = [column for column in known if column in header]
    if len(present) == 1:
        return present[0]
    has = f"has both columns {' and '.join(present)}" if present else f"has no column {' or '.join(known)}"
    raise DataError(f"{path}: {has}, among {', '.join(header[:12])}; name it with dataset.{what}=COLUMN")


def _descriptors(smiles: list[str]) -> dict[str, np.ndarray]:
    names = descriptors.CEP
    feature_cache.tell(
        f"{NAME}: computing {len(names)} descriptors of {len(smiles):,} molecules, once a file"
    )
    # Single precision halves the cache of millions of rows; descriptors have no more digits to give.
    return {"columns": descriptors.compute(smiles, names, feature_cache.tell).astype(np.float32)}


def _good(columns: np.ndarray, gap: np.ndarray, smiles: list[str], path: Path, skip_bad: bool) -> np.ndarray:
    """Which rows (N,) can be used; DataError naming the first that cannot, unless `skip_bad`."""
    parsed = ~np.isnan(columns).all(axis=1)
    good = parsed & np.isfinite(columns).all(axis=1) & np.isfinite(gap)
    if good.all():
        return good
    row, bad = int(np.argmin(good)), int((~good).sum())
    if not skip_bad:
        text = smiles[row] if len(smiles[row]) <= 40 else smiles[row][:39] + "…"
        reason = f"SMILES {text!r} " + ("has an undefined descriptor" if parsed[row] else "cannot be parsed")
        if parsed[row] and not np.isfinite(gap[row]):
            reason = "gap is no finite number"
        more = f" ({bad} such rows)" if bad > 1 else ""
        raise DataError(
            f"{path}: row {row}, {reason}{more}; mend it or skip such rows with --skip-bad "
            "(dataset.skip_bad=true; rows count from 0 below the header)"
        )
    if not good.any():
        raise DataError(f"{path}: no row has both a SMILES that can be parsed and a finite gap")
    feature_cache.tell(f"{NAME}: skipped {bad:,} of {len(good):,} rows of {path}, the first is row {row}")
    return good
