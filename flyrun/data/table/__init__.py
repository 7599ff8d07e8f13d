"""A table of your own: the loader is loader.py."""

from flyrun.data.table.loader import fingerprint, load, store

__all__ = ["fingerprint", "load", "store"]
