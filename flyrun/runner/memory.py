"""The most memory that this process held: resident pages, those of mapped files included."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def reset() -> None:
    """Count the peak from now on, where the system can (Linux); elsewhere it is that of the whole process."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def peak() -> int | None:
    """Bytes at the peak; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource  # late: not on every system
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
