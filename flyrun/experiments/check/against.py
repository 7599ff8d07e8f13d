"""What another revision's arms do on this machine: its own `flyrun check`, in a folder of its own."""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import flyrun
from flyrun.ground import git, paths
from flyrun.ground.errors import ConfigError

_NEEDED = ("flyrun", "conf", "datasets", "results/reference", "pyproject.toml")


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A temporary folder with a revision's files; the checkout stays as it is.

    Raises ConfigError where flyrun runs from no checkout, or git knows no such revision.
    """
    root = Path(flyrun.__file__).resolve().parents[1]
    if not paths.in_checkout():
        raise ConfigError(f"check --against {revision}: flyrun runs from a wheel; run it in a git checkout")
    with tempfile.TemporaryDirectory(prefix="flyrun-against-") as name:
        folder, archive = Path(name) / "checkout", Path(name) / "files.zip"
        try:
            query = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            known = git.ask(root, *query)
            packed = git.ask(
                root, "archive", f"--output={archive}", known.stdout.strip() or revision, *_NEEDED
            )
        except git.NoAnswer as error:
            raise ConfigError(f"check --against {revision}: {error}") from error
        if known.returncode or packed.returncode:
            why = packed.stderr.strip().splitlines()[-1] if known.returncode == 0 else "no such revision"
            raise ConfigError(f"check --against {revision}: {why}; name a commit of {root}, such as HEAD~1")
        with zipfile.ZipFile(archive) as files:
            files.extractall(folder)
        yield folder


def start_there(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start Python with these words and a folder's flyrun; its input, output and errors are pipes."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def measure_there(folder: Path, revision: str, names: list[str], workers: int) -> Path:
    """Store what a revision's arms do, in a folder beside its files, and return it.

    names: experiments that the revision has. Raises ConfigError where its own check fails.
    """
    values = folder.parent / "values"
    if names:
        options = [f"values={values}", f"workers={workers}"]
        done = start_there(folder, "-m", "flyrun", "check", *names, "--update", *options)
        printed, failed = done.communicate()
        if done.returncode:
            last = (failed.strip() or printed.strip() or "nothing").splitlines()[-1]
            raise ConfigError(
                f"check --against {revision}: its own check ended with {done.returncode}: {last}"
            )
    return values
