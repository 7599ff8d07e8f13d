"""flyrun predict: a finished fit's predictions of new rows."""

import argparse
import re
import sys
from pathlib import Path

from flyrun.cli import json_log
from flyrun.cli.messages import print_error
from flyrun.cli.verb import Verb, number, text, whole
from flyrun.experiments.runner.store import find_run
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import quoted
from flyrun.tables.formats import ARROW, PARQUET
from flyrun.tables.options import names_of

#: endings of tables that are not written
_OTHERS = (*ARROW, ".gz", ".bz2", ".xz", ".zip", ".npz", ".json", ".jsonl", ".xls", ".xlsx", ".ods")


def run(given: argparse.Namespace) -> int:
    """Write the predictions: of one file as CSV or Parquet, of each of many a Parquet file."""
    from flyrun.fitting.scan import table_files  # late, as below: help and Tab need neither NumPy nor pandas

    model = Path(given.run_name).expanduser()
    model = model if model.is_file() else find_run(given.run_name, given.results_dir)
    return (_many if table_files.several(given.file) else _one)(given, model)


def _many(given: argparse.Namespace, model: Path) -> int:
    """Of a folder, a pattern or an address."""
    from flyrun.cli.verbs.fit import settings  # late, as above
    from flyrun.fitting.scan import predicted_files  # late
    from flyrun.fitting.scan.table_files import root  # late
    from flyrun.ground.page import render  # late

    if given.out is None or given.out.lower().endswith((*PARQUET, ".csv", ".tsv", *_OTHERS)):
        beside = root(given.file).rstrip("/").removesuffix(".parquet") + "_predictions"
        raise ConfigError(
            f"{given.file}: each of its files gets one of predictions; name a folder for them, as --out "
            f"{quoted(beside)}"
        )
    same = ("kind", "draws", "seed", "new_groups", "where", "workers")
    order = predicted_files.Order(
        model,
        given.file,
        given.out,
        interval=given.interval / 100.0,
        keep=names_of(",".join(given.keep)),
        typed=settings(given.settings),
        **{key: getattr(given, key) for key in same},
    )
    written, notes = predicted_files.write(order, json_log.shown(render.screen(stderr=True)))
    for note in notes:
        print_error(f"note: {note}")
    before = f", {written.there:,} of them from before" if written.there else ""
    print(f"{written.rows:,} predictions in {written.parts:,} files{before}: {given.out}")
    json_log.tell("predictions", rows=written.rows, files=written.parts, folder=given.out)
    return 0


def _one(given: argparse.Namespace, model: Path) -> int:
    """Of one file of this machine."""
    from flyrun.fitting import piped, predict, stored  # late, as above
    from flyrun.ground import files  # late

    file, out = Path(given.file).expanduser(), Path(given.out).expanduser() if given.out else None
    if file.is_dir():
        raise ConfigError(f"{file}: holds no Parquet file; name a folder that does, or one file")
    if not file.exists() and str(file) != piped.STDIN:
        raise ConfigError(f"{file}: no such file or folder; name one that is there")
    if word := next(iter(given.settings), "--workers" if given.workers else ""):
        raise ConfigError(f"{word}: is for a folder of many files; leave it out")
    if out is not None:
        _refuse_kind(out)
    elif json_log.asked():
        raise ConfigError(
            "--log json: stdout holds events alone; name a file for predictions with --out FILE"
        )
    fit = stored.fitted(model).thinned(given.draws)
    fit = fit.with_new(given.new_groups, given.seed)
    if out is not None:
        files.refuse_unwritable(out.parent, "name another --out")
    path = piped.kept(file)
    rows = predict.rows_of(fit, path, given.where)
    table = predict.predicted(fit, rows, given.kind, given.interval / 100.0, given.seed)
    if note := predict.overflow(table):
        print_error(f"note: row {note}")
    if error := table.attrs.get("error"):
        print_error(f"note: means over {len(fit.beta):,} draws err by {error:.2g} at most, by standard error")
    if keep := names_of(",".join(given.keep)):
        table = table.join(predict.kept_of(fit, path, keep))
    kind = out.suffix.lower() if out is not None else ""
    if out is not None and kind in PARQUET:
        named = table.rename_axis("row").reset_index()
        files.write(out, lambda file: named.to_parquet(file, index=False))
    else:
        text = table.to_csv(
            index_label="row", float_format="%.6g", lineterminator="\n", sep="\t" if kind == ".tsv" else ","
        )
        if out is None:
            sys.stdout.write(text)
            return 0
        files.write_text(out, text)
    print(f"{len(table):,} predictions of {fit.layout.explained}: {out}")
    json_log.tell("predictions", rows=len(table), file=str(out))
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
    high of an interval; of several classes these for each, as mean[LEVEL]. Of a folder, a pattern or an
    address, as s3://bucket/folder, each Parquet file gets one of predictions, of the same path below --out;
    the same command goes on where it ended. Rows must have the columns that
    explained the target, its groups, and its offset, exposure or trials; other columns are not read. A level
    that the fit has not seen is refused; for a new group see --new-groups. What is too large for a number is
    inf, and a note says so.""",
    examples=(
        "flyrun predict breast_cancer new.csv",
        "flyrun predict breast_cancer new.csv --kind response --interval 50 --out predictions.csv",
        "flyrun predict claims month=7 --keep id,date --out predicted/month=7",
    ),
    settings=lambda word: re.match(r"executor[.=]", word) is not None and "=" in word,
)
VERB.takes_run(
    "run_name", help="the fit's name, by default its file's, its folder, or the file of `fit.save(FILE)`"
)
VERB.takes(
    "file", metavar="FILE", type=text, help="new rows, of the kinds that fit reads, or a folder of them"
)
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
VERB.takes(
    "--draws",
    metavar="N",
    type=whole(1),
    help="use so many of the fit's draws (default: all, of many files 400)",
)
VERB.takes(
    "--new-groups",
    metavar="WHAT",
    choices=("refuse", "draw", "zero"),
    default="refuse",
    help="refuse groups that the fit has not seen, draw their effects as groups differ, or take zero",
)
VERB.takes("--seed", metavar="N", type=whole(0), default=0, help="of --kind response and --new-groups draw")
VERB.takes(
    "--out",
    metavar="FILE",
    help="write there: .csv, .tsv or .parquet (default: to the screen); of many files a folder or address",
)
VERB.takes(
    "--keep",
    metavar="A,B",
    action="append",
    default=[],
    help="columns of the rows to write beside their predictions, as an id and a date",
)
VERB.takes("--workers", metavar="N", type=whole(1), help="processes for many files (default: as many as pay)")
VERB.takes_results_dir()
VERB.takes_settings("of where many files are predicted, as executor=dask executor.address=tcp://host:8786")
