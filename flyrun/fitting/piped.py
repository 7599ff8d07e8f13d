"""A table from stdin, kept as a file: it is looked at twice, and another command goes on with it."""

import hashlib
import sys
from pathlib import Path

from flyrun.ground import files, paths
from flyrun.ground.errors import ConfigError

STDIN = "-"
_KEPT = set[str]()


def kept(file: Path) -> Path:
    """The file as it is named or, of -, what stdin holds: CSV. Raises ConfigError where that is nothing."""
    if file != Path(STDIN):
        return file
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise ConfigError("-: is stdin, which is empty; pipe a CSV table into it, or name a file")
    path = paths.cache_dir("stdin") / f"stdin_{hashlib.sha256(content).hexdigest()[:12]}.csv"
    with files.replacing(path) as temporary:
        temporary.write_bytes(content)
    _KEPT.add(str(path))
    return path


def shown(text: str) -> str:
    """A message, in which stdin is called as it was typed."""
    for path in _KEPT:
        text = text.replace(path, STDIN)
    return text
