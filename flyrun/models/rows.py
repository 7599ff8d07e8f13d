"""A row times a vector: the innermost loop of linear predictors.

Compilers turn the plain loop over a row into vector instructions only as far as whole groups of vectors go,
and finish the rest number by number, which for 51 features takes longer than all before; and they convert
float32 numbers clumsily. So the product is spelt out in vectors of eight doubles, the last one masked.
Machines without such vectors or masks are given the same sums in smaller pieces.
"""

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from flyrun.compiled import inline_jit

_LANES = 8

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def _dot(rows, n, vector, count):
        total = 0.0
        for d in range(count):
            total += rows[n, d] * vector[d]
        return total

else:
    _BYTE, _INT32, _INT64, _DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
    _DOUBLES = ir.VectorType(_DOUBLE, _LANES)

    def _row(context, builder, kind, array, n):
        """Address of the first byte of a row."""
        parts = context.make_array(kind)(context, builder, array)
        offset = builder.mul(n, cgutils.unpack_tuple(builder, parts.strides, 2)[0])
        return builder.gep(builder.bitcast(parts.data, _BYTE.as_pointer()), [offset])

    def _splat(builder, value, kind):
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _INT32(0))
        return builder.shuffle_vector(
            one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(_INT32, _LANES), [0] * _LANES)
        )

    def _masked(builder, pointer, number, mask):
        """Eight numbers, 0 where the mask is: those are not read."""
        vector = ir.VectorType(number, _LANES)
        name = f"llvm.masked.load.v{_LANES}{'f64' if number == _DOUBLE else 'f32'}.p0"
        masks = ir.VectorType(ir.IntType(1), _LANES)
        kind = ir.FunctionType(vector, [vector.as_pointer(), _INT32, masks, vector])
        load = cgutils.get_or_insert_function(builder.module, kind, name)
        size = 8 if number == _DOUBLE else 4
        address = builder.bitcast(pointer, vector.as_pointer())
        return builder.call(load, [address, _INT32(size), mask, ir.Constant(vector, [0.0] * _LANES)])

    @intrinsic
    def _dot(typing_context, rows, n, vector, count):
        """Σ_{d < count} x_nd v_d in eight lanes; rows: (N, D) float64 or float32 with adjacent columns."""
        number = rows.dtype
        if number not in (types.float64, types.float32) or vector.dtype != types.float64:
            return None

        def generate(context, builder, signature, arguments):
            element = context.get_value_type(number)
            address = _row(context, builder, signature.args[0], arguments[0], arguments[1])
            row = builder.bitcast(address, element.as_pointer())
            other = context.make_array(signature.args[2])(context, builder, arguments[2])
            size = arguments[3]
            whole = builder.and_(size, _INT64(-_LANES))
            total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, [0.0] * _LANES))

            def add(x, y):
                if element != _DOUBLE:
                    x = builder.fpext(x, _DOUBLES)
                product = builder.fmul(x, y, flags=("contract",))
                builder.store(builder.fadd(product, builder.load(total), flags=("contract",)), total)

            def load(pointer, kind, place):
                start = builder.gep(pointer, [place])
                number = builder.load(builder.bitcast(start, ir.VectorType(kind, _LANES).as_pointer()))
                number.align = 8 if kind == _DOUBLE else 4
                return number

            with cgutils.for_range_slice(builder, _INT64(0), whole, _INT64(_LANES), _INT64) as (place, _):
                add(load(row, element, place), load(other.data, _DOUBLE, place))
            counts = ir.VectorType(_INT64, _LANES)
            rest = _splat(builder, builder.sub(size, whole), counts)
            mask = builder.icmp_unsigned("<", ir.Constant(counts, list(range(_LANES))), rest)
            tails = [(row, element), (other.data, _DOUBLE)]
            add(*(_masked(builder, builder.gep(at, [whole]), kind, mask) for at, kind in tails))
            kind = ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLES])
            name = f"llvm.vector.reduce.fadd.v{_LANES}f64"
            reduce = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(reduce, [_DOUBLE(-0.0), builder.load(total)], fastmath=("reassoc",))

        return types.float64(rows, n, vector, types.int64), generate


@inline_jit
def row_dot(rows, n, vector):
    """x_nᵀv, 0 ≤ n. rows: (N, D) float64 or float32, C-contiguous; vector: (D,) float64."""
    return _dot(rows, n, vector, vector.shape[0])


@inline_jit
def first_dot(rows, n, vector, count):
    """The first `count` ≤ D terms of x_nᵀv; otherwise as `row_dot`."""
    return _dot(rows, n, vector, count)
