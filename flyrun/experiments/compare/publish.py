"""A finished run's report as a folder to keep: report.md, table.csv, settings.json and its figures."""

import io
import json
from pathlib import Path

from PIL import Image

from flyrun.experiments.report import settings
from flyrun.experiments.report.build import build
from flyrun.experiments.report.figures import MOST_LINES
from flyrun.experiments.runner import store
from flyrun.ground import files
from flyrun.ground.errors import StoreError

SETTINGS, _FIGURES = "settings.json", (".png", ".pdf")


def publish(run_dir: Path, out: Path, pdf: bool = False) -> list[Path]:
    """Build the report of a run anew and copy it to <out>/<the run's name>; returns the files written.

    Of the figures the PNG, which report.md shows, and where asked for the PDF; those of an earlier report go.
    Raises StoreError where
    it is a fit's, a cell is not finished, a figure shows nothing or too much, or the folder cannot be
    written.
    """
    run, report = store.read_chains(run_dir), build(run_dir, pdf=pdf)
    if not report.complete:
        raise StoreError(
            f"{run_dir}: not every cell is finished, so nothing was published; "
            f"`{store.report_of(run_dir)}` says what is missing"
        )
    if report.faults:
        raise StoreError(
            f"{run_dir}: {report.faults[0]}, so nothing was published; name the arms to draw, at most "
            f"{MOST_LINES}, under drawn in the experiment's file and run it again: nothing is sampled anew"
        )
    folder = out / run_dir.name
    sources = [
        run_dir / "report.md",
        run_dir / "table.csv",
        *(file for file in report.files if file.suffix in _FIGURES),
    ]
    targets = [folder / source.relative_to(run_dir) for source in sources]
    with files.writing(folder):
        for old in (folder / "figures").glob("*"):
            if old.suffix in _FIGURES:
                old.unlink()
        for source, target in zip(sources, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            content = source.read_bytes()
            files.write_bytes(target, _small(content) if source.suffix == ".png" else content)
        files.write_text(folder / SETTINGS, as_text(run["command"], settings.stored(run)))
    return [*targets, folder / SETTINGS]


def _small(png: bytes) -> bytes:
    """A figure in a palette of 256 colours, a third of the bytes: it looks alike, and is committed.

    The palette covers what colours there are, those of few pixels too: a short line keeps its own.
    """
    image = Image.open(io.BytesIO(png)).convert("RGB")
    small = io.BytesIO()
    chosen = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    chosen.save(small, "PNG", optimize=True)
    return small.getvalue()


def as_text(command: str, by_arm: settings.Settings) -> str:
    """settings.json: the command, what all arms are set to alike, and what is each arm's own.

    by_arm: those that decide the draws, as a cell's key does.
    """
    alike, each = settings.split(by_arm)
    return json.dumps({"command": command, "all": alike, "arms": each}, indent=1, ensure_ascii=False) + "\n"
