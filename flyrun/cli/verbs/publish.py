"""flyrun publish RUN ... [results_dir=FOLDER] [out=FOLDER]

Builds the reports of finished runs anew and copies report.md, table.csv and the figures of each to a
folder of its own, to keep or to put under version control.

RUN                    a run's name or folder; every cell of it must be finished
results_dir=results    where results are: its runs/ holds the runs
out=results/measured   where to

An option is written KEY=VALUE, --KEY VALUE or --KEY=VALUE: out=FILE, --out FILE, --results-dir FOLDER.

Examples
  flyrun publish mnist_logreg
  flyrun publish mnist_logreg toy_flymc --out kept
"""

from __future__ import annotations

from pathlib import Path

from flyrun.cli.options import take
from flyrun.compare.publish import publish
from flyrun.errors import ConfigError
from flyrun.runner.store import find_run


def run(words: list[str]) -> int:
    """Copy finished runs' reports."""
    plain, given = take("publish", words, ("results_dir", "out"))
    if not plain:
        raise ConfigError("publish: a name is missing; as in `flyrun publish mnist_logreg`")
    out = Path(given.get("out", "results/measured")).expanduser()
    for name in plain:
        written = publish(find_run(name, given.get("results_dir", "results")), out)
        print(f"{name}: {len(written)} files in {written[0].parent}")
    return 0
