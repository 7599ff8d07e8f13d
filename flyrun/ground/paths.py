"""Where flyrun's own files are, in a checkout and in an installed wheel, and where it may cache."""

import functools
import os
import re
import tempfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def _checkout() -> Path | None:
    """Root of the checkout that this package runs from; None in an installed wheel."""
    root = _PACKAGE.parent
    try:
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    return root if re.search(r"""^name\s*=\s*["']flyrun["']""", text, re.MULTILINE) else None


def _shipped(in_checkout: str, in_wheel: str) -> Path:
    root = _checkout()
    return root / in_checkout if root else _PACKAGE / in_wheel


def in_checkout() -> bool:
    """Whether flyrun runs from a checkout, not from an installed wheel."""
    return _checkout() is not None


def conf_dir() -> Path:
    """Folder of the YAML configuration groups."""
    return _shipped("conf", "conf")


def datasets_dir() -> Path:
    """Folder of registry.yaml and of the small ready data."""
    return _shipped("datasets", "datasets")


def reference_dir() -> Path:
    """Folder of the papers' published values."""
    return _shipped("results/reference", "reference")


def references() -> list[str]:
    """Names of the published tables."""
    return sorted(path.stem for path in reference_dir().glob("*.json"))


def writable(folder: Path) -> bool:
    """Whether `folder` exists, or can be made, and takes a new file; tried, not asked of permission bits."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_dir(sub: str) -> Path:
    """A writable per-user folder for `sub`, created.

    $FLYRUN_CACHE, else $XDG_CACHE_HOME/flyrun, else ~/.cache/flyrun; a per-user temporary folder
    when that cannot be written.
    """
    return _first_writable(_cache_root() / sub, sub)


def _cache_root() -> Path:
    if named := os.environ.get("FLYRUN_CACHE"):
        return Path(named).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "flyrun"
    # With neither HOME nor a password entry expanduser leaves the tilde as it is.
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "flyrun" if home != "~" else _temporary_root()


def _temporary_root() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"flyrun-cache-{user}"


@functools.cache
def _first_writable(wanted: Path, sub: str) -> Path:
    if writable(wanted):
        return wanted
    root = _temporary_root()
    if writable(root / sub) and _is_mine(root):
        return root / sub
    return Path(tempfile.mkdtemp(prefix="flyrun-cache-"))


def _is_mine(folder: Path) -> bool:
    # Anyone can make a folder of a known name in a shared temporary folder, and compiled code is kept here.
    status = folder.lstat()
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return mine and not folder.is_symlink() and not status.st_mode & 0o022
