"""What the sections keep of a cell, and of an arm's cells together, stored beside the draws.

`summary.json` in a cell's folder is made in its worker as it ends, `diagnostics.json` in the arm's by the
first report. What a section kept there is used again while the draws and that section's code are the same.
"""

import contextlib
import functools
import hashlib
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.section import Section, served
from flyrun.experiments.runner import proofs, store
from flyrun.experiments.runner.store import StoredCell
from flyrun.ground import environment, files, paths
from flyrun.ground.children import Pool, cores
from flyrun.ground.errors import StoreError
from flyrun.ground.numerics import code_digest
from flyrun.ground.run_files import read_run

CELL_SUMMARY, ARM_SUMMARY = "summary.json", "diagnostics.json"
SCORED = "scored.json"  # what draws of other tools are worth, by file (flyrun arena score)
#: less than either is sooner read here than processes are started
_WORTH_BYTES, _WORTH_ARMS = 4 << 20, 16
Sections = tuple[Section, ...]


def load(run_dir: Path, sections: Sections) -> Run:
    """Read a run's cells and summarise those that are done; raises StoreError without a run.json."""
    scored = {"scored": read_scored(run_dir)}
    info = read_run(run_dir) | scored
    by_arm: dict[str, list[StoredCell]] = {arm["name"]: [] for arm in info["arms"]}
    for cell in store.open_cells(run_dir, info):
        by_arm[cell.arm].append(cell)
    sections = served(info, sections)
    paper, source, theirs = published(info)
    listed = [(entry, by_arm[entry["name"]], paper.get(entry["name"], {})) for entry in info["arms"]]
    one = partial(_arm, sections)
    missing = [cells for _, cells, _ in listed if not _is_pooled(cells, sections)]
    size = sum(cell.n_bytes for cells in missing for cell in cells)
    if size >= _WORTH_BYTES or len(missing) >= _WORTH_ARMS:
        # Arms side by side, and this process stays small.
        workers = min(cores(), len(missing))
        with environment.one_thread(), contextlib.suppress(BrokenProcessPool), Pool(workers) as pool:
            return Run(info, tuple(pool.map(one, listed)), source, theirs)
    return Run(info, tuple(map(one, listed)), source, theirs)


def read_scored(run_dir: Path) -> dict[str, Any]:
    """What was scored beside a run, file by file, in words."""
    return _read_json(run_dir / SCORED)


def published(info: dict[str, Any]) -> tuple[dict[str, dict[str, float]], str, dict[str, dict[str, Any]]]:
    """The paper's values by arm, where they come from, and its settings; nothing when the run has none.

    The values travel in run.json ("reference"), or it names the file in results/reference that has them. They
    are of all data, so a run of some has none.
    """
    if any((arm.get("problem") or {}).get("dataset", {}).get("limit") for arm in info.get("arms", ())):
        return {}, "", {}
    values, experiment = info.get("reference") or {}, str(info.get("experiment"))
    name = values if isinstance(values, str) else str(info.get("reference_name"))
    stored = _read_json(paths.reference_dir() / f"{name}.json")
    if isinstance(values, str):
        values = stored.get(experiment, {})
    if not values:
        return {}, "", {}
    return values, str(stored.get("source", "")), stored.get("settings", {}).get(experiment, {})


def of_cell(draws: Draws, sections: Sections) -> SimpleNamespace:
    """What the sections keep of a finished cell; raises StoreError when its draws cannot be read."""
    makers = {one.name: (one, one.summarise) for one in sections if one.summarise}
    return _cached(draws.cell.folder / CELL_SUMMARY, [draws.cell], makers, draws)


def _of_arm(chains: list[Draws], sections: Sections) -> SimpleNamespace:
    makers = {one.name: (one, one.pool) for one in sections if one.pool}
    path = chains[0].cell.folder.parent / ARM_SUMMARY
    return _cached(path, [draws.cell for draws in chains], makers, chains)


def _arm(sections: Sections, listed: tuple[dict[str, Any], list[StoredCell], dict]) -> ArmResult:
    entry, cells, paper = listed
    states = {cell.seed: cell.state for cell in cells}
    messages = {cell.seed: cell.message for cell in cells if cell.message}
    chains = []
    with contextlib.ExitStack() as opened:
        for cell in cells:
            if cell.state == "unfinished":
                messages.setdefault(cell.seed, f"stopped at iteration {cell.iterations_done:,}")
            if cell.state != "done":
                continue
            draws = opened.enter_context(contextlib.closing(Draws(cell)))
            try:
                draws.kept = of_cell(draws, sections)
                chains.append(draws)
            except (StoreError, KeyError, ValueError, OSError) as error:
                states[cell.seed], messages[cell.seed] = "failed", f"its draws cannot be read: {error}"
        pooled = _of_arm(chains, sections) if chains else None
    return ArmResult(
        name=entry["name"],
        wanted=len(cells),
        infos=tuple(
            {**proofs.settled(draws.cell.info), "folder": str(draws.cell.folder)} for draws in chains
        ),
        cells=tuple(draws.kept for draws in chains),
        pooled=pooled,
        states=states,
        messages=messages,
        paper=paper,
        sweep=entry.get("sweep"),
    )


def _is_pooled(cells: list[StoredCell], sections: Sections) -> bool:
    """Whether the finished cells' diagnostics, and so their summaries, are stored; by the file's marks."""
    done = [cell for cell in cells if cell.state == "done"]
    if not done:
        return True
    stored = _read(done[0].folder.parent / ARM_SUMMARY)
    return all(stored.get(one.name, {}).get("mark") == _mark(one, done) for one in sections if one.pool)


def _draws_digest(cells: list[StoredCell]) -> str:
    """Digest of which draws these are."""
    text = " ".join(f"{c.info.get('finished')} {c.info.get('timings')} {c.n_bytes}" for c in cells)
    return hashlib.sha256(text.encode()).hexdigest()


def _mark(section: Section, cells: list[StoredCell]) -> str:
    inputs = section.inputs(cells[0].folder)
    return hashlib.sha256(f"{_code_digest(section)} {inputs} {_draws_digest(cells)}".encode()).hexdigest()


def _code_digest(section: Section) -> str:
    """Digest of the section's own file and of what it names besides; of another package's, of the package."""
    made = section.summarise or section.pool
    if made is None:
        return ""
    own = made.__module__.partition(".")[0] == code_digest.PACKAGE.name
    return (_of_modules if own else code_digest.of_modules)((made.__module__, *section.code))


@functools.cache
def _of_modules(names: tuple[str, ...]) -> str:
    return code_digest.digest(
        [code_digest.PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in names],
        code_digest.PACKAGE,
    )


def _read_json(path: Path) -> dict[str, Any]:
    """A stored dictionary; {} where it is missing or damaged."""
    with contextlib.suppress(files.DamagedFile):
        stored = files.read_json(path)
        return stored if isinstance(stored, dict) else {}
    return {}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    return {name: part for name, part in _read_json(path).items() if isinstance(part, dict)}


def _cached(
    path: Path, cells: list[StoredCell], makers: dict[str, tuple[Section, Callable]], given: Any
) -> Any:
    """The parts stored at `path` whose marks are right, the others made anew and stored if possible."""
    stored, parts = _read(path), {}
    for name, (section, make) in makers.items():
        mark, known = _mark(section, cells), stored.get(name, {})
        right = known.get("mark") == mark and isinstance(known.get("values"), dict)
        parts[name] = known if right else {"mark": mark, "values": make(given)}
    if parts != {name: stored.get(name) for name in makers}:
        # In a results folder that cannot be written the next report only takes longer.
        with contextlib.suppress(OSError):
            files.write_json(path, parts)
    return SimpleNamespace(**{key: v for part in parts.values() for key, v in part["values"].items()})
