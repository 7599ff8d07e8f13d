"""flyrun arena: every method's error against its cost."""

from pathlib import Path

from flyrun import files
from flyrun.cli.options import number, one_name, take
from flyrun.config.catalogue import options
from flyrun.config.schema import did_you_mean, listing
from flyrun.errors import ConfigError
from flyrun.report.build import build
from flyrun.report.summaries import SCORED, read_scored
from flyrun.runner.store import find_run, read_run

_COSTS = ("queries", "seconds")


def run(words: list[str]) -> int:
    """Run an arena's experiment, or score draws of any tool."""
    if words[:1] == ["score"]:
        return _score(words[1:])
    names = [name.removeprefix("arena_") for name in options("experiment") if name.startswith("arena_")]
    if not words or "=" in words[0] or words[0].startswith("-"):
        raise ConfigError(f"arena: a name is missing; there are {listing(names)}, and score FILE")
    name = words[0].removeprefix("arena_")
    if name not in names:
        raise ConfigError(
            f"arena {name}: no such arena{did_you_mean(name, names)}; there are {listing(names)}"
        )
    from flyrun.cli import sweep  # late: Hydra takes a third of a second

    return sweep.run([f"experiment=arena_{name}", *words[1:]])


def _score(words: list[str]) -> int:
    from flyrun.accuracy.score import score  # late: models

    plain, given = take("arena score", words, ("reference", "run", "results_dir", "queries", "seconds"))
    file = one_name("arena score", plain, "draws.npz reference=mnist_7v9_sd1")
    if "reference" not in given:
        raise ConfigError("arena score: reference= is missing; see `flyrun gold list`")
    results = Path(given.get("results_dir", "results")).expanduser()
    folder = find_run(given["run"], results) if "run" in given else None
    if folder and given["reference"] not in (held := _references(folder)):
        raise ConfigError(
            f"arena score: run {folder.name} is held against {listing(held) or 'no reference'}, not "
            f"{given['reference']}; leave run= out, or name another run"
        )
    costs = [(key, number(key, given[key], lambda x: x > 0, "above 0")) for key in _COSTS if key in given]
    said, found = score(Path(file).expanduser(), given["reference"])
    cost = " and ".join(f"{value:,.0f} {key}" for key, value in costs)
    said += f", for {cost} by its maker's count" if cost else ", its cost not told"
    print(f"{file}: {said}")
    for name, value in found.items():
        print(f"  {name.replace('_', ' ')}: {value:.4g}")
    if folder:
        files.write_json(folder / SCORED, read_scored(folder) | {Path(file).name: said})
        build(folder)
        print(f"listed in {folder / 'report.html'}")
    return 0


def _references(folder: Path) -> list[str]:
    """Those of a run's arms; none where it is no arena's."""
    from flyrun.gold.store import matching  # late: models

    info = read_run(folder)
    found = [matching(arm["settings"]) for arm in info["arms"]] if info.get("arena") else []
    return sorted({name for name in found if name})
