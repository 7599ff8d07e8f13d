"""Molecular descriptors by RDKit (the `chem` extra): which ones, and their values for many molecules.

datasets/descriptors.yaml lists them and says how they were chosen.
"""

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Sequence

import numpy as np

from flyrun.experiments.data import registry
from flyrun.ground.children import Pool
from flyrun.ground.errors import DataError

_NAMES = registry.shipped("descriptors.yaml")
QM9_COUNTS = tuple(_NAMES["qm9_gap"]["counts"])
QM9 = (*QM9_COUNTS, *_NAMES["qm9_gap"]["continuous"])
CEP = (*_NAMES["opv_cep"]["counts"], *_NAMES["opv_cep"]["continuous"])

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
    """Values (N, D) of the D descriptors `names`; a row of NaN where a SMILES cannot be parsed.

    workers: processes, by default one per core; few molecules are done in this one. `echo` hears how far
    it is. DataError where rdkit is missing or lacks a descriptor.
    """
    _functions(names)
    blocks = [(list(smiles[start : start + _BLOCK]), names) for start in range(0, len(smiles), _BLOCK)]
    workers = min(workers or os.cpu_count() or 1, len(blocks))
    # A daemon, such as a worker of another pool, may not have children.
    alone = workers <= 1 or len(blocks) <= 2 or multiprocessing.current_process().daemon
    out, done = np.empty((len(smiles), len(names))), 0
    with contextlib.nullcontext() if alone else Pool(workers) as pool:
        for part in pool.map(_block, blocks) if pool else map(_block, blocks):
            out[done : done + len(part)] = part
            before, done = done, done + len(part)
            if done // 20_000 > before // 20_000:
                echo(f"descriptors of {done:,} of {len(out):,} molecules")
    return out


def _block(task: tuple[list[str], Sequence[str]]) -> np.ndarray:
    from rdkit import Chem, rdBase  # late: an extra

    smiles, names = task
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
