"""A file that a person has: found or refused in one line, and nothing of ours to verify or build."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from flyrun.ground.errors import DataError
from flyrun.ground.schema import closest, quoted


@dataclass(frozen=True)
class YourFile:
    """What the dataset `name` reads.

    needs: which file, and how to name it.  facts: further ones for `flyrun data info`.  endings: of names.
    """

    name: str
    needs: str
    facts: tuple[tuple[str, object], ...] = ()
    endings: tuple[str, ...] = (".csv", ".csv.gz")

    def path(self, given: str | None, how: str | None = None) -> Path:
        """The file that dataset.path names; DataError, with `how` it was given."""
        if given is None:
            raise DataError(f"dataset.path=null: {self.name} needs {self.needs}")
        path, how = Path(given).expanduser(), how or f"dataset.path={given}"
        remedy = f"{self.name} needs {self.needs}"
        if path.is_dir():
            if names := self._files(path):
                remedy = f"name a file in it, as {quoted(str(path / names[0]))}"
            raise DataError(f"{how}: is a folder; {remedy}")
        if not path.is_file():
            stems = {name.partition(".")[0]: name for name in self._files(path.parent)}
            close = closest(path.name.partition(".")[0], stems)
            guess = f" (did you mean {stems[close]}?)" if close is not None else ""
            raise DataError(f"{how}: no such file{guess}; {remedy}")
        return path

    def _files(self, folder: Path) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(file.name for file in folder.iterdir() if file.name.lower().endswith(self.endings))
        return []

    def state(self) -> str:
        """For `flyrun data list`."""
        return "your file"

    def describe(self) -> dict[str, object]:
        """For `flyrun data info`."""
        return {**dict(self.facts), "needs": self.needs}

    def verify(self) -> str:
        """For `flyrun data verify`: there is nothing of ours to verify."""
        return f"nothing is stored; it needs {self.needs}"

    def build(self, out: Path | str | None, echo: object) -> Path:
        """Nothing can be built: always a DataError."""
        raise DataError(f"{self.name}: is not made here; it needs {self.needs}")
