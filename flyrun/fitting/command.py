"""`flyrun fit`: a request to its answer, its files, and what a screen says of them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flyrun.fitting.request import Clock, Request
from flyrun.fitting.second_process import reporting
from flyrun.ground import addresses, progress
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.exit_codes import DONE, UNTRUSTED
from flyrun.tables import loader
from flyrun.tables.options import Table

_LONG_TO_READ = 16 << 20  # bytes of a file: meanwhile a second core loads what makes a report

Report = Callable[[Path], Any]


def fit(request: Request, clock: Clock, screen: Any) -> int:
    """Answer a request, typed as clock began; exit code. FlyrunError for what a person can mend."""
    path = Path(request.file).expanduser()
    beside = request.by is None and path.is_file() and path.stat().st_size >= _LONG_TO_READ
    if beside:
        with ThreadPoolExecutor(1) as other:  # which has ended before this process is copied
            other.submit(loader.fingerprint, Table(path=request.file))  # which the loader keeps
            import pandas  # noqa: F401  # late: half a second
    with reporting(beside) as report:
        from flyrun.fitting import stored  # late: the other process has begun
        from flyrun.fitting.scan import many_files  # late: as above

        with stored.alone(request) as here:
            if request.folds and (request.by is not None or not many_files.wanted(request)):
                of = "one posterior; leave --by out"
                if request.by is None:
                    of = "many Parquet files; leave it out, and see `flyrun compare`, which leaves out each "
                    of += "row of one file"
                raise ConfigError(f"--folds: is for a scan of {of}")
            if request.by is not None and addresses.is_address(request.results_dir):
                raise ConfigError(
                    f"--results-dir {request.results_dir}: is for one run, and --by makes one a level; name "
                    "a folder of this machine, and copy it there afterwards"
                )
            code = (_fit if request.by is None else _fit_levels)(here, clock, screen, report)
        if here.results_dir != request.results_dir:
            progress.speaker(screen.console).say(f"sent: {request.results_dir}/runs/{request.folder.name}")
        return code


def _fit_levels(request: Request, clock: Clock, screen: Any, report: Report) -> int:
    """A fit a level of a column; exit code. ConfigError, once all else is written, where some have none."""
    from flyrun.fitting import engine, level_fits, stored  # late: see `fit`
    from flyrun.fitting.scan import many_files  # late: as above
    from flyrun.ground.page import render  # late: as above

    say = progress.speaker(screen.console).say
    if many_files.wanted(request):
        levels, found = many_files.answers(request, screen.console)
    else:
        levels, found = level_fits.of_table(request), {}
    fitted, failed = dict[str, level_fits.Fitted](), dict[str, FlyrunError]()
    for level, own in levels.items():
        try:
            if (made := found.get(level)) is None:
                made = engine.answer(stored.asked(own), Clock().spent(request.budget))
            elif isinstance(made, FlyrunError):
                raise made
            folder = stored.write(made)
            if len(levels) <= level_fits.MOST_REPORTS:
                report(folder)
        except FlyrunError as error:
            failed[level] = error
            continue
        fitted[level] = level_fits.Fitted(folder.name, made.rows, made.doubt)
        say(f"{request.by}={level}: {made.question.layout.rows:,} rows; {made.how}")
    path = level_fits.write(request, fitted)
    if screen.tables is not None:
        render.print_views(screen.tables, level_fits.views(request, fitted))
    names = f"flyrun predict and report know them by {next(iter(levels.values())).name} and its like"
    say(f"{len(fitted):,} posteriors in {path.parent.parent}; {names}; {clock.seconds():.1f} s in all")
    screen.tell("table", path, csv=path)
    if failed:
        level, why = next(iter(failed.items()))
        others = f", and {len(failed) - 1:,} more levels" if len(failed) > 1 else ""
        raise ConfigError(f"--by {request.by}: no posterior of {level}{others}, because {why}")
    return UNTRUSTED if any(own.doubt for own in fitted.values()) else DONE


def _fit(request: Request, clock: Clock, screen: Any, report: Report) -> int:
    """One posterior; exit code."""
    from flyrun.fitting import engine, priors, stored  # late: see `fit`
    from flyrun.fitting.lines import MOST_SHOWN  # late: as above
    from flyrun.fitting.scan import many_files  # late: as above
    from flyrun.ground.page import document  # late: as above
    from flyrun.ground.run_files import POSTERIOR  # late: as above

    speaker, phases = progress.speaker(screen.console), dict[str, float]()
    say = speaker.say
    if many_files.wanted(request):
        answer = many_files.answer(request, screen.console)
        before = answer.question.about
    else:
        asked = stored.asked(request)
        phases["read"] = clock.seconds()
        for line in (*asked.about, *priors.lines(asked.priors, MOST_SHOWN)):
            say(line)
        answer, before = engine.answer(asked, clock.spent(request.budget), say), []
        phases["draws"] = clock.seconds() - phases["read"]
    for line in (*before, answer.how):
        say(line)
    for line in answer.caveats if screen.tables is None else ():  # below which they stand, else
        speaker.warn(line)
    drawn = clock.seconds()
    folder = stored.write(answer)
    text = report(folder)
    if screen.tables is not None:
        document.show(text, folder, screen.tables)
    phases["report"] = clock.seconds() - drawn
    parts = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in phases.items())
    say(f"{parts}; {clock.seconds():.1f} s in all")
    path = folder / POSTERIOR
    opens = f'xarray.open_datatree("{path}", engine="h5netcdf")'
    say(f"posterior: {path}; open it with {opens} or ArviZ")
    if answer.doubt:
        screen.warn(f"{answer.doubt}: see {folder / 'report.html'}")
    screen.table(folder, posterior=path)
    return UNTRUSTED if answer.doubt else DONE
