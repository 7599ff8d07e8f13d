"""A regression of the size of the paper's OPV data, 1,800,000 x 57: generated, float32, memory-mapped.

Recipe: x ~ N(0, S), S the second moments of qm9_gap's standardised descriptors; y = θ·x + σ·t₄ noise, θ
qm9_gap's least-squares coefficients, σ such that the noise has the variance of its residuals. Drawn block
by block, each from its own stream, so that a smaller set is the beginning of a larger one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun import paths
from flyrun.data import archive, descriptors, features, mapped, qm9_gap, registry, sources
from flyrun.data.dataset import Dataset
from flyrun.errors import DataError

if TYPE_CHECKING:
    from flyrun.config import OpvScale

NAME = "opv_scale"
FULL, SEED, BLOCK, DF = 1_800_000, 2014, 50_000, 4
# Raise this when what `_generate` writes changes: it is part of the files' fingerprint.
RECIPE = 1
FILES = ("features.npy", "target.npy")


def load(config: OpvScale) -> Dataset:
    """Features (n_data, 57) float32, mapped copy-on-write from the cache, never read whole; no test rows.

    The files are made where they are missing. DataError when they are cut short; their whole content is
    checked by `flyrun data verify opv_scale` only, for it takes seconds.
    """
    n_data = config.n_data
    folder = _folder(n_data)
    if not folder.is_dir():
        _make(n_data, folder, features.tell)
    rows, target = _opened(folder, n_data)
    facts = _facts(folder)
    return Dataset(
        name=NAME,
        features=rows,
        target=np.array(target, dtype=np.float64),
        test_features=np.empty((0, rows.shape[1])),
        test_target=np.empty(0),
        feature_names=descriptors.QM9,
        sha256=_key(n_data),
        info={
            "title": "Generated regression of the OPV data's size",
            "source": "x ~ N(0, S) with qm9_gap's second moments S, y = θ·x + σ·t4 noise",
            "noise_scale": facts["noise_scale"],
            "noise_df": DF,
            "coefficients": facts["coefficients"],
            "target": "in units of qm9_gap's standardised gap",
            "intercept": "none: features and target have expectation 0",
        },
        task="regression",
    )


def fingerprint(config: OpvScale) -> str:
    """Digest of the recipe and of what it starts from."""
    return _key(config.n_data)


def state() -> str:
    """For `flyrun data list`: "built" when the full size is there, "not built", or "altered"."""
    folder = _folder(FULL)
    if not folder.is_dir():
        return "not built"
    try:
        _opened(folder, FULL)
    except DataError:
        return "altered"
    return "built"


def describe() -> dict[str, object]:
    """For `flyrun data info`."""
    return {"path": str(_folder(FULL))}


def verify() -> str:
    """Check every byte of the full size's files; DataError when altered or cut short."""
    folder = _folder(FULL)
    if not folder.is_dir():
        return "not built; made at first use, or by `flyrun data build opv_scale`"
    _opened(folder, FULL)
    known = _facts(folder)["sha256"]
    for file in FILES:
        if sources.sha256_of(folder / file) != known.get(file):
            raise DataError(f"{folder / file}: is altered; {_remedy(folder)}")
    return f"verified, {folder}"


def build(out: Path | str | None, echo: Callable[[str], object]) -> Path:
    """Make the full size's files anew, in the cache or as a folder inside the folder `out`."""
    folder = _folder(FULL) if out is None else Path(out) / _folder(FULL).name
    _make(FULL, folder, echo)
    return folder


def _key(n_data: int) -> str:
    start = [RECIPE, n_data, SEED, BLOCK, DF, registry.entry(qm9_gap.NAME)["sha256"], np.__version__]
    return archive.sha256(json.dumps(start).encode())


def _folder(n_data: int) -> Path:
    return _home() / f"{NAME}-{n_data}-{_key(n_data)[:12]}"


def _home() -> Path:
    """A checkout's datasets/cache/, unless FLYRUN_CACHE names another place or it cannot be written."""
    beside = paths.datasets_dir() / "cache"
    if "FLYRUN_CACHE" not in os.environ and paths.in_checkout() and paths.writable(beside):
        return beside
    return paths.cache_dir("data")


def _remedy(folder: Path) -> str:
    return f"delete the folder {folder}, it is made again at the next run"


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        return {key: facts[key] for key in ("noise_scale", "coefficients", "sha256")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / 'facts.json'}: cannot be read; {_remedy(folder)}") from error


def _opened(folder: Path, n_data: int) -> list[np.memmap]:
    """Features and target as they lie in the files, writeable copies page by page; DataError."""
    shapes = ((n_data, len(descriptors.QM9)), (n_data,))
    return [
        mapped.opened(folder / file, shape, _remedy(folder))
        for file, shape in zip(FILES, shapes, strict=True)
    ]


def _make(n_data: int, folder: Path, echo: Callable[[str], object]) -> None:
    echo(f"{NAME}: generating {n_data:,} rows in {folder}")
    mapped.make(folder, lambda temporary: _generate(n_data, temporary))


def _generate(n_data: int, folder: Path) -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        root, theta, scale = fitted()
        shape = (n_data, len(theta))
        rows = np.lib.format.open_memmap(folder / FILES[0], "w+", np.float32, shape)
        target = np.lib.format.open_memmap(folder / FILES[1], "w+", np.float32, shape[:1])
        for start in range(0, n_data, BLOCK):
            rng = np.random.default_rng([SEED, start // BLOCK])
            # Always a whole block, so that the rows do not depend on n_data.
            block = (rng.standard_normal((BLOCK, len(theta))) @ root.T).astype(np.float32)
            noise = scale * rng.standard_t(DF, BLOCK)
            end = min(start + BLOCK, n_data)
            rows[start:end] = block[: end - start]
            target[start:end] = (block @ theta + noise)[: end - start]
        rows.flush()
        target.flush()
    del rows, target
    facts = {
        "noise_scale": scale,
        "coefficients": theta.tolist(),
        "sha256": {file: sources.sha256_of(folder / file) for file in FILES},
    }
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def fitted() -> tuple[np.ndarray, np.ndarray, float]:
    """Out of qm9_gap: root (D, D) of the second moments, coefficients θ (D,), scale σ of the t₄ noise."""
    from flyrun.config import Qm9Gap

    data = qm9_gap.load(Qm9Gap())
    moments = data.features.T @ data.features / len(data.features)
    theta = np.linalg.solve(moments, data.features.T @ data.target / len(data.target))
    variance = np.mean((data.target - data.features @ theta) ** 2)
    return np.linalg.cholesky(moments), theta, float(np.sqrt(variance * (DF - 2) / DF))
