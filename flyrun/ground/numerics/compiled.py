"""Generic functions that numba specialises: one name, one implementation per NamedTuple type.

Models, bounds, targets and updates are NamedTuples of arrays and numbers. What they do is a *generic
function*: declared once with `@generic`, given one body per NamedTuple type with `@implements`. Inside
compiled code the body is chosen while compiling, from the type of the first argument, and costs nothing at
run time. With NUMBA_DISABLE_JIT=1 the same call is chosen by a dictionary and runs as plain Python, for
debugging and coverage.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numba
from numba.core import types
from numba.extending import overload, register_jitable

from flyrun.ground.numerics.compile_cache import IMPLEMENTATIONS, CompileCache
from flyrun.ground.numerics.quick_compiling import CALLED_BY_COMPILED, QUICK, linked


class MissingMethodError(TypeError):
    """A generic function was called for a type that has no implementation of it."""


# Compiled code makes no arrays and counts no references (_nrt): numba would count every array of a NamedTuple
# in and out wherever one is handed on, with an atomic operation each, a microsecond an iteration. So a kernel
# that allocates does not compile. Generic functions are compiled as what calls them.
_KERNEL: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


_INLINE: dict[str, Any] = _KERNEL | {"forceinline": True}

INLINE_KERNEL: Any = _INLINE | CALLED_BY_COMPILED
"""Options for numba's `overload` of what a kernel's inner loops call."""


def _kept(function: Callable, options: dict[str, Any]) -> Callable:
    """Compile `function` at its first call, or find it on disk."""
    compiled = numba.njit(**options)(function)
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        compiled._cache = CompileCache(function)  # type: ignore[attr-defined]
    return compiled


def jit(function: Callable) -> Callable:
    """Compile `function`, keep the result on disk, let other threads run meanwhile. It may make no arrays."""
    return _kept(function, _KERNEL)


def outer_jit(function: Callable) -> Callable:
    """As `jit`, for what Python calls with a random generator, which is counted, or what makes arrays."""
    return _kept(function, _KERNEL | {"_nrt": True})


def inline_jit(function: Callable) -> Callable:
    """As `jit`, but always put into its callers: for helpers of inner loops that take a target.

    A target is dozens of arrays; handing it to a function that is called takes longer than a dot product.
    """
    kept = _kept(function, _INLINE)
    return linked(function, _INLINE, kept) if QUICK else kept


def plain_jit(function: Callable) -> Callable:
    """As `inline_jit`, but plain Python where Python calls it: tests do, with random numbers of their own."""
    return register_jitable(**INLINE_KERNEL)(function)


def dot_jit(function: Callable) -> Callable:
    """Compile a sum of products that may be added up in any order (vector registers, fused multiply-add).

    Only for sums of finite terms: no other licence of fastmath is given, NaN and infinity keep their meaning.
    """
    return _kept(function, _KERNEL | {"fastmath": {"reassoc", "contract"}})


def inlined(declaration: Callable) -> Callable:
    """`generic` whose implementations become part of their callers' machine code.

    For calls that take nanoseconds: handing on a NamedTuple of dozens of arrays takes longer. So does
    compiling.
    """
    return generic(declaration, {"forceinline": True})


def generic(declaration: Callable, options: dict[str, bool] | None = None) -> Callable:
    """Declare a generic function; the body of `declaration` is only its docstring.

    Returns a callable with the same signature. Implementations are added by `@implements(function, Type)` and
    are chosen by the type of the first argument. options: further ones of numba.njit for all of them.

    Raises MissingMethodError when called (or compiled) for a type without one.
    """
    name = declaration.__name__
    parameters = ", ".join(inspect.signature(declaration).parameters)
    first = parameters.split(",", 1)[0]
    methods: dict[type, Callable] = {}

    def of_type(owner: type) -> Callable:
        method = methods.get(owner, methods.get(object))
        if method is None:
            known = ", ".join(sorted(t.__name__ for t in methods)) or "nothing"
            raise MissingMethodError(f"{name} is not defined for {owner.__name__} (only for {known})")
        return method

    def select(kind: types.Type) -> Callable | None:
        if not isinstance(kind, types.BaseNamedTuple):
            return None
        return of_type(kind.instance_class)  # type: ignore[attr-defined]

    # numba compares the signatures of an overload and of what it returns, so both are made with the names of
    # the declaration.
    scope: dict[str, Any] = {"_of_type": of_type, "_select": select}
    exec(
        f"def {name}({parameters}):\n    return _of_type(type({first}))({parameters})\n"
        f"def _typer({parameters}):\n    return _select({first})\n",
        scope,
    )
    function = scope[name]
    function.__doc__ = declaration.__doc__
    function.__module__ = declaration.__module__
    function.methods = methods
    settings: Any = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    overload(function, jit_options=settings | CALLED_BY_COMPILED | (options or {}))(scope["_typer"])
    return function


def implements(function: Any, owner: type) -> Callable[[Callable], Callable]:
    """Register the decorated body as `function`'s implementation for the NamedTuple type `owner`.

    owner=object: for all types that have none of their own.
    """
    wanted = list(inspect.signature(function).parameters)

    def register(body: Callable) -> Callable:
        given = list(inspect.signature(body).parameters)
        if given != wanted:
            raise TypeError(
                f"{body.__name__}{tuple(given)} must take {tuple(wanted)}, as {function.__name__} does"
            )
        if owner in function.methods:
            raise TypeError(f"{function.__name__} is already defined for {owner.__name__}")
        function.methods[owner] = body
        IMPLEMENTATIONS.setdefault(owner, set()).add((function.__module__, body.__module__))
        return body

    return register


@jit
def copy_into(out, values):
    """out[:] = values, for arrays of one dimension that share no memory.

    numba's own assignment asks whether they do and would then make a copy.
    """
    for i in range(out.shape[0]):
        out[i] = values[i]
