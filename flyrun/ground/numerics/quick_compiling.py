"""Compiles sooner where speed matters less, as in tests: FLYRUN_COMPILE=quick.

numba optimises every compiled function, emits machine code for it and wraps it for Python, also where only
other compiled functions call it; half of compiling goes into that. Here such functions are merely linked into
what calls them, which is optimised at LLVM's first level, its loops vectorised, but not unrolled nor their
addresses reduced (LLVM's loop strength reduction): these two take a quarter of LLVM's time. The numbers are
the same. The loops come out otherwise, and a random walk's steps take about a tenth longer, so this is not
the default.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import compiler, config
from numba.core.codegen import JITCodeLibrary

QUICK = os.environ.get("FLYRUN_COMPILE") == "quick"

if QUICK:
    for option in ("-unroll-runtime=false", "-unroll-max-count=1", "-disable-lsr"):
        binding.set_option("flyrun", option)
    config.OPT = type(config.OPT)(1)  # type: ignore[attr-defined]
    config.SLP_VECTORIZE = 0  # type: ignore[attr-defined]


class _Linked(JITCodeLibrary):
    """Code that becomes machine code only as part of the libraries that it is linked into."""

    def _optimize_final_module(self) -> None:
        """Leave it to what it is linked into."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _no_machine_code(library: Any, description: Any, environment: Any) -> Any:
    """What stands in numba's tables for the function that Python would call, and never does (`linked`)."""
    library._ensure_finalized()
    return _dynfunc.make_function(
        description.lookup_module(), description.qualname, "", 0, environment, (library,)
    )


class _LinkedCompiler(compiler.Compiler):
    """numba's compiler, for functions that only compiled functions call."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.state.flags.no_cpython_wrapper = True
        self.state.targetctx.get_executable = _no_machine_code

    def _compile_core(self) -> Any:
        self.state.library = _Linked(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super()._compile_core()  # type: ignore[no-untyped-call]


CALLED_BY_COMPILED: dict[str, Any] = {"pipeline_class": _LinkedCompiler} if QUICK else {}
"""Options of numba's for functions that only compiled functions call."""


def linked(function: Callable, options: dict[str, Any], by_itself: Callable) -> Callable:
    """Compile `function` as part of compiled callers; Python calls `by_itself`, the same compiled."""
    compiled: Any = numba.njit(**options, **CALLED_BY_COMPILED)(function)
    compiled._insert = lambda *_: None  # so a call finds nothing compiled, and asks for it:
    compiled._compile_for_args = lambda *args, **named: by_itself
    return compiled
