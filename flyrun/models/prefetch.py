"""Ask memory for numbers before they are needed: several requests are then under way at once.

Compiled, this is the processor's prefetch instruction, which changes nothing but the time; in plain Python it
does nothing.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from flyrun.compiled import inline_jit

_LINE = 64
"""Bytes that memory hands over at once."""


def prefetch(array: Any, place: Any) -> None:
    """Begin to fetch array[place]; `place`, a number or a tuple of them, must lie inside."""


@intrinsic
def _prefetch(typing_context, array, place):
    def generate(context, builder, signature, args):
        kind, (held, place) = signature.args[0], args
        places = [place] if kind.ndim == 1 else cgutils.unpack_tuple(builder, place, kind.ndim)
        parts = context.make_array(kind)(context, builder, held)
        address = cgutils.get_item_pointer(context, builder, kind, parts, places, wraparound=False)
        byte, word = builder.bitcast(address, cgutils.voidptr_t), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [byte.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], wanted)
        # to read, into the second nearest cache (the nearest is too small for many rows), as data
        builder.call(function, [byte, word(0), word(2), word(1)])
        return context.get_dummy_value()

    whole = types.int64 if array.ndim == 1 else types.UniTuple(types.int64, array.ndim)
    return types.void(array, whole), generate


@overload(prefetch)
def _typed(array, place):
    def compiled(array, place):
        _prefetch(array, place)  # type: ignore[call-arg]

    return compiled


@inline_jit
def prefetch_row(rows, n):
    """Begin to fetch row n, 0 ≤ n. rows: (N, D), C-contiguous."""
    last = rows.shape[1] - 1
    for d in range(0, last, _LINE // rows.itemsize):
        prefetch(rows, (n, d))
    prefetch(rows, (n, last))
