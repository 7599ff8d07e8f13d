"""Figures that an experiment asks for by name: `figures: [name]` in its YAML is the file <name>.py here.

Such a file has FIGURES, figure -> (caption, plot), as figures.py has; plot(run, run_dir) returns a matplotlib
Figure, or None where the run has nothing to show yet.
"""

from __future__ import annotations

from pathlib import Path


def known_figures() -> list[str]:
    """Names that `figures` takes."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
