"""flyrun arena: every method's error against its cost."""

import argparse
from pathlib import Path

from flyrun.cli.verb import Verb, number, path
from flyrun.cli.verbs.gold import names as references
from flyrun.experiments.config.catalogue import options
from flyrun.experiments.runner.store import find_run
from flyrun.ground.errors import ConfigError
from flyrun.ground.run_files import read_run
from flyrun.ground.schema import did_you_mean, listing


def _names() -> list[str]:
    return [name.removeprefix("arena_") for name in options("experiment") if name.startswith("arena_")]


def run(given: argparse.Namespace) -> int:
    """Run an arena's experiment."""
    arguments, names = given.words, _names()
    if not arguments or "=" in arguments[0] or arguments[0].startswith("-"):
        raise ConfigError(f"arena: NAME is missing; there are {listing(names)}, and score FILE")
    name = arguments[0].removeprefix("arena_")
    if name not in names:
        raise ConfigError(
            f"arena {name}: no such arena{did_you_mean(name, [*names, 'score'])}; there are {listing(names)}"
        )
    from flyrun.cli import sweep  # late: Hydra takes a third of a second

    return sweep.run([f"experiment=arena_{name}", *arguments[1:]])


def _score(given: argparse.Namespace) -> int:
    """Hold draws of any tool against a reference."""
    from flyrun.experiments.accuracy.score import score  # late
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
    summary, measures = score(given.file, given.reference)
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
    from flyrun.experiments.gold.store import matching  # late: models

    info = read_run(folder)
    names = [matching(arm["settings"]) for arm in info["arms"]] if info.get("arena") else []
    return sorted({name for name in names if name})


VERB = Verb(
    "arena",
    "show every method's error against its cost, on a posterior that is known",
    run,
    raw=True,
    usage="NAME [KEY=VALUE ...]",
    about="""Runs every method on a posterior whose moments are known (flyrun gold) and shows its error
    against its cost: which method to trust at which budget. NAME is that of an experiment arena_NAME; the
    words after it are those of any run. `score` holds draws of any tool against a reference.""",
    examples=(
        "flyrun arena mnist",
        "flyrun arena mnist protocol.budget.passes=100 'only=[laplace,firefly_hmc]' name=arena_100",
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
