"""Compiled code on disk, one file for each specialisation, named by a digest of all that it is made of.

A specialisation is made of the function's module, of the modules that hold the NamedTuple types that it is
compiled for, of all that these import, and of the types' implementations of generic functions that are among
these. An edit elsewhere leaves it as it is. numba's own cache knows the function's file alone, and a damaged
index stops the program.

The cache only saves time: what is missing, damaged or cannot be written is compiled again.
"""

import functools
import hashlib
import os
import pickle
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from flyrun.ground import files
from flyrun.ground.numerics import code_digest
from flyrun.ground.numerics.quick_compiling import QUICK
from flyrun.ground.paths import cache_dir

IMPLEMENTATIONS: dict[type, set[tuple[str, str]]] = {}
"""NamedTuple type -> (module of a generic function, module that implements it for the type)."""

UNUSED_S = 60 * 86_400
"""Code that no process has loaded for so long is removed."""


@functools.cache
def folder() -> Path:
    """Where compiled code is kept."""
    how = "-quick" if QUICK else ""
    return cache_dir("compiled") / f"numba-{numba.__version__}-{sys.implementation.cache_tag}{how}"


class CompileCache(FunctionCache):
    """numba's cache of one function, stored under digests of sources."""

    def __init__(self, function: Any):
        self._name, self._py_func = repr(function), function
        self._impl = CompileResultCacheImpl.__new__(
            CompileResultCacheImpl
        )  # what asks for no folder of numba's
        # what numba's warning names where a function cannot be kept
        self._impl._lineno = function.__code__.co_firstlineno
        self._impl._locator = SimpleNamespace(_py_file=function.__code__.co_filename)
        self.enable()

    @property
    def cache_path(self) -> str:
        """Where it is kept."""
        return str(folder())

    def flush(self) -> None:
        """Nothing: what is outdated is not found."""

    def load_overload(self, sig: tuple[types.Type, ...], target_context: Any) -> Any:
        """The compiled function of a signature, or None."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        path = self._path(key)
        try:
            content = path.read_bytes()
            if hashlib.sha256(content[32:]).digest() != content[:32]:
                return None
            stored, code = pickle.loads(content[32:])  # a folder that only this user can write
            if stored != key:
                return None
            os.utime(path)  # it is used
        except Exception:  # whatever is wrong with it: a class that has moved, a disk that fails
            return None
        return self._impl.rebuild(target_context, code)

    def save_overload(self, sig: tuple[types.Type, ...], data: Any) -> None:
        """Keep a compiled function, if there is room."""
        if not self._impl.check_cachable(data):
            return
        key = self._index_key(sig, data.codegen)
        content = dumps((key, self._impl.reduce(data)))
        try:
            folder().mkdir(parents=True, exist_ok=True)
            files.write_bytes(self._path(key), hashlib.sha256(content).digest() + content)
        except OSError as error:
            _say_once(error.strerror or str(error))
        else:
            _remove_unused()

    def _path(self, key: tuple[Any, Any, Any]) -> Path:
        sig, machine, code = key
        made_of = {("", self._py_func.__module__)}.union(*map(_modules, sig))
        text = f"{self._py_func.__qualname__} {sig} {machine} {code} {_digest(frozenset(made_of))}"
        return folder() / f"{self._py_func.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _modules(kind: types.Type) -> set[tuple[str, str]]:
    """Modules that decide what is compiled for a type: ("", of a part) and (of what calls it, of a body)."""
    modules: set[tuple[str, str]] = set()
    if isinstance(kind, types.BaseNamedTuple):
        owner = kind.instance_class  # type: ignore[attr-defined]
        modules = {("", owner.__module__)} | IMPLEMENTATIONS.get(owner, set())
    elif isinstance(kind, types.Dispatcher):
        modules = {("", kind.dispatcher.py_func.__module__)}
    elif isinstance(kind, types.Optional):
        return _modules(kind.type)
    return modules.union(*map(_modules, getattr(kind, "types", ())))  # of tuples, named or not


@functools.cache
def _digest(modules: frozenset[tuple[str, str]]) -> str:
    always = [name for caller, name in modules if not caller]
    return code_digest.of_modules(always, (pair for pair in modules if pair[0]))


@functools.cache
def _say_once(reason: str) -> None:
    print(
        f"flyrun: note: {folder()}: compiled code cannot be kept ({reason}), so each process compiles anew; "
        "make room there, or choose another folder: export FLYRUN_CACHE=FOLDER",
        file=sys.stderr,
    )


@functools.cache
def _remove_unused() -> None:
    """Remove what has not been used for long, once a process."""
    oldest = time.time() - UNUSED_S
    for path in folder().iterdir():
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue  # another process was first
