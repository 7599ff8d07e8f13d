"""How `flyrun fit` begins: its own imports take as long as those of reports, so that two cores share them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flyrun.config.dataset import Table
from flyrun.data.table import loader
from flyrun.fitting.request import Clock, Request
from flyrun.fitting.second_process import reporting

_LONG_TO_READ = 16 << 20  # bytes of a file: meanwhile a second core loads what makes a report


def fit(request: Request, clock: Clock, screen: object) -> int:
    """Answer a request, typed as clock began; exit code. FlyrunError for what a person can mend."""
    path = Path(request.file).expanduser()
    beside = request.by is None and path.is_file() and path.stat().st_size >= _LONG_TO_READ
    if beside:
        with ThreadPoolExecutor(1) as other:  # which has ended before this process is copied
            other.submit(loader.fingerprint, Table(path=request.file))  # which the loader keeps
            import pandas  # noqa: F401  # late: half a second
    with reporting(beside) as report:
        from flyrun.fitting import answer  # late: the other process has begun

        return answer.fit(request, clock, screen, report)
