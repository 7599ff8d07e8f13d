"""Where and with what a cell was computed: versions, processor, BLAS, commit, load, memory."""

import contextlib
import functools
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import threadpoolctl

import flyrun
from flyrun.ground import git
from flyrun.ground.children import cores
from flyrun.ground.numerics.code_digest import plugin_points
from flyrun.ground.threads import one_blas_thread

#: one thread each: results depend on the thread count in the last bits, and cells share the cores
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "xarray", "h5py", "arviz-stats")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Pin numerical libraries to one thread, here and in the processes started inside."""
    before = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    # numba refuses a changed count once its threads run; the other two ways of pinning are enough then.
    os.environ.update(ONE_THREAD)
    try:
        with one_blas_thread():
            yield
    finally:
        for name in ONE_THREAD:
            os.environ.pop(name, None)
        os.environ.update(before)


def describe() -> dict[str, Any]:
    """Versions, machine and load now; what cannot be found out is None."""
    return {
        "flyrun": flyrun.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        **machine(),
    }


def packages(modules: Iterable[str]) -> dict[str, str]:
    """Versions of the distributions that other packages' modules come from, and of the libraries that these
    require, and those require in turn, as far as this process has loaded them; flyrun's own are elsewhere.
    """
    names = {module.partition(".")[0] for module in modules} - {"flyrun"}
    points = [point for point in plugin_points() if point.module.partition(".")[0] in names] if names else []
    waiting = [point.dist.name for point in points if point.dist]
    by_module = metadata.packages_distributions() if waiting else {}
    loaded = {_plain(name) for module in sys.modules for name in by_module.get(module, ())}
    versions: dict[str, str] = {}
    while waiting:
        distribution = metadata.distribution(waiting.pop())
        ours = distribution.name == "flyrun"  # its peers are extras; `describe` has the others
        versions[distribution.name] = distribution.version
        needed = [text for text in distribution.requires or () if ("extra ==" in text) == ours]
        names = {_plain(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for text in needed} & loaded
        waiting += names - {"flyrun", *map(_plain, versions)}
    return {name: versions[name] for name in sorted(versions) if name not in ("flyrun", *_PACKAGES)}


def _plain(name: str) -> str:
    """A distribution's name as any of its spellings."""
    return re.sub(r"[-_.]+", "-", name).lower()


def machine() -> dict[str, Any]:
    """Processor, cores, system and load of the machine that this process is on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": processor(),
        "cores": cores(),
        "platform": platform.platform(),
        "load_average": load and round(load, 2),
    }


def blas() -> dict[str, Any]:
    """Names, versions and thread count of the BLAS libraries loaded in this process."""
    loaded = [one for one in threadpoolctl.threadpool_info() if one.get("user_api") == "blas"]
    names = sorted({f"{one['internal_api']} {one.get('version') or ''}".strip() for one in loaded})
    threads = max((one["num_threads"] for one in loaded), default=None)
    return {"blas": ", ".join(names) or None, "blas_threads": threads}


@functools.cache
def blas_kernels() -> str:
    """Which kernels BLAS takes on this CPU, as "openblas SkylakeX": others add in another order."""
    loaded = [one for one in threadpoolctl.threadpool_info() if one.get("user_api") == "blas"]
    kernels = {f"{one['internal_api']} {one.get('architecture') or ''}".strip() for one in loaded}
    return ", ".join(sorted(kernels)) or "unknown"


def reset_peak() -> None:
    """Count peak memory from now on, where the system can (Linux); elsewhere it is the whole process's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int | None:
    """The most bytes that this process held, mapped files included; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource  # late: not on every system
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def processor() -> str | None:
    """The processor's name, which the last digits of draws depend on."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _commit() -> str | None:
    """Commit of the checkout that the package runs from, "+changes" when edited; None in a wheel."""
    root = Path(flyrun.__file__).resolve().parents[1]
    # Without this an environment inside another project's checkout would report that project's commit.
    if not (root / ".git").exists():
        return None
    with contextlib.suppress(git.NoAnswer):
        commit = git.ask(root, "rev-parse", "HEAD")
        changed = git.ask(root, "diff", "--quiet", "HEAD", "--", "flyrun", "conf", "datasets")
        if commit.returncode == 0:
            return commit.stdout.strip() + ("+changes" if changed.returncode == 1 else "")
    return None
