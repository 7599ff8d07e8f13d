"""flyrun arena: every method's error against its cost."""

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from flyrun.cli.listing import own_folders
from flyrun.cli.verb import Verb, number, path
from flyrun.cli.verbs.gold import names as references
from flyrun.experiments.config.catalogue import files, load, options
from flyrun.experiments.runner.store import find_run
from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import conf_dir
from flyrun.ground.run_files import read_run
from flyrun.ground.schema import did_you_mean, listing


def _names(folders: Sequence[str | Path] = ()) -> dict[str, str]:
    """Name of an arena -> its experiment: flyrun's arena_NAME, and those of packages and folders that say
    `arena: true`.
    """
    known, ours = files("experiment", folders), conf_dir() / "experiment"
    yours = [name for name, path in known.items() if path.parent != ours and load(path).get("arena") is True]
    flyruns = [name for name, path in known.items() if path.parent == ours and name.startswith("arena_")]
    return {name.removeprefix("arena_"): name for name in [*flyruns, *yours]}


def _config_dir(arguments: Sequence[str]) -> str | None:
    for word, after in pairwise([*arguments, ""]):
        flag, equals, value = word.partition("=")
        if flag in ("--config-dir", "-cd"):
            return value if equals else after
    return None


def run(given: argparse.Namespace) -> int:
    """Run an arena's experiment."""
    arguments, folders = given.words, own_folders(_config_dir(given.words))
    names = _names(folders)
    if not arguments or "=" in arguments[0] or arguments[0].startswith("-"):
        raise ConfigError(f"arena: NAME is missing; there are {listing(names)}, and score FILE")
    name = arguments[0].removeprefix("arena_")
    if name not in names:
        file = files("experiment", folders).get(name)
        remedy = f"add `arena: true` to {file}" if file and name in options("experiment", folders) else ""
        close = did_you_mean(name, [*names, "score"])
        remedy = (
            remedy or f"there are {listing(names)}; --config-dir FOLDER adds FOLDER/experiment/{name}.yaml"
        )
        raise ConfigError(f"arena {name}: no such arena{close}; {remedy}")
    from flyrun.cli import sweep  # late: Hydra takes a third of a second

    return sweep.run([f"experiment={names[name]}", *arguments[1:]])


def _score(given: argparse.Namespace) -> int:
    """Hold draws of any tool against a reference."""
    from flyrun.experiments.accuracy.score import score  # late
    from flyrun.experiments.gold.store import own_folder  # late
    from flyrun.experiments.report.build import build  # late
    from flyrun.experiments.report.summaries import SCORED, read_scored  # late
    from flyrun.ground import files  # late, as below: help and Tab need no models

    if given.reference is None:
        raise ConfigError("arena score: --reference is missing; see `flyrun gold list`")
    folder = find_run(given.run, given.results_dir) if given.run else None
    if folder and given.reference not in (held := _references(folder)):
        raise ConfigError(
            f"arena score: run {folder.name} is held against {listing(held) or 'no reference'}, not "
            f"{given.reference}; leave --run out, or name another run"
        )
    costs = [(key, value) for key in ("queries", "seconds") if (value := getattr(given, key)) is not None]
    summary, measures = score(given.file, given.reference, own_folder(given.results_dir))
    cost = " and ".join(f"{value:,.0f} {key}" for key, value in costs)
    summary += f", for {cost} by its maker's count" if cost else ", its cost not told"
    print(f"{given.file}: {summary}")
    for name, value in measures.items():
        print(f"  {name.replace('_', ' ')}: {value:.4g}")
    if folder:
        files.write_json(folder / SCORED, read_scored(folder) | {given.file.name: summary})
        build(folder)
        print(f"listed in {folder / 'report.html'}")
    return 0


def _references(folder: Path) -> list[str]:
    """Those of a run's arms; none where it is no arena's."""
    from flyrun.experiments.gold.store import matching, own_of  # late: models

    info = read_run(folder)
    matches = [matching(arm["settings"], own_of(folder / "arm/key/seed")) for arm in info["arms"]]
    return sorted({match[0] for match in matches if match}) if info.get("arena") else []


VERB = Verb(
    "arena",
    "show every method's error against its cost, on a posterior that is known",
    run,
    raw=True,
    usage="NAME [KEY=VALUE ...]",
    about="""Runs every method on a posterior whose moments are known (flyrun gold) and shows its error
    against its cost: which method to trust at which budget. NAME is that of an experiment arena_NAME; the
    words after it are those of any run. An experiment of your own, FOLDER/experiment/NAME.yaml with
    --config-dir FOLDER, is one where it says `arena: true`; `flyrun gold build` makes its posterior known.
    `score` holds draws of any tool against a reference.""",
    examples=(
        "flyrun arena mnist",
        "flyrun arena mnist protocol.budget.passes=100 'only=[laplace,firefly_hmc]' name=arena_100",
        "flyrun arena mine --config-dir conf",
        "flyrun arena score draws.npz reference=german_credit",
    ),
)
VERB.takes("name", metavar="NAME", offers=lambda _: _names(), help=f"one of {', '.join(_names())}")
VERB.takes_settings("as for any run, see flyrun --help")
_SCORE = VERB.action("score", _score, "score draws.npz reference=mnist_7v9_sd1")
_SCORE.takes(
    "file",
    metavar="FILE.npz",
    type=path,
    help="arrays theta (M, D), in the reference's order of coordinates (flyrun info NAME of its data), and "
    "log_weight (M,), if the draws are weighted",
)
_SCORE.takes(
    "--reference", metavar="NAME", offers=references, help="reference to hold them against, required"
)
_positive = number(lambda x: x > 0, "above 0")
_SCORE.takes(
    "--queries", metavar="N", type=_positive, help="likelihood queries that they cost, as their maker says"
)
_SCORE.takes("--seconds", metavar="S", type=_positive, help="seconds that they cost, as their maker says")
_SCORE.takes_run("--run", help="list them on that run's page, apart from what flyrun ran and metered")
_SCORE.takes_results_dir()
