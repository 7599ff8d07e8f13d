"""What is said on stderr: one line, whatever went wrong, and the exit code that it means."""

import os
import sys

from flyrun.cli import json_log
from flyrun.fitting import piped
from flyrun.ground.errors import FlyrunError, no_digits
from flyrun.ground.exit_codes import FAILED, REFUSED


def explain(error: Exception) -> int:
    """Say an error in one line on stderr and return the exit code that it means."""
    if os.environ.get("FLYRUN_DEBUG") == "1":
        raise error
    error = no_digits(error) or error
    if isinstance(error, FlyrunError):
        print_error(f"error: {error}")
        return REFUSED
    if isinstance(error, MemoryError):
        what = f"out of memory ({error})" if str(error) else "out of memory"
        print_error(f"error: {what}; use fewer columns or rows, or a machine with more; what is done is kept")
        return REFUSED
    if isinstance(error, OSError) and error.filename:  # a name too long, a folder closed to us
        print_error(f"error: {error.filename}: {error.strerror}; name another place")
        return REFUSED
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # Path.expanduser's
        print_error("error: a path begins with ~ and the name of nobody here; write the folder in full")
        return REFUSED
    print_error(f"error: unexpected {type(error).__name__}: {error}; FLYRUN_DEBUG=1 shows where it came from")
    return FAILED


def print_error(text: str) -> None:
    """Print one line on stderr, whatever the text holds, and an event where these are asked for."""
    line = "".join(letter for letter in " ".join(piped.shown(text).split()) if letter.isprintable())
    print(f"flyrun: {line}", file=sys.stderr, flush=True)
    error = line.removeprefix("error: ")
    json_log.tell("warning" if error == line else "error", text=error)
