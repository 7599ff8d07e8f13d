"""Molecular descriptors by RDKit (the `chem` extra): which ones, and their values for many molecules.

57 a dataset, as in the paper, whose own list is not public. Chosen once, by forward selection and swaps on
a random sample, for a least-squares fit of the gap, among descriptors that are defined for every molecule,
not the same for more than 99 % of them, and not nearly a linear combination of those chosen already (many
of RDKit's are: fr_benzene counts what NumAromaticCarbocycles counts, fr_NH0 is close to NOCount). Counts
come first, then the continuous ones.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Sequence

import numpy as np

from flyrun.children import Pool
from flyrun.errors import DataError

QM9_COUNTS = (
    "NumAliphaticRings",
    "NumAmideBonds",
    "NumAromaticRings",
    "NumBridgeheadAtoms",
    "NumHAcceptors",
    "NumSaturatedRings",
    "NumSpiroAtoms",
    "fr_Al_OH",
    "fr_ArN",
    "fr_Ar_NH",
    "fr_Ar_OH",
    "fr_NH1",
    "fr_aldehyde",
    "fr_amidine",
    "fr_aniline",
    "fr_aryl_methyl",
    "fr_epoxide",
    "fr_ester",
    "fr_halogen",
    "fr_ketone",
    "fr_ketone_Topliss",
    "fr_lactone",
    "fr_methoxy",
    "fr_nitrile",
    "fr_oxime",
)
QM9_CONTINUOUS = (
    "AvgIpc",
    "BertzCT",
    "Chi0n",
    "EState_VSA2",
    "EState_VSA4",
    "FpDensityMorgan3",
    "HeavyAtomMolWt",
    "Kappa3",
    "MaxAbsEStateIndex",
    "MinEStateIndex",
    "MolLogP",
    "PEOE_VSA1",
    "PEOE_VSA14",
    "PEOE_VSA2",
    "PEOE_VSA3",
    "PEOE_VSA4",
    "PEOE_VSA5",
    "PEOE_VSA9",
    "SMR_VSA10",
    "SMR_VSA4",
    "SMR_VSA9",
    "SPS",
    "SlogP_VSA1",
    "SlogP_VSA10",
    "SlogP_VSA11",
    "SlogP_VSA2",
    "SlogP_VSA3",
    "SlogP_VSA5",
    "SlogP_VSA6",
    "VSA_EState4",
    "VSA_EState6",
    "VSA_EState8",
)
QM9 = (*QM9_COUNTS, *QM9_CONTINUOUS)

# QM9's small molecules and the Harvard Clean Energy Project's large aromatic ones share few varied
# descriptors: no molecule of the latter has an amide, a halogen or a nitrile.
CEP = (
    "NHOHCount",
    "NOCount",
    "NumAromaticHeterocycles",
    "NumAromaticRings",
    "NumRotatableBonds",
    "fr_allylic_oxid",
    "fr_bicyclic",
    "fr_furan",
    "fr_para_hydroxylation",
    "fr_pyridine",
    "fr_thiazole",
    "AvgIpc",
    "BalabanJ",
    "Chi0v",
    "Chi4v",
    "EState_VSA1",
    "EState_VSA2",
    "EState_VSA3",
    "EState_VSA4",
    "EState_VSA5",
    "EState_VSA6",
    "EState_VSA8",
    "EState_VSA9",
    "FpDensityMorgan1",
    "FpDensityMorgan3",
    "FractionCSP3",
    "Kappa1",
    "Kappa3",
    "MaxAbsEStateIndex",
    "MinAbsEStateIndex",
    "MinEStateIndex",
    "PEOE_VSA1",
    "PEOE_VSA10",
    "PEOE_VSA11",
    "PEOE_VSA2",
    "PEOE_VSA3",
    "PEOE_VSA4",
    "PEOE_VSA5",
    "PEOE_VSA6",
    "PEOE_VSA7",
    "PEOE_VSA8",
    "PEOE_VSA9",
    "SMR_VSA10",
    "SMR_VSA9",
    "SPS",
    "SlogP_VSA1",
    "SlogP_VSA12",
    "SlogP_VSA3",
    "SlogP_VSA5",
    "SlogP_VSA6",
    "VSA_EState2",
    "VSA_EState3",
    "VSA_EState4",
    "VSA_EState5",
    "VSA_EState6",
    "VSA_EState9",
    "qed",
)

_BLOCK = 500  # molecules a task


def rdkit_version() -> str:
    """Version of the installed RDKit; DataError naming the extra where there is none."""
    try:
        import rdkit  # late: an extra
    except ImportError:
        raise DataError(
            "rdkit is not installed, which computes the descriptors; pip install 'flyrun[chem]'"
        ) from None
    return str(rdkit.__version__)


def compute(
    smiles: Sequence[str],
    names: Sequence[str],
    echo: Callable[[str], object] = lambda line: None,
    workers: int | None = None,
) -> np.ndarray:
    """Values (N, len(names)) of the descriptors `names`; a row of NaN where a SMILES cannot be parsed.

    workers: processes, by default one per core; few molecules are done in this one. `echo` hears how far
    it is. DataError where rdkit is missing or lacks a descriptor.
    """
    _functions(names)
    blocks = [(list(smiles[start : start + _BLOCK]), names) for start in range(0, len(smiles), _BLOCK)]
    workers = min(workers or os.cpu_count() or 1, len(blocks))
    out = np.empty((len(smiles), len(names)))
    # A daemon, such as a worker of another pool, may not have children.
    if workers <= 1 or len(blocks) <= 2 or multiprocessing.current_process().daemon:
        return _gather(itertools.starmap(_block, blocks), out, echo)
    with Pool(workers) as pool:
        return _gather(pool.map(_star, blocks), out, echo)


def _gather(parts, out: np.ndarray, echo: Callable[[str], object]) -> np.ndarray:
    done = 0
    for part in parts:
        out[done : done + len(part)] = part
        before, done = done, done + len(part)
        if done // 20_000 > before // 20_000:
            echo(f"descriptors of {done:,} of {len(out):,} molecules")
    return out


def _star(task: tuple[list[str], Sequence[str]]) -> np.ndarray:
    return _block(*task)


def _block(smiles: list[str], names: Sequence[str]) -> np.ndarray:
    from rdkit import Chem, rdBase  # late: an extra

    functions = _functions(names)
    out = np.full((len(smiles), len(names)), np.nan)
    with rdBase.BlockLogs():  # a line of RDKit's on every molecule that it does not like
        for row, text in zip(out, smiles, strict=True):
            molecule = Chem.MolFromSmiles(text) if text else None
            if molecule is not None:
                row[:] = [function(molecule) for function in functions]
    return out


def _functions(names: Sequence[str]) -> list[Callable]:
    rdkit_version()
    from rdkit.Chem import Descriptors  # late: an extra

    known = dict(Descriptors.descList)
    for name in names:
        if name not in known:
            raise DataError(f"this rdkit has no descriptor {name}; pip install --upgrade 'flyrun[chem]'")
    return [known[name] for name in names]
