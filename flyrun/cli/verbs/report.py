"""flyrun report: runs' reports anew, or one of several runs."""

from pathlib import Path

from rich.console import Console

from flyrun.cli.options import one_name, take
from flyrun.errors import ConfigError
from flyrun.report import build as reports
from flyrun.report.merge import build_of_several
from flyrun.runner.store import find_run


def run(words: list[str]) -> int:
    """Build and show a run's report, or one of several runs together."""
    plain, given = take("report", words, ("results_dir", "name", "out"))
    results, console = Path(given.get("results_dir", "results")).expanduser(), Console(highlight=False)
    if len(plain) > 1 and "name" not in given:
        folders = [find_run(name, results) for name in plain]
        default = results / "runs" / "+".join(folder.name for folder in folders)
        build_of_several(folders, Path(given.get("out", default)).expanduser(), console)
        return 0
    if "out" in given:
        raise ConfigError("report: out= is for the report of several runs; a run's own goes to its folder")
    names = [*plain, *([given["name"]] if "name" in given else [])]
    reports.build(find_run(one_name("report", names, "mnist_logreg"), results), console)
    return 0
