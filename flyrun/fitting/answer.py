"""`flyrun fit`: weighted draws where they are certified, else chains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyrun import files
from flyrun.errors import ConfigError, FlyrunError, factoring
from flyrun.exit_codes import DONE, UNTRUSTED
from flyrun.fitting import by_weights, level_fits, ratios, read_table, table_posterior
from flyrun.fitting.groups import grouped_table
from flyrun.fitting.request import ELSEWHERE, Clock, Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import many_files
from flyrun.fitting.second_process import SecondProcess
from flyrun.models.family import family
from flyrun.report import document, render
from flyrun.report.summaries import read_fit
from flyrun.runner import progress, store

# From so many rows on chains that are needed are Firefly's, where it has the model: compiled, they read few
# rows an iteration.
_FIREFLY = ("logistic", "softmax")
_FIREFLY_PAYS = 5_000

Report = Callable[[Path], Any]


def fit(request: Request, clock: Clock, screen: Any, report: Report) -> int:
    """Answer a request, typed as clock began; exit code. FlyrunError for what a person can mend."""
    with factoring("dataset.standardize=false" not in request.overrides):
        return _answered(request, clock, screen, report)


def _answered(request: Request, clock: Clock, screen: Any, report: Report) -> int:
    files.refuse_unwritable(read_table.folder_of(request), ELSEWHERE)
    if request.folds and (request.by is not None or not many_files.wanted(request)):
        other = "one posterior; leave --by out" if request.by else "many Parquet files; leave it out, and see"
        other += "" if request.by else " `flyrun compare`, which leaves out each row of one file"
        raise ConfigError(f"--folds: is for a scan of {other}")
    if request.by is not None:
        return _fit_levels(request, clock, screen, report)
    return _fit(request, clock, screen, report)


def _fit_levels(request: Request, clock: Clock, screen: Any, report: Report) -> int:
    """A fit a level of a column; exit code. ConfigError, once all else is written, where some have none."""
    say, unseen = progress.display(screen.console, 0).say, level_fits.Unseen()
    if many_files.wanted(request):
        levels, found = many_files.answers(request, screen.console)
    else:
        levels, found = level_fits.of_table(request), {}
    make = report if len(levels) <= level_fits.MOST_REPORTS else lambda folder: None
    codes, failed = dict[str, int](), dict[str, FlyrunError]()
    for level, own in levels.items():
        try:
            made = found.get(level)
            if isinstance(made, FlyrunError):
                raise made
            if made is None:
                codes[level] = _fit(own, Clock(), unseen, make)
            else:
                codes[level] = _finish(own, unseen, clock, make, {}, *made)
        except FlyrunError as error:
            failed[level] = error
            continue
        told = read_fit(read_table.folder_of(own))
        say(f"{request.by}={level}: {told['layout']['rows']:,} rows; {told['how']}")
    fitted = {level: own for level, own in levels.items() if level in codes}
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
    return max(codes.values())


def _fit(request: Request, clock: Clock, screen: Any, report: Report) -> int:
    if many_files.wanted(request):
        return _finish(request, screen, clock, report, {}, *many_files.answer(request, screen.console))
    say = progress.display(screen.console, 0).say
    read = read_table.read(request)
    model = read_table.model_of(request, read.layout.task)
    if request.exp:
        ratios.name_of(family(model).link, read.layout.target.name, read.layout.log_target)
    if not request.fresh:
        settings = read_table.settings_of(request, read, model)
        read_table.refuse_to_replace(read_table.folder_of(request), settings)
    if read_table.asks_for_chains(request):
        return _by_rounds(request, read, clock, screen)
    was_read, spent = clock.seconds(), clock.spent(request.budget)
    told = read_table.priors_of(request, read.layout)
    posterior = table_posterior.posterior_of(read.dataset, family(model), told)
    if request.groups:
        posterior = grouped_table.posterior_of(read, posterior, request.groups)
    about = by_weights.lines(request, read, posterior)
    for line in (*about, *by_weights.prior_lines(request, read, posterior)):
        say(line)
    if isinstance(posterior, grouped_table.OfTable):
        made = by_weights.by_groups(read, posterior, spent)
    elif (found := by_weights.draw(posterior, spent=spent)).why:
        say(f"weighted draws are not used, because {found.why}: chains are run instead")
        plain = not (request.priors or read.dataset.beside)  # all that Firefly's chains know
        if model in _FIREFLY and plain and len(posterior.rows) >= _FIREFLY_PAYS:
            return _by_rounds(request, read, clock, screen)
        made = by_weights.by_hmc(request, read, posterior, found, clock)
    else:
        made = by_weights.by_weights(read, posterior, found)
    phases = {"read": was_read, "draws": clock.seconds() - was_read}
    return _finish(request, screen, clock, report, phases, read, posterior, made)


def _finish(
    request: Request,
    screen: Any,
    clock: Clock,
    report: Report,
    spent: dict[str, float],
    read: read_table.ReadTable,
    posterior: Posterior,
    made: by_weights.Answer,
    told: list[str] | None = None,
) -> int:
    """Write and say an answer; exit code. spent: seconds by phase; told: of table and model, if told anew."""
    say, was_drawn = progress.display(screen.console, 0).say, clock.seconds()
    for line in (*(told or []), made.how, *made.caveats):
        say(line)
    folder = by_weights.write(request, read, posterior, made, told)
    text = report(folder)
    if screen.tables is not None:
        document.show(text, folder, screen.tables)
    spent = spent | {"report": clock.seconds() - was_drawn}
    parts = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in spent.items())
    say(f"{parts}; {clock.seconds():.1f} s in all")
    path = folder / store.POSTERIOR
    opens = f'xarray.open_datatree("{path}", engine="h5netcdf")'
    say(f"posterior: {path}; open it with {opens} or ArviZ")
    if made.doubt:
        screen.warn(f"{made.doubt}: see {folder / 'report.html'}")
    screen.table(folder, posterior=path)
    return UNTRUSTED if made.doubt else DONE


def _by_rounds(request: Request, read: read_table.ReadTable, clock: Clock, screen: Any) -> int:
    """The answer of compiled chains."""
    with SecondProcess() as beside:
        from flyrun.fitting import rounds  # late: the other process has begun
        from flyrun.fitting.choose import problem  # late: numba, which weighted draws do without

        return rounds.fit(request, problem(request, read), clock, screen, beside)
