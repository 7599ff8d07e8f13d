"""flyrun diagnose: what a run's draws say of themselves, without a reference."""

import argparse

from flyrun.cli.verb import Verb, text, whole
from flyrun.experiments.config.arm import Arm  # noqa: F401  (that it is imported registers the choices)
from flyrun.experiments.runner.store import find_run, open_cells, read_chains, report_of
from flyrun.ground.errors import ConfigError, StoreError
from flyrun.ground.schema import did_you_mean, listing


def run(given: argparse.Namespace) -> int:
    """Print a line a finished cell; 1 where none has draws."""
    from flyrun.experiments.accuracy.without_reference import of_cell  # late: NumPy, numba

    folder = find_run(given.run, given.results_dir)
    read_chains(folder)  # a fit has none
    cells = [cell for cell in open_cells(folder) if cell.state == "done"]
    arms = list(dict.fromkeys(cell.arm for cell in cells))
    if not arms:
        raise StoreError(f"{folder}: no chain is finished; `{report_of(folder)}` says what is missing")
    if given.arm and given.arm not in arms:
        close = did_you_mean(given.arm, arms)
        raise ConfigError(f"diagnose: no finished arm {given.arm}; choose from {listing(arms)}{close}")
    shown = 0
    for cell in cells:
        if given.arm in (None, cell.arm):
            try:
                test = of_cell(cell, folder, given.draws, given.bracket)
            except StoreError as error:
                print(error)
                continue
            line = f"{cell.arm} seed={cell.seed}: KSD² {test.ksd:.3g}, p {test.p:.3f}, {test.used:,} draws"
            print(line + (", log Z {:.3f} to {:.3f}".format(*test.log_z) if test.log_z else ""))
            shown += 1
    return int(not shown)


VERB = Verb(
    "diagnose",
    "test a run's draws without a reference: a Stein discrepancy, log Z",
    run,
    about="""Looks at the stored draws of every finished chain. KSD² is the kernel Stein discrepancy with the
    inverse multiquadric kernel, by its U-statistic, about 0 for draws of the posterior; p is the share of
    random signs that give as much: small where the draws are not the posterior's. It takes as many draws as
    are effective, a pass over the data each.

    With --bracket it anneals from the prior to the posterior, and back from the chain's last draw. Log Z lies
    between, up to chance, if that is a draw of the posterior. It needs the MAP.""",
    examples=("flyrun diagnose mnist_logreg", "flyrun diagnose mnist_logreg --arm map_tuned --bracket"),
)
VERB.takes_run("run", help="a run's name, by default its experiment's, or its folder")
VERB.takes("--arm", metavar="ARM", type=text, help="this arm alone")
VERB.takes("--draws", metavar="N", type=whole(2), default=400, help="draws to look at, at most")
VERB.takes("--bracket", action="store_true", help="bracket log Z, too")
VERB.takes_results_dir()
