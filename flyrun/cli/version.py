"""What `flyrun --version` prints: all that a report of a fault needs to say of where it happened."""

import numpy  # noqa: F401  (loads its BLAS, which is looked up)

from flyrun.ground import environment

_LINES = ("flyrun", "commit", "python", "numpy", "numba", "blas", "cpu", "cores", "platform")


def text() -> str:
    """A line each: version, commit, Python, numpy, numba, BLAS, processor, cores, system."""
    known = environment.describe() | environment.blas()
    return "\n".join(f"{key} {known[key] or 'unknown'}" for key in _LINES)
