"""Errors that a person can cause and mend: one line on stderr, exit code 2, no traceback."""


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
