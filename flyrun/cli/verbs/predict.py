"""flyrun predict: a finished fit's predictions of new rows."""

import argparse
import sys

from flyrun.cli.messages import print_error
from flyrun.cli.verb import Verb, number, path, whole
from flyrun.experiments.runner.store import find_run


def run(given: argparse.Namespace) -> int:
    """Write the predictions as CSV."""
    from flyrun.fitting import piped, predict, stored  # late
    from flyrun.ground import files  # late, as below: help and Tab need no pandas

    fit = stored.fitted(find_run(given.run_name, given.results_dir)).thinned(given.draws)
    fit = fit.with_new(given.new_groups, given.seed)
    if given.out is not None:
        files.refuse_unwritable(given.out.parent, "name another --out")
    rows = predict.rows_of(fit, piped.kept(given.file))
    table = predict.predicted(fit, rows, given.kind, given.interval / 100.0, given.seed)
    if note := predict.overflow(table):
        print_error(f"note: row {note}")
    if error := table.attrs.get("error"):
        print_error(f"note: means over {len(fit.beta):,} draws err by {error:.2g} at most, by standard error")
    text = table.to_csv(index_label="row", float_format="%.6g", lineterminator="\n")
    if given.out is None:
        sys.stdout.write(text)
    else:
        files.write_text(given.out, text)
        print(f"{len(table):,} predictions of {fit.layout.explained}: {given.out}")
    return 0


VERB = Verb(
    "predict",
    "predict the target of new rows by a finished fit",
    run,
    about="""Reads new rows and writes, as CSV, what a fit predicts of each: mean, sd, and the ends low and
    high of an interval; of several classes these for each, as mean[LEVEL]. Rows must have the columns that
    explained the target, its groups, and its offset, exposure or trials; other columns are not read. A level
    that the fit has not seen is refused; for a new group see --new-groups. What is too large for a number is
    inf, and a note says so.""",
    examples=(
        "flyrun predict breast_cancer new.csv",
        "flyrun predict breast_cancer new.csv --kind response --interval 50 --out predictions.csv",
    ),
)
VERB.takes_run("run_name", help="the fit's name, by default its file's, or its folder")
VERB.takes("file", metavar="FILE", type=path, help="new rows, of the kinds that fit reads")
VERB.takes(
    "--kind",
    metavar="WHAT",
    choices=("mean", "chance", "response"),
    default="mean",
    help="mean: the target's expectation, of successes their number; chance: of a class, or of success in "
    "one trial; response: new targets, noise included",
)
VERB.takes(
    "--interval",
    metavar="PERCENT",
    type=number(lambda x: 0 < x < 100, "a number between 0 and 100"),
    default=90.0,
    help="of the draws between low and high",
)
VERB.takes("--draws", metavar="N", type=whole(1), help="use so many of the fit's draws (default: all)")
VERB.takes(
    "--new-groups",
    metavar="WHAT",
    choices=("refuse", "draw", "zero"),
    default="refuse",
    help="refuse groups that the fit has not seen, draw their effects as groups differ, or take zero",
)
VERB.takes("--seed", metavar="N", type=whole(0), default=0, help="of --kind response and --new-groups draw")
VERB.takes("--out", metavar="FILE", type=path, help="write there (default: to the screen)")
VERB.takes_results_dir()
