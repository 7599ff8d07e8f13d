"""One process at a time in a folder: a lock file that names its holder.

The kernel's lock on the file decides, not the process number in it: it ends with its holder, however
that died, and process numbers come again (in containers always the same few).
"""

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from flyrun.ground.errors import StoreError

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextlib.contextmanager
def locked(path: Path, wait_s: float = 0.0) -> Iterator[str]:
    """Hold the lock file `path`; yields "" or, when its holder died without removing it, who that was.

    Raises StoreError naming the holder when it is still held after wait_s, OSError when unwritable.
    """
    deadline = time.monotonic() + wait_s
    try:
        descriptor = _try(path)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        path.unlink(missing_ok=True)
        yield ""  # a file system without locks: who starts a run twice is not stopped
        return
    while descriptor is None:
        if time.monotonic() >= deadline:
            raise StoreError(
                f"{path.parent} is in use by {_holder(path)}; wait for it, end it, or choose another name"
            )
        time.sleep(0.1)
        descriptor = _try(path)
    try:
        stale = os.pread(descriptor, 1000, 0).decode(errors="replace").strip()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield stale
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _try(path: Path) -> int | None:
    """Descriptor of the locked file, or None while another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with contextlib.ExitStack() as stack, contextlib.suppress(BlockingIOError, FileNotFoundError):
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The holder removes the file as it leaves: what we locked may no longer be what others find.
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            stack.pop_all()
            return descriptor
    return None


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip() or "another process"
    return "another process"
