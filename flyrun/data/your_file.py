"""A file that a person has: found or refused in one line, and nothing of ours to verify or build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flyrun.errors import DataError


@dataclass(frozen=True)
class YourFile:
    """What the dataset `name` reads.

    needs: which file, and how to name it.  facts: further ones for `flyrun data info`.
    """

    name: str
    needs: str
    facts: tuple[tuple[str, object], ...] = ()

    def path(self, given: str | None) -> Path:
        """The file that dataset.path names; DataError."""
        if given is None:
            raise DataError(f"dataset.path=null: {self.name} needs {self.needs}")
        path = Path(given).expanduser()
        if not path.is_file():
            raise DataError(f"dataset.path={given}: no such file; {self.name} needs {self.needs}")
        return path

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
