"""A table of your own: the loader is load.py."""

from flyrun.data.table.load import fingerprint, load, store

__all__ = ["fingerprint", "load", "store"]
