"""What a run leaves behind, for those who read it: run.json, and the cells with their states.

<results_dir>/runs/<name>/run.json                      title, arms in order, seeds wanted
<results_dir>/runs/<name>/config.yaml                   the arms with all their settings, as composed
<results_dir>/runs/<name>/<arm>/<key>/seed=<s>/          one cell
    posterior.nc, cell.json, done                        finished
    chunk-*.npz, checkpoint-*.npz                        in progress (flyrun/experiments/runner/draws.py)
    failed                                               why, one line as JSON
    log.txt                                              what happened when, tracebacks
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from flyrun.experiments.config.catalogue import options
from flyrun.ground import files
from flyrun.ground.errors import StoreError
from flyrun.ground.progress import now
from flyrun.ground.run_files import POSTERIOR, RUN, read_run
from flyrun.ground.schema import did_you_mean, listing

if TYPE_CHECKING:
    import h5py
    import numpy as np
    import xarray

CELL, DONE, FAILED, LOG = "cell.json", "done", "failed", "log.txt"


class CellInfo(TypedDict, total=False):
    """cell.json, of a finished cell. settings: resolved, by group.  facts: of its method, flat.

    folder: where it lies, which the file does not say.
    """

    experiment: str
    name: str
    arm: str
    seed: int
    key: str
    settings: dict[str, Any]
    answers: str
    facts: dict[str, Any]
    tuning: dict[str, float]
    iterations: int
    burn_in: int
    thin: int
    means: dict[str, float]
    unit: str
    shown: tuple[str, ...]
    environment: dict[str, Any]
    timings: dict[str, float]
    memory: dict[str, int | None]
    sessions: int
    finished: str
    folder: str


@dataclass(frozen=True)
class StoredCell:
    """One (arm, seed) of a run, finished or not.

    state: "done", "unfinished" (has a checkpoint), "failed" or "missing".
    info: cell.json; empty unless done.  iterations_done: of the newest checkpoint when unfinished.
    message: why it failed, or what is wrong with its files.
    """

    arm: str
    seed: int
    key: str
    folder: Path
    state: str
    info: CellInfo = field(default_factory=CellInfo)
    iterations_done: int = 0
    message: str = ""

    @property
    def n_bytes(self) -> int:
        """Size of its draws' file; 0 unless done."""
        return (self.folder / POSTERIOR).stat().st_size if self.state == "done" else 0

    def tree(self) -> xarray.DataTree:
        """The draws, opened lazily; close it after use. Raises StoreError when they cannot be read."""
        from flyrun.ground import netcdf  # late: h5py

        with self._reading() as path:
            return netcdf.tree(path)

    def arrays(self, *names: str) -> list[np.ndarray]:
        """Of the one chain's named arrays, as posterior/theta, those that the file has; raises as `tree`."""
        with self.file() as file, self._reading():
            return [file[name][0] for name in names if name in file]

    def file(self) -> h5py.File:
        """The draws' file as HDF5, open ten times sooner than their tree; close it. Raises as `tree`."""
        from flyrun.ground import netcdf  # late, as above

        with self._reading() as path:
            return netcdf.read(path)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Path]:
        if self.state != "done":
            raise StoreError(f"{self.folder}: this cell is {self.state}, it has no draws to open yet")
        path = self.folder / POSTERIOR
        try:
            yield path
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{path} cannot be read ({error}); remove its folder and run again") from error


#: where a run that cannot write its folder may go
ELSEWHERE = "choose another place with results_dir=FOLDER, then run the same command again"


def writing(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Turn a file system's refusal into a StoreError of one line: the folder, the reason, the remedy."""
    return files.writing(folder, ELSEWHERE)


def cell_folder(run_dir: Path, arm: str, key: str, seed: int) -> Path:
    """Folder of one cell."""
    return run_dir / arm / key / f"seed={seed}"


def read_chains(run_dir: Path) -> dict[str, Any]:
    """The same of a run that has arms. Raises StoreError for one of `flyrun fit`, which has none."""
    stored = read_run(run_dir)
    if not stored["arms"]:
        raise StoreError(
            f"{run_dir}: is a fit of a table, not arms of an experiment; `{report_of(run_dir)}` shows it, "
            "`flyrun compare` compares two"
        )
    return stored


def report_of(run_dir: Path) -> str:
    """What to type to see a run's report, wherever its folder is."""
    return shlex.join(["flyrun", "report", str(run_dir)])


def write_run(run_dir: Path, entry: dict[str, Any]) -> list[str]:
    """Write run.json for the arms asked now, keeping the comparable arms that an earlier call ran.

    entry: name, experiment, title, paper, reference (the paper's values by arm), reference_name (their
    file), command, and arms, a list of {name, key, seeds, problem, settings}.
    Arms of another experiment, problem (dataset, model, prior) or length run under the same name are
    dropped from the list, not from the disk; returns their names.
    """
    asked = {arm["name"]: arm for arm in entry["arms"]}
    known, dropped = _known(run_dir, entry)
    known = {name: arm for name, arm in known.items() if name not in dropped}
    # The order asked now wins unless only some of the known arms were asked.
    order = asked if set(known) <= set(asked) else {**known, **asked}
    arms = [asked.get(name) or known[name] for name in order]
    files.write_json(run_dir / RUN, {**entry, "arms": arms, "asked": list(asked), "started": now()})
    return dropped


def losses(run_dir: Path, entry: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Arms with finished cells that `write_run` would drop or replace by other settings.

    Each with what it was set to and what stands against it now.
    """
    asked = {arm["name"]: arm for arm in entry["arms"]}
    known, dropped = _known(run_dir, entry)
    found = []
    for name, arm in known.items():
        what = "problem" if name in dropped else "settings"
        now = asked.get(name, entry["arms"][0]).get(what)
        if (name in dropped or name in asked) and arm.get(what) not in (None, now):
            cells = (open_cell(run_dir, name, arm["key"], int(seed)) for seed in arm["seeds"])
            if any(cell.state == "done" for cell in cells):
                found.append((name, arm[what], now))
    return found


def _known(run_dir: Path, entry: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Arms that run.json lists, by name, and those of them that cannot stand beside the ones asked now."""
    try:
        old = read_run(run_dir)
        known = {arm["name"]: arm for arm in old["arms"]}
        comparable = old["experiment"] == entry["experiment"]
        alike = comparable and _lasting(old["command"]) == _lasting(entry["command"])
    except (StoreError, KeyError, TypeError):
        return {}, []
    asked = {arm["name"] for arm in entry["arms"]}
    problems = [arm["problem"] for arm in entry["arms"]] if comparable else []
    others = {name: arm for name, arm in known.items() if name not in asked and not alike}
    return known, [name for name, arm in others.items() if arm.get("problem") not in problems]


def _lasting(command: str) -> list[str]:
    """A run's command without what leaves its arms as they are."""
    passing = ("only", "fresh", "executor", "results_dir", "protocol.seeds")
    return [word for word in shlex.split(command) if not word.lstrip("+").startswith(passing)]


def swept(info: dict[str, Any], axis: str) -> dict[str, Any]:
    """Of a run.json, the arms that a sweep made along an axis: name -> point (a number or text, or None)."""
    origins = {arm["name"]: arm.get("sweep") or {} for arm in info.get("arms", [])}
    return {name: one["point"] for name, one in origins.items() if one.get("axis") == axis}


def open_cells(run_dir: Path, info: dict[str, Any] | None = None) -> list[StoredCell]:
    """Every cell that a run wants, arms in order, then seeds; raises as `read_run`. info: its run.json."""
    wanted = ((arm, int(seed)) for arm in (info or read_run(run_dir))["arms"] for seed in arm["seeds"])
    return [open_cell(Path(run_dir), arm["name"], arm["key"], seed) for arm, seed in wanted]


def open_cell(run_dir: Path, arm: str, key: str, seed: int) -> StoredCell:
    """One cell as it lies on disk."""
    folder, message = cell_folder(run_dir, arm, key, seed), ""
    if (folder / DONE).exists():
        message = _damage(folder)
        if not message:
            return StoredCell(arm, seed, key, folder, "done", files.read_json(folder / CELL))
    iterations = iterations_done(folder)
    state = "unfinished" if iterations or message else "missing"
    if (folder / FAILED).exists():
        state = "failed"
        with contextlib.suppress(files.DamagedFile, KeyError, TypeError):
            message = files.read_json(folder / FAILED)["message"]
    return StoredCell(arm, seed, key, folder, state, CellInfo(), iterations, message)


def open_folder(folder: Path) -> StoredCell:
    """The same by its folder."""
    arm, key, seed = folder.parts[-3:]
    return open_cell(folder.parents[2], arm, key, int(seed.partition("=")[2]))


def _damage(folder: Path) -> str:
    """What is wrong with a cell marked done ("" when nothing is): sizes are compared, JSON is parsed."""
    try:
        sizes = files.read_json(folder / DONE)["bytes"]
        for name in (POSTERIOR, CELL):
            if (folder / name).stat().st_size != sizes[name]:
                return f"{name} is not as it was written"
        files.read_json(folder / CELL)
    except (files.DamagedFile, KeyError, TypeError):
        return "a file of the finished cell is damaged"
    except OSError:
        return "a file of the finished cell is missing"
    return ""


def mark_done(folder: Path) -> None:
    """Write `done`, the last file of a cell, with the sizes of the files it vouches for."""
    sizes = {name: (folder / name).stat().st_size for name in (POSTERIOR, CELL)}
    files.write_json(folder / DONE, {"bytes": sizes})


def iterations_done(folder: Path) -> int:
    """Iterations at the newest checkpoint of a cell in progress; 0 without one."""
    numbers = [path.stem.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*.npz")]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def runs(results_dir: str | Path) -> list[str]:
    """Names of the runs stored under a results folder."""
    return sorted(path.parent.name for path in Path(results_dir).expanduser().glob("runs/*/run.json"))


def find_run(wanted: str, results_dir: str | Path) -> Path:
    """Folder of a run given by name or path. Raises StoreError saying which runs there are."""
    for folder in (Path(results_dir).expanduser() / "runs" / wanted, Path(wanted).expanduser()):
        if (folder / RUN).is_file():  # whose name others are made of, which "." is not
            return folder if folder.name not in ("", "..") else folder.resolve()
    there = runs(results_dir)
    known = "there is none; run an experiment first (`flyrun list experiments`) or name the folder of a run"
    if wanted in options("experiment"):
        known = f"run it first: flyrun experiment={wanted}"
    elif there:
        known = f"choose from {listing(there)}{did_you_mean(wanted, there)}"
    raise StoreError(f"{wanted or repr(wanted)}: no such run under {Path(results_dir) / 'runs'}; {known}")
