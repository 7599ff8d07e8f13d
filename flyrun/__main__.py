"""The program `flyrun`, also as `python -m flyrun`: Ctrl-C ends it with exit code 130, whenever it comes."""

import _signal as signal  # Python's own module with nothing imported: Ctrl-C may come meanwhile
import os
import sys

from flyrun.ground.exit_codes import INTERRUPTED  # imports nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType


def _end(*_: object) -> None:
    """End at once. Nothing is lost: what is stored is stored, and worker processes end with this one."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # in the middle of a line, or nobody reads it
            continue
    os._exit(INTERRUPTED)


def _interrupted(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("flyrun: interrupted; what was finished is kept", file=sys.stderr)
    _end()


def _uncaught(kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None") -> None:
    if issubclass(kind, KeyboardInterrupt):
        _interrupted()
    sys.__excepthook__(kind, error, trace)


def _ignored(unraisable: "sys.UnraisableHookArgs") -> None:
    """Where Python calls back, as the garbage collector does, Ctrl-C goes unheard: let it come again."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading  # late: only after Ctrl-C

    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()


# Before anything else is imported: Ctrl-C may come meanwhile. A shell's background ignores it, and so do we.
if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, _interrupted)
sys.excepthook, sys.unraisablehook = _uncaught, _ignored


def _raise(number: int, frame: "FrameType | None") -> None:
    """Raise KeyboardInterrupt; not out of an import, which may swallow it or make another error of it.

    Once: pressed again while the first is being told, it ends the process.
    """
    signal.signal(signal.SIGINT, _interrupted)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _interrupted()
        frame = frame.f_back
    raise KeyboardInterrupt


def _main() -> int:
    from flyrun.cli.main import main  # late: after the handler above is set

    return main()


def program(run: "Callable[[], int]" = _main) -> int:
    """Exit code of the command line, or of `run`, for a process that then ends."""
    import atexit  # late, both: after the handler above is set
    import gc

    gc.set_threshold(100_000)  # importing makes much and drops little: one second of ten in a short run
    # Registered first, called last: from there on Python leaves Ctrl-C to the system, which kills.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background
        return run()
    signal.signal(signal.SIGINT, _raise)
    code = run()
    gc.freeze()  # what is left goes with the process: looking through it takes half a second
    signal.signal(signal.SIGINT, _end)
    return code


if __name__ == "__main__":
    sys.exit(program())
