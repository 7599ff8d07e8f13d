"""Ask memory for a number before it is needed: several requests are then under way at once.

Compiled, this is the processor's prefetch instruction, which changes nothing but the time; in plain Python it
does nothing.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload


def prefetch(array: Any, place: Any) -> None:
    """Begin to fetch array[place], of one dimension; `place` must lie inside."""


@intrinsic
def _prefetch(typing_context, array, place):
    def generate(context, builder, signature, args):
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, args[0])
        address = cgutils.get_item_pointer(context, builder, kind, held, [args[1]], wraparound=False)
        byte, word = builder.bitcast(address, cgutils.voidptr_t), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [byte.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], wanted)
        builder.call(function, [byte, word(0), word(3), word(1)])  # to read, to keep near, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@overload(prefetch)
def _typed(array, place):
    def compiled(array, place):
        _prefetch(array, place)  # type: ignore[call-arg]

    return compiled
