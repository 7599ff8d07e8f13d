"""Ask memory for numbers before they are needed: several requests are then under way at once.

Compiled, this is the processor's prefetch instruction, which changes nothing but the time; in plain Python it
does nothing.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

_LINE = 64
"""Bytes that memory hands over at once."""


def prefetch(array: np.ndarray, place: int) -> None:
    """Begin to fetch array[place], of one dimension; `place` must lie inside."""


def prefetch_row(rows: np.ndarray, n: int) -> None:
    """Begin to fetch row n, 0 ≤ n. rows: (N, D), C-contiguous."""


def _fetch(builder, address):
    byte, word = builder.bitcast(address, cgutils.voidptr_t), ir.IntType(32)
    wanted = ir.FunctionType(ir.VoidType(), [byte.type, word, word, word])
    function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], wanted)
    # to read, into the second nearest cache (the nearest is too small for many rows), as data
    builder.call(function, [byte, word(0), word(2), word(1)])


@intrinsic
def _prefetch(typing_context, array, place):
    def generate(context, builder, signature, args):
        kind = signature.args[0]
        parts = context.make_array(kind)(context, builder, args[0])
        _fetch(builder, cgutils.get_item_pointer(context, builder, kind, parts, [args[1]], wraparound=False))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def _prefetch_row(typing_context, rows, n):
    def generate(context, builder, signature, args):
        kind, word = signature.args[0], ir.IntType(64)
        parts = context.make_array(kind)(context, builder, args[0])
        first = cgutils.get_item_pointer(context, builder, kind, parts, [args[1], word(0)], wraparound=False)
        start = builder.bitcast(first, cgutils.voidptr_t)
        columns = cgutils.unpack_tuple(builder, parts.shape, 2)[1]
        last = builder.sub(builder.mul(columns, parts.itemsize), word(1))
        with cgutils.for_range_slice(builder, word(0), last, word(_LINE), word) as (offset, _):
            _fetch(builder, builder.gep(start, [offset]))
        _fetch(builder, builder.gep(start, [last]))
        return context.get_dummy_value()

    return types.void(rows, types.int64), generate


@overload(prefetch)
def _typed(array, place):
    return lambda array, place: _prefetch(array, place)  # type: ignore[call-arg]


@overload(prefetch_row, jit_options={"forceinline": True})
def _typed_row(rows, n):
    return lambda rows, n: _prefetch_row(rows, n)  # type: ignore[call-arg]
