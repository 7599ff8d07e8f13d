"""What speaks against publishing a figure: an axis without data, more lines than can be told apart."""

from typing import Any

import numpy as np

MOST_LINES = 10


def faults(figure: Any) -> list[str]:
    """The faults of a drawn figure, a phrase each."""
    shown = [axis for axis in figure.axes if axis.axison]
    empty = [k for k, axis in enumerate(shown, 1) if not _shows_data(axis)]
    found = [f"axis {k} of {len(shown)} shows no data" for k in empty]
    labels = {label for axis in shown for label in axis.get_legend_handles_labels()[1]}
    if len(labels) > MOST_LINES:
        found.append(f"{len(labels)} labelled lines, of which {MOST_LINES} at most can be told apart")
    return found


def _shows_data(axis: Any) -> bool:
    """Whether something measured lies within the axis' limits; a line across all of it is no data."""
    if axis.images or axis.texts:
        return True
    points: list[Any] = [line.get_xydata() for line in axis.lines if _in_data(line, axis)]
    points += [path.vertices for drawn in axis.collections for path in _paths(drawn, axis)]
    points += [patch.get_path().transformed(patch.get_patch_transform()).vertices for patch in axis.patches]
    return any(_within(axis, np.ma.filled(np.ma.asarray(one, dtype=float), np.nan)) for one in points)


def _within(axis: Any, points: np.ndarray) -> bool:
    """Whether one of these points, (n, 2), lies within the axis' limits; what is no number does not."""
    (left, right), (low, high) = sorted(axis.get_xlim()), sorted(axis.get_ylim())
    x, y = points.reshape(-1, 2).T
    return bool(((x >= left) & (x <= right) & (y >= low) & (y <= high)).any())


def _in_data(artist: Any, axis: Any) -> bool:
    return all(artist.get_transform().contains_branch_seperately(axis.transData))


def _paths(drawn: Any, axis: Any) -> list[Any]:
    """Outlines in the axis' own numbers: of markers, where they stand."""
    from matplotlib.path import Path  # late, as in figures

    if not _in_data(drawn, axis):  # markers are drawn in points about their places
        return [Path(np.ma.filled(drawn.get_offsets(), np.nan))]
    return list(drawn.get_paths())
