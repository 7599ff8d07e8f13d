"""A table from stdin, kept as a file: it is looked at twice, and another command goes on with it."""

import hashlib
import sys
from pathlib import Path

from flyrun import files, paths
from flyrun.errors import ConfigError

STDIN = "-"


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
    return path
