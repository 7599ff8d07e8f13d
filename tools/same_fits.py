"""Twenty-two fits and what is asked of them, stored, and held against those that another commit stored.

    python -m tools.same_fits OUT [--against OTHER] [--made]

Fits tables of all families, with groups, weights, offsets, formulas, missing values, scans, levels and modes
that chains jump between; then predicts, leaves rows out and compares. OUT gets a folder a fit. With --against
each array of each posterior.nc is held against OTHER's: the same bits, or by how much they differ, in sds;
and so are table.csv, report.md and what was predicted, line by line. Exit code 1 where anything differs.
"""

import argparse
import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

FITS: dict[str, tuple[str, ...]] = {
    "logistic": ("t.csv", "two ~ a + b + C(g)", "--exp"),
    "probit": ("t.csv", "two ~ a + b", "--model", "probit"),
    "binomial": ("t.csv", "--target", "won", "--trials", "n", "--features", "a,b"),
    "gaussian": ("t.csv", "y ~ a * b + g", "--prior", "a: normal(0, 1)"),
    "student_t": ("t.csv", "y ~ a + b", "--model", "student_t"),
    "poisson": ("t.csv", "k ~ a + b + offset(log(time))", "--exp", "--model", "poisson"),
    "negative_binomial": ("t.csv", "k ~ a + b", "--model", "negative_binomial"),
    "gamma": ("t.csv", "time ~ a + b", "--model", "gamma"),
    "softmax": ("t.csv", "g ~ a + b",),
    "ordinal": ("t.csv", "pain ~ a + b", "--order", "pain=none,mild,moderate", "--model", "ordinal"),
    "weights": ("t.csv", "--target", "two", "--weights", "n", "--features", "a,b,g"),
    "missing": ("t.csv", "two ~ a + hole", "--missing", "drop"),
    "splines": ("t.csv", "y ~ bs(a, df=4) + b", "--model", "gaussian"),
    "modes": ("few.csv", "y ~ x", "--model", "student_t"),
    "groups": ("t.csv", "two ~ a + (1 | site)"),
    "slopes": ("t.csv", "y ~ a + (1 + a | site)", "--model", "gaussian"),
    "crossed": ("t.csv", "y ~ a + (1 | site) + (1 | g)", "--model", "gaussian"),
    "levels": ("t.csv", "two ~ a + b", "--by", "g"),
    "scan": ("shards", "--target", "two", "--features", "a,b,g", "--workers", "1"),
    "scan_gaussian": ("shards", "y ~ a + b", "--model", "gaussian", "--workers", "1"),
    "scan_levels": ("shards", "--target", "two", "--features", "a,b", "--by", "g", "--workers", "1"),
    "scan_folds": ("shards", "two ~ a + C(g)", "--folds", "3", "--workers", "1"),
}  # fmt: skip
PREDICTED = ("logistic", "softmax", "ordinal", "poisson", "binomial", "groups", "slopes", "scan", "splines")
LEFT_OUT = (("logistic", "probit"), ("gaussian", "splines"), ("groups", "groups"), ("poisson", "poisson"))
_OF_A_RUN = ("| commit ", "| finishe")
KEPT = ("table.csv", "groups.csv", "levels.csv", "report.md")


def tables(folder: Path) -> None:
    """t.csv, few.csv, new.csv and four Parquet files in shards."""
    rng = np.random.default_rng(5)
    frame = _rows(rng, 900)
    frame.to_csv(folder / "t.csv", index=False)
    _rows(rng, 40).to_csv(folder / "new.csv", index=False)
    x = np.r_[np.zeros(300), np.ones(4)]
    y = np.r_[rng.normal(size=300), 8.0, 8.0, -8.1, -8.1]
    pd.DataFrame({"x": x, "y": y}).to_csv(folder / "few.csv", index=False)
    (folder / "shards").mkdir()
    for k in range(4):
        _rows(rng, 10_000).to_parquet(folder / "shards" / f"{k}.parquet", index=False)


def _rows(rng: np.random.Generator, n: int) -> pd.DataFrame:
    a, b, g = rng.normal(size=n), rng.gamma(2.0, size=n), rng.choice(["u", "v", "w"], n)
    site = rng.integers(0, 25, n)
    eta = 0.5 * a - 0.3 * b + (g == "v") + 0.6 * np.sin(site)
    trials = rng.integers(1, 6, n)
    chance, time = 1.0 / (1.0 + np.exp(-eta)), rng.gamma(3.0, np.exp(0.2 * a))
    pain = np.array(["none", "mild", "moderate"])[np.searchsorted([-0.5, 1.0], eta + rng.logistic(size=n))]
    hole = np.where(rng.random(n) < 0.05, np.nan, b)
    return pd.DataFrame(
        {"a": a, "b": b, "g": g, "site": [f"s{k:02}" for k in site], "two": rng.random(n) < chance}
        | {"y": eta + rng.normal(size=n), "k": rng.poisson(np.exp(0.4 * eta)), "time": time, "n": trials}
        | {"won": rng.binomial(trials, chance), "pain": pain, "hole": hole}
    ).replace({"two": {True: "yes", False: "no"}})


def make(out: Path) -> None:
    """All fits, and what is asked of them, in a folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tables(out)
    for name, words in FITS.items():
        said = _flyrun(out, "fit", *words, "--name", name)
        (out / f"{name}.screen").write_text(said, encoding="utf-8")
    asked = {f"{name}.predicted": ("predict", name, "new.csv", "--kind", "response") for name in PREDICTED}
    asked |= {f"{a}_{b}.compared": ("compare", a, b) for a, b in LEFT_OUT}
    for name, words in asked.items():
        (out / name).write_text(_flyrun(out, *words), encoding="utf-8")


def _flyrun(out: Path, *words: str) -> str:
    here = {"PYTHONPATH": str(Path(__file__).parents[1]), "COLUMNS": "100"}
    command = [sys.executable, "-m", "flyrun", *words]
    ended = subprocess.run(command, cwd=out, env=os.environ | here, capture_output=True, text=True)
    if ended.returncode:
        print(f"{' '.join(words)}: exit code {ended.returncode}\n{ended.stderr}", file=sys.stderr)
    return ended.stdout


def differences(out: Path, other: Path) -> list[str]:
    """What differs, a line each."""
    runs, told = out / "results" / "runs", []
    for folder in sorted(one for one in (other / "results" / "runs").iterdir() if one.is_dir()):
        if (folder / "posterior.nc").exists():
            told += [f"{folder.name}: {line}" for line in _arrays(runs / folder.name, folder)]
        told += [line for name in KEPT for line in _lines(runs / folder.name / name, folder / name)]
    for path in sorted([*other.glob("*.predicted"), *other.glob("*.compared")]):
        told += _lines(out / path.name, path)
    return told


def _arrays(own: Path, other: Path) -> list[str]:
    """Arrays of two posterior.nc that are not the same, bit for bit."""
    found, told = _stored(own), []
    for name, values in _stored(other).items():
        mine = found.pop(name, np.empty(0))
        if mine.shape != values.shape:
            told.append(f"{name} has another shape: {mine.shape} for {values.shape}")
        elif values.dtype.kind != "f" and not np.array_equal(mine, values):
            told.append(f"{name} differs")
        elif values.dtype.kind == "f" and mine.tobytes() != values.tobytes():
            off = np.abs(mine - values).max() / max(values.std(), 1e-300)
            told.append(f"{name} differs by {off:.2g} sd at most")
    return [*told, *(f"{name} is new" for name in found)]


def _stored(folder: Path) -> dict[str, np.ndarray]:
    with h5py.File(folder / "posterior.nc", locking=False) as file:
        names: list[str] = []
        file.visit(names.append)
        return {name: file[name][...] for name in names if isinstance(file[name], h5py.Dataset)}


def _lines(own: Path, other: Path) -> list[str]:
    """Lines of two texts that are not the same."""
    if not other.exists():
        return []
    texts = [one.read_text(encoding="utf-8").splitlines() if one.exists() else [] for one in (other, own)]
    changed = difflib.unified_diff(*texts, n=0, lineterm="")
    kept = (line for line in changed if line[:3] not in ("---", "+++", "@@ ") and line[1:10] not in _OF_A_RUN)
    return [f"{own.parent.name}/{own.name}: {line}" for line in kept]


def main() -> int:
    """Make, and compare where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--made", action="store_true", help="OUT is made already")
    given = parser.parse_args()
    if not given.made:
        make(given.out.resolve())
    told = differences(given.out, given.against) if given.against else []
    print("\n".join(told) or f"{len(FITS)} fits{', all the same' if given.against else ''}")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
