"""A table's file read: which of its columns are asked for, what they are, and its rows encoded."""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from flyrun.children import cores
from flyrun.config.dataset import Table
from flyrun.config.schema import did_you_mean, listing
from flyrun.data.table import pieces
from flyrun.data.table.columns import scan, usable
from flyrun.data.table.encode import encode
from flyrun.data.table.formats import is_csv
from flyrun.data.table.layout import Layout
from flyrun.data.table.piece_cache import Kept
from flyrun.errors import DataError
from flyrun.threads import in_order


class Reading:
    """One reading of a file, to be closed. DataError for columns that it has not."""

    def __init__(self, config: Table, path: Path):
        self.config, self.path = config, path
        self.target, self.features = _columns(config, path)
        used = [*self.features, *config.beside.values(), self.target]
        read = functools.partial(pieces.pieces, path, used, config)
        self._spelled = lambda names: pieces.pieces(path, sorted(names), config, names)
        self._kept = Kept(read, pays=is_csv(path))  # others are read as quickly as memory is filled
        self.close = self._kept.close

    def layout(self) -> Layout:
        """What the columns are."""
        return scan(self._kept, self.target, self.features, self.config, str(self.path), self._spelled)

    def encoded(self, layout: Layout) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Features (n, D), and target with what is beside, (n, 1 + B), of some rows at a time, in order."""
        pieces = (
            piece
            for piece, _ in usable(self._kept.again(layout.text), self.config, str(self.path), layout.text)
        )
        return in_order(lambda piece: encode(piece, layout), pieces, cores())


def _columns(config: Table, path: Path) -> tuple[str, list[str]]:
    """(target, features) that the configuration names; DataError for one that the file has not."""
    for key, usual in (("decimal", "."), ("encoding", "utf-8")):
        if (value := getattr(config, key)) != usual and not is_csv(path):
            raise DataError(f"{config.say(key, value)}: is for CSV files, which {path} is not")
    known = pieces.names(path, config)
    if config.target is None:
        raise DataError(f"dataset.target=null: name the column to explain; {path} has {_some(known)}")
    asked = {"features": config.features or (), "drop": config.drop}
    asked |= {"categorical": config.categorical, "numeric": config.numeric}
    aside = {"target": (config.target,)} | {role: (name,) for role, name in config.beside.items()}
    for key, names in (*aside.items(), *asked.items()):
        for name in names:
            if name not in known:
                close = did_you_mean(name, known)
                raise DataError(
                    f"{config.say(key)}: {path} has no column {name!r}{close}; it has {_some(known)}"
                )
    for key in ("features", "drop", *config.beside):
        for name in {**aside, **asked}[key]:
            if (role := config.role(name)) not in (key, "column"):
                mend = f"name another column with {config.say(key)}" if key in aside else "leave it out there"
                raise DataError(f"{config.say(key)}: {name} is the {role}; {mend}")
    left_out = {config.target, *config.beside.values(), *config.drop}
    chosen = [name for name in config.features or known if name not in left_out]
    return config.target, list(dict.fromkeys(chosen))


def _some(names: list[str]) -> str:
    return listing(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"
