"""flyrun report RUN [results_dir=FOLDER]

Builds a run's report anew from what is stored, without sampling, and prints its tables. Written into
the run's folder: report.html, report.md, table.csv, table.json and figures/. Unfinished cells are
marked.

RUN                    a run's name, by default its experiment's, or its folder; or name=NAME
results_dir=results    where results are: its runs/ holds the runs

An option is written KEY=VALUE, --KEY VALUE or --KEY=VALUE: out=FILE, --out FILE, --results-dir FOLDER.

Examples
  flyrun report mnist_logreg
  flyrun report mnist_logreg --results-dir elsewhere
  flyrun report results/runs/mnist_logreg
"""

from __future__ import annotations

from rich.console import Console

from flyrun import report
from flyrun.cli.options import one_name, take
from flyrun.runner.store import find_run


def run(words: list[str]) -> int:
    """Build and show a run's report."""
    plain, given = take("report", words, ("results_dir", "name"))
    wanted = one_name("report", [*plain, *([given["name"]] if "name" in given else [])], "mnist_logreg")
    report.build(find_run(wanted, given.get("results_dir", "results")), Console(highlight=False))
    return 0
