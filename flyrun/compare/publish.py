"""A finished run's report as a folder to keep: report.md, table.csv and the figures it shows."""

from pathlib import Path

from flyrun import files
from flyrun.errors import StoreError
from flyrun.report.build import build


def publish(run_dir: Path, out: Path) -> list[Path]:
    """Build the report of a run anew and copy it to <out>/<the run's name>; returns the files written.

    Of the figures the PNG, which report.md shows; those of an earlier report go. Raises StoreError where
    a cell is not finished, or the folder cannot be written.
    """
    report = build(run_dir)
    if not report.complete:
        raise StoreError(
            f"{run_dir}: not every cell is finished, so nothing was published; "
            f"`flyrun report {run_dir.name}` says what is missing"
        )
    folder = out / run_dir.name
    sources = [
        run_dir / "report.md",
        run_dir / "table.csv",
        *(one for one in report.files if one.suffix == ".png"),
    ]
    targets = [folder / source.relative_to(run_dir) for source in sources]
    with files.writing(folder):
        for old in (folder / "figures").glob("*.png"):
            old.unlink()
        for source, target in zip(sources, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(target, source.read_bytes())
    return targets
