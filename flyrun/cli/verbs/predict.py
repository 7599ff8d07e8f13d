"""flyrun predict: a finished fit's predictions of new rows."""

import argparse
import sys
from pathlib import Path

from flyrun.cli import json_log
from flyrun.cli.messages import print_error
from flyrun.cli.verb import Verb, number, path, whole
from flyrun.experiments.runner.store import find_run
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import quoted
from flyrun.tables.formats import ARROW, PARQUET

#: endings of tables that are not written
_OTHERS = (*ARROW, ".gz", ".bz2", ".xz", ".zip", ".npz", ".json", ".jsonl", ".xls", ".xlsx", ".ods")


def run(given: argparse.Namespace) -> int:
    """Write the predictions as CSV."""
    from flyrun.fitting import piped, predict, stored  # late
    from flyrun.ground import files  # late, as below: help and Tab need no pandas

    if given.file.is_dir() or str(given.file).partition("/")[0].endswith(":"):
        what = "a folder" if given.file.is_dir() else "an address"
        raise ConfigError(f"{given.file}: is {what}; name one file of this machine at a time")
    if given.out is not None:
        _refuse_kind(given.out)
    elif json_log.asked():
        raise ConfigError(
            "--log json: stdout holds events alone; name a file for predictions with --out FILE"
        )
    model = Path(given.run_name).expanduser()
    run = model if model.is_file() else find_run(given.run_name, given.results_dir)
    fit = stored.fitted(run).thinned(given.draws)
    fit = fit.with_new(given.new_groups, given.seed)
    if given.out is not None:
        files.refuse_unwritable(given.out.parent, "name another --out")
    rows = predict.rows_of(fit, piped.kept(given.file), given.where)
    table = predict.predicted(fit, rows, given.kind, given.interval / 100.0, given.seed)
    if note := predict.overflow(table):
        print_error(f"note: row {note}")
    if error := table.attrs.get("error"):
        print_error(f"note: means over {len(fit.beta):,} draws err by {error:.2g} at most, by standard error")
    kind = given.out.suffix.lower() if given.out is not None else ""
    if kind in PARQUET:
        named = table.rename_axis("row").reset_index()
        files.write(given.out, lambda file: named.to_parquet(file, index=False))
    else:
        text = table.to_csv(
            index_label="row", float_format="%.6g", lineterminator="\n", sep="\t" if kind == ".tsv" else ","
        )
        if given.out is None:
            sys.stdout.write(text)
            return 0
        files.write_text(given.out, text)
    print(f"{len(table):,} predictions of {fit.layout.explained}: {given.out}")
    json_log.tell("predictions", rows=len(table), file=given.out)
    return 0


def _refuse_kind(out: Path) -> None:
    """ConfigError for the ending of another kind of file than those that are written."""
    if out.suffix.lower() in _OTHERS:
        raise ConfigError(
            f"--out {quoted(str(out))}: {out.suffix} is not written; name a .csv, .tsv or .parquet file"
        )


VERB = Verb(
    "predict",
    "predict the target of new rows by a finished fit",
    run,
    about="""Reads new rows and writes what a fit predicts of each: mean, sd, and the ends low and
    high of an interval; of several classes these for each, as mean[LEVEL]. Rows must have the columns that
    explained the target, its groups, and its offset, exposure or trials; other columns are not read. A level
    that the fit has not seen is refused; for a new group see --new-groups. What is too large for a number is
    inf, and a note says so.""",
    examples=(
        "flyrun predict breast_cancer new.csv",
        "flyrun predict breast_cancer new.csv --kind response --interval 50 --out predictions.csv",
    ),
)
VERB.takes_run(
    "run_name", help="the fit's name, by default its file's, its folder, or the file of `fit.save(FILE)`"
)
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
VERB.takes(
    "--where", metavar="ROWS", help="predict such rows alone, as \"year >= 2023 and region == 'north'\""
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
VERB.takes(
    "--out", metavar="FILE", type=path, help="write there: .csv, .tsv or .parquet (default: to the screen)"
)
VERB.takes_results_dir()
