"""Errors that a person can cause and mend: one line on stderr, exit code 2, no traceback."""

import contextlib
import errno
import os
from collections.abc import Iterator

#: what mends a file system's refusal, by its number
_MENDS = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room in your quota there",
    errno.EFBIG: "allow larger files by ulimit -f",
    errno.EROFS: "mount its file system for writing",
    errno.EACCES: "get the right to write there",
    errno.EPERM: "get the right to write there",
    errno.ENAMETOOLONG: "shorten the name",
    errno.ENOTDIR: "move the file that is in its way",
    errno.EEXIST: "move the file that is in its way",
    errno.EISDIR: "move the folder that is in its way",
    errno.ELOOP: "mend the links that lead to themselves",
    errno.EMFILE: "allow more open files by ulimit -n",
    errno.ENFILE: "close what holds so many files open",
    errno.EIO: "see to its disk",
    errno.ESTALE: "mount its file system again",
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP), "mount its file system with locks"),
}


def refusal(place: object, error: OSError, elsewhere: str = "name another place") -> str:
    """A file system's refusal to write in one line: the place, the reason, what mends it, or elsewhere."""
    number = error.errno or 0
    # HDF5 has sentences of its own around the system's number
    reason = os.strerror(number) if number else error.strerror or error
    mend = f"{_MENDS[number]}, or " if number in _MENDS else ""
    return f"{place}: cannot be written ({reason}); {mend}{elsewhere}"


class FlyrunError(Exception):
    """Base of every error shown as one line.

    The message says what is wrong, where (key, file or row) and what to do about it.
    """


class ConfigError(FlyrunError):
    """A key, a value or a choice in the configuration is wrong."""


class DataError(FlyrunError):
    """A data file is missing, altered, truncated, or holds values no model accepts."""


class StoreError(FlyrunError):
    """A results folder or file cannot be written or read."""


class DensityError(FlyrunError):
    """A log density turned into NaN while sampling, or contradicts itself."""


def no_digits(error: Exception, standardised: bool = True) -> DensityError | None:
    """What to say where a matrix of a posterior cannot be factored; None for another error.

    standardised: whether its columns are, or are no table's.
    """
    if isinstance(error, FlyrunError):  # which has said it
        return None
    unfactored = type(error).__name__ == "LinAlgError"  # NumPy's, which is not loaded for this
    if not unfactored and "must not contain infs or NaNs" not in str(error):  # SciPy's
        return None
    mend = "leave out a column that follows from others, or choose a prior of smaller scale"
    if not standardised:
        mend = "leave dataset.standardize=false out"
    return DensityError(
        f"the posterior's curvature has no digits left ({str(error).rstrip('.')}): columns lie too far from "
        f"0 for their spread, or nearly follow from each other; {mend}"
    )


@contextlib.contextmanager
def factoring(standardised: bool = True) -> Iterator[None]:
    """Turn a matrix that cannot be factored into a DensityError of one line, as `no_digits` has it."""
    try:
        yield
    except ValueError as error:  # LinAlgError is one
        if fault := no_digits(error, standardised):
            raise fault from error
        raise
