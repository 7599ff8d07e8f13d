"""One table of a sweep: a row for each job and arm, what was swept before the columns of the jobs' tables."""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from flyrun.experiments.report.metrics import ARM, table
from flyrun.ground import files
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import View, print_views

TABLE = "table.csv"
_SHOWN = {
    "queries_per_iter": "queries/iter", "ess_per_1000": "ESS/1000 iter", "speedup": "speedup",
    "ess_per_s": "ESS/s", "rhat_max": "R-hat", "error": "error", "factors_actual": "factors actual",
    "us_per_update": "µs/update", "accept_rate": "accepted", "off": "off (sds)",
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """How a job ended. swept: key -> value as typed.  run_dir: "" where none was made.  problem: in words."""

    number: int
    swept: dict[str, str]
    run_dir: str
    code: int
    problem: str = ""

    def write(self, folder: Path) -> None:
        """Leave it in `folder` for the process that began the sweep."""
        (folder / f"flyrun-job-{self.number}.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(folder: Path) -> list[Job]:
    """The jobs that have ended, in the sweep's order."""
    jobs = [Job(**json.loads(path.read_text("utf-8"))) for path in folder.glob("flyrun-job-*.json")]
    return sorted(jobs, key=lambda job: job.number)


def build(jobs: list[Job], console: Console | None = None) -> Path | None:
    """Write runs/<name>-<swept keys>/table.csv beside the jobs' runs; print it when a console is given.

    In it `experiment` is the job's run, so that a row is known by experiment and arm. None, and nothing is
    written, where nothing is swept or no job has a table.
    """
    keys = list(dict.fromkeys(key for job in jobs for key in job.swept))
    tables = [Path(job.run_dir) / TABLE if job.run_dir and job.code in (0, 1) else None for job in jobs]
    existing = [path for path in tables if path is not None and path.is_file()]
    if not keys or not existing:
        return None
    rows = [row for job, path in zip(jobs, tables, strict=True) for row in _rows(job, path)]
    frame = pd.DataFrame(rows, dtype=object)  # where a job has no table, counts stay whole numbers
    names = {path.parent.name.partition(f"-{keys[0]}_")[0] for path in existing}
    name = names.pop() if len(names) == 1 else "sweep"
    path = existing[0].parents[1] / "-".join([name, *keys])[:200] / TABLE
    with files.writing(path):
        files.make_folder(path.parent)
        files.write_text(path, frame.to_csv(index=False))
    if console is not None:
        print_views(console, [_view(frame, keys)])
        console.print(Text(f"sweep: {path}"), soft_wrap=True)
    return path


def _rows(job: Job, path: Path | None) -> Iterable[dict[str, Any]]:
    """A job's rows; one without numbers where it has no table."""
    begun = {"job": job.number, **job.swept}
    ended = {"exit_code": job.code, "problem": job.problem}
    if path is None or not path.is_file():
        return [{**begun, "arm": "-", **ended}]
    table = pd.read_csv(path).to_dict("records")
    return [{**begun, **row, "experiment": path.parent.name, **ended} for row in table]


def _view(frame: pd.DataFrame, keys: list[str]) -> View:
    columns = [Metric(key, key, text=lambda row, key=key: str(row[key])) for key in keys] + [ARM]  # type: ignore[misc]
    for name, head in _SHOWN.items():
        if name in frame and frame[name].notna().any():
            columns.append(Metric(name, head, by_seed=f"{name}_sd" in frame))
    if frame["exit_code"].any():
        shortened = partial(textwrap.shorten, width=70, placeholder=" …")
        columns.append(Metric("problem", "problem", text=lambda row: shortened(str(row["problem"]))))
    title = f"Sweep of {', '.join(keys)} (mean ± sd over seeds)"
    return table(title, columns[1:], frame.to_dict("records"), columns[0])
