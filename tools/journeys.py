"""How far a request travels until it is an answer, counted as it runs: stays, returns and rooms.

    python -m tools.journeys [FIT_WORDS ...]

The travellers of a fit are what holds the request: Request, Question and Answer; of a report, the run's
folder. A call that gets one of them as an argument, in a module of flyrun, is an event; one of a traveller's
own methods is none. A stay is a run of
events in one module, a return a stay in a module that was left before, a room a module. Without words a fit
of the shipped table is counted, and the report of a smoke run of experiment=toy_flymc.
"""

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import flyrun
from flyrun.cli.main import main as command
from flyrun.ground.paths import datasets_dir

ROOT = str(Path(flyrun.__file__).parent)


def counted(run: Callable[[], Any], travels: Callable[[Any], bool]) -> list[str]:
    """The modules that travellers visit while this runs, a stay each."""
    stays = list[str]()

    def event(frame: FrameType, what: str, _: object) -> None:
        code: CodeType = frame.f_code
        if what != "call" or not code.co_filename.startswith(ROOT) or code.co_name.startswith("<"):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if names[:1] == ("self",) and travels(frame.f_locals["self"]):
            return
        room = code.co_filename[len(ROOT) + 1 :]
        if (not stays or stays[-1] != room) and any(travels(frame.f_locals.get(name)) for name in names):
            stays.append(room)

    sys.setprofile(event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return stays


def shown(name: str, stays: list[str]) -> str:
    """The three numbers, and the rooms in the order in which they are first entered."""
    rooms = list(dict.fromkeys(stays))
    head = f"{name}: {len(stays)} stays, {len(stays) - len(rooms)} returns, {len(rooms)} rooms"
    return "\n  ".join([head, *(f"{room} ({stays.count(room)})" for room in rooms)])


def _holds_a_request(value: object) -> bool:
    return type(value).__name__ in ("Request", "ReadTable", "Question", "Answer")


def main() -> int:
    """Count a fit, and a report."""
    table = datasets_dir() / "tables" / "breast_cancer.csv"
    words = sys.argv[1:] or [str(table), "--target", "diagnosis", "--features", "radius,texture"]
    with tempfile.TemporaryDirectory() as folder:
        place = ["--results-dir", folder]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            fit = counted(lambda: command(["fit", *words, *place, "--name", "it"]), _holds_a_request)
            command(["experiment=toy_flymc", "protocol=smoke", f"results_dir={folder}", "name=toy"])
            run = Path(folder) / "runs" / "toy"
            from flyrun.experiments.report import build  # late: a fit needs none

            of_report = counted(
                lambda: build.build(run), lambda value: isinstance(value, Path) and value == run
            )
    print(shown("fit, from the request to its files", fit))
    print(shown("report, the run's folder", of_report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
