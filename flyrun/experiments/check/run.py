"""The verb `flyrun check`: measure, judge and tell, or store anew what was measured."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from flyrun.experiments.check import judge
from flyrun.experiments.check.against import checked_out, measure_there
from flyrun.experiments.check.measure import machine, measure, overrides
from flyrun.experiments.check.probes import probe
from flyrun.experiments.config import catalogue
from flyrun.ground import files, paths
from flyrun.ground.children import Pool
from flyrun.ground.errors import ConfigError, StoreError
from flyrun.ground.schema import did_you_mean, listing

FORMAT = 1
_ELSEWHERE = "name another folder with values=FOLDER"


def check_against(revision: str, names: Sequence[str], workers: int, console: Console) -> int:
    """Check these experiments against what a revision's code does on this machine; as `check`."""
    with checked_out(revision) as folder:
        there = [path.stem for path in sorted((folder / "conf/experiment").glob("*.yaml"))]
        wanted = [name for name in _chosen(names) if name in there]
        values = measure_there(folder, revision, wanted, workers)
        return check(names, values, False, workers, console, "the code is another")


def _place(name: str, folders: Sequence[str]) -> Path:
    """Where an experiment's values are stored: flyrun's with the papers', others beside the experiments'
    folder. ConfigError where there is no such place.
    """
    experiments = catalogue.files("experiment", folders)[name].parent
    if experiments.parent != paths.conf_dir():
        return experiments.parent / "check" / f"{name}.json"
    return paths.reference_dir() / "check" / f"{name}.json"


def _chosen(names: Sequence[str], folders: Sequence[str] = ()) -> list[str]:
    """The experiments to check: where none is named those of the folders, or all. ConfigError for one that
    there is not.
    """
    known = catalogue.options("experiment", folders)
    if folders and not names:
        return [
            path.stem for folder in folders for path in sorted((Path(folder) / "experiment").glob("*.yaml"))
        ]
    for name in names:
        if name not in known:
            close = did_you_mean(name, [*known, "--update"])
            raise ConfigError(f"check {name}: no such experiment{close}; choose from {listing(known)}")
    return list(names) or known


def check(
    names: Sequence[str],
    values: Path | None,
    update: bool,
    workers: int,
    console: Console,
    apart: str = "",
    folders: Sequence[str] = (),
) -> int:
    """Check (or with `update` store anew) these experiments, all where none is named; return the exit code.

    values: where they are stored, None: each in its own place.  folders: of a person's own experiments.
    Exit code 1 where an arm differs from what is stored, or nothing is stored of it. apart: why bits may
    differ on one machine, too.
    """
    say = partial(console.print, soft_wrap=True, markup=False)
    chosen = _chosen(names, folders)
    places = {name: _place(name, folders) if values is None else values / f"{name}.json" for name in chosen}
    flyruns = paths.reference_dir() / "check"
    if update and not paths.in_checkout() and any(place.parent == flyruns for place in places.values()):
        raise ConfigError("check --update: stores into a checkout, and this is none; add --values FOLDER")
    stored = {name: _read(place) for name, place in places.items()}
    here, began = machine(), time.perf_counter()
    measured: dict[str, Any] = {}
    kinds: list[str] = []
    for name, arms in _measured(chosen, workers, folders):
        measured[name] = arms
        console.print(f"{name}: {len(arms)} arms, {time.perf_counter() - began:.0f} s so far", style="dim")
    comparisons = sum(len(arms) for arms in measured.values()) * len(judge.STATISTICS)
    for name in chosen:
        if update:
            _update(places[name], name, stored[name], measured[name], here, say, folders)
        else:
            kinds += _tell(name, stored[name], measured[name], here, comparisons, say, apart, folders)
    bad = sum(kind in (judge.DIFFERS, judge.NEW) for kind in kinds)
    if {judge.ALIKE, judge.DIFFERS} & set(kinds):  # bits do not tell what is right, short chains hardly
        bad += probe(say)
    # what is stored of experiments that there are no more
    for path in sorted((values or flyruns).glob("*.json")) if update and not (names or folders) else ():
        if path.stem not in chosen:
            with files.writing(path, _ELSEWHERE):
                path.unlink()
            say(f"{path.stem}: no such experiment any more; removed {path}")
    if bad:
        meant = "" if apart else " Where that is meant: flyrun check --update"
        say(f"{bad} arms or probes are not as they were.{meant}")
    return 1 if bad else 0


def _measured(
    names: Sequence[str], workers: int, folders: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each experiment's arms, as they are done; several processes where that is quicker."""
    if min(workers, len(names)) < 2:
        for name in names:
            yield name, measure(name, folders)
        return
    with Pool(min(workers, len(names))) as pool:
        waiting = {pool.submit(measure, name, folders): name for name in names}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _tell(
    name: str,
    stored: dict,
    measured: dict,
    here: dict,
    comparisons: int,
    say: Callable,
    apart: str,
    folders: Sequence[str],
) -> list[str]:
    """Print the verdicts on an experiment's arms; their kinds."""
    if stored.get("machine") != here:
        apart = "the processor or a library is another"
    arms = stored.get("arms", {}) if stored.get("overrides") == overrides(name, folders) else {}
    gone = judge.Verdict(judge.NEW, "is stored, but the experiment has no such arm")
    verdicts = {arm: judge.judge(arms.get(arm), measured[arm], apart, comparisons) for arm in measured}
    verdicts |= {arm: gone for arm in arms if arm not in measured}
    return show(name, verdicts, say)


def show(name: str, verdicts: dict[str, judge.Verdict], say: Callable) -> list[str]:
    """Print the verdicts on arms, those of one reason in a line; their kinds."""
    kinds = [verdict.kind for verdict in verdicts.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    say(f"{name}: {counts}")
    for why in dict.fromkeys(verdict.why for verdict in verdicts.values() if verdict.kind != judge.EXACT):
        those = listing(arm for arm, verdict in verdicts.items() if verdict.why == why)
        say(f"  {those}: {why}")
    return kinds


def _update(
    path: Path, name: str, stored: dict, measured: dict, here: dict, say: Callable, folders: Sequence[str]
) -> None:
    """Store what was found, and print how it differs from what was stored."""
    old = stored.get("arms", {})
    for arm in {**measured, **old}:
        both = arm in old and arm in measured
        changes = judge.changes(old[arm], measured[arm]) if both else "gone" if arm in old else "new"
        if changes != "nothing":
            say(f"{name}, {arm}: {changes}")
    entry = {"format": FORMAT, "machine": here, "overrides": overrides(name, folders), "arms": measured}
    if entry == stored:
        say(f"{name}: nothing changed")
        return
    with files.writing(path, _ELSEWHERE):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, _as_json(entry))
    say(f"{name}: wrote {path}")


def _as_json(entry: dict[str, Any]) -> str:
    """JSON with a line for each list, so that a difference can be read."""
    text = json.dumps({**entry, "arms": {}}, indent=1)
    arms = [
        f"  {json.dumps(arm)}: {{\n"
        + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
        + "\n  }"
        for arm, values in entry["arms"].items()
    ]
    return text.replace('"arms": {}', '"arms": {\n' + ",\n".join(arms) + "\n }") + "\n"


def _read(path: Path) -> dict[str, Any]:
    """What is stored of an experiment; {} for nothing. Raises StoreError for a damaged file."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] == FORMAT and isinstance(stored["arms"], dict):
            return stored
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: cannot be read ({type(error).__name__}: {error}); restore it, "
            "or remove it and store it anew with `flyrun check --update`"
        ) from error
    return {}
