"""Git is asked, read-only."""

import os
import shutil
import subprocess
from pathlib import Path

_SECONDS = 60


class NoAnswer(Exception):  # noqa: N818
    """Git is not installed, or does not answer; the text says which."""


def ask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Let git answer in its own, plain words, in the checkout that `folder` lies in. Raises NoAnswer."""
    git = shutil.which("git")
    if git is None:
        raise NoAnswer("git is not installed")
    surroundings = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(
            [git, "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            env=surroundings,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswer(f"git {arguments[0]} does not answer ({error})") from error
