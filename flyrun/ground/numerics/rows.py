"""A row times a vector, and a multiple of a row added to one: the innermost loops of linear predictors.

Compilers turn the plain loop over a row into vector instructions only as far as whole groups of vectors go,
and finish the rest number by number, which for 51 features takes longer than all before; and they convert
float32 numbers clumsily. So both are spelt out in vectors of eight doubles, the last one masked.
Machines without such vectors or masks are given the same in smaller pieces.
"""

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from flyrun.ground.numerics.compiled import inline_jit

_LANES = 8

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def _dot(rows, n, vector, count):
        total = 0.0
        for d in range(count):
            total += rows[n, d] * vector[d]
        return total

    def _four_dots(rows, i, j, k, m, vector, count):
        return tuple(_dot(rows, n, vector, count) for n in (i, j, k, m))

    def _add_row(rows, n, factor, out, count):
        for d in range(count):
            out[d] += factor * rows[n, d]

    def _add_four(rows, i, j, k, m, p, q, r, s, out, count):
        for n, factor in ((i, p), (j, q), (k, r), (m, s)):
            _add_row(rows, n, factor, out, count)

else:
    _BYTE, _INT32, _INT64, _DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
    _DOUBLES = ir.VectorType(_DOUBLE, _LANES)

    def _row(context, builder, kind, array, n):
        """Address of the first byte of a row, and the array's parts."""
        parts = context.make_array(kind)(context, builder, array)
        offset = builder.mul(n, cgutils.unpack_tuple(builder, parts.strides, 2)[0])
        return builder.gep(builder.bitcast(parts.data, _BYTE.as_pointer()), [offset]), parts

    def _splat(builder, value, kind):
        lane = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _INT32(0))
        return builder.shuffle_vector(
            lane, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(_INT32, _LANES), [0] * _LANES)
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

    def _sum_of_lanes(builder, vectors):
        """Sums of each of 1 or 4 vectors of eight, added up in the same order: as a scalar or a vector."""

        def paired(u, v, lanes):
            left, right = lanes
            return builder.fadd(_shuffled(builder, u, v, left), _shuffled(builder, u, v, right))

        if len(vectors) == 1:
            (v,) = vectors
            for swap in (1, 2, 4):
                v = builder.fadd(v, _shuffled(builder, v, v, [lane ^ swap for lane in range(_LANES)]))
            return builder.extract_element(v, _INT32(0))
        a, b, c, d = vectors
        halves = paired(paired(a, b, _PAIRS), paired(c, d, _PAIRS), _FOURS)
        return paired(halves, halves, ([0, 1, 2, 3], [4, 5, 6, 7]))

    def _shuffled(builder, u, v, lanes):
        return builder.shuffle_vector(u, v, ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes))

    # of two vectors a and b: a0 b0 a2 b2 … beside a1 b1 a3 b3 …; then the same with pairs of lanes
    _PAIRS = [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15]
    _FOURS = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]

    def _starts(context, builder, rows_type, rows, places):
        """The type of a number, and where each row begins."""
        element = context.get_value_type(rows_type.dtype)
        held = [_row(context, builder, rows_type, rows, n)[0] for n in places]
        return element, [builder.bitcast(start, element.as_pointer()) for start in held]

    def _eight(builder, pointer, place, kind):
        """Eight numbers from a place on, as they lie in memory."""
        start = builder.gep(pointer, [place])
        numbers = builder.load(builder.bitcast(start, ir.VectorType(kind, _LANES).as_pointer()))
        numbers.align = 8 if kind == _DOUBLE else 4
        return numbers

    def _multiply_add(builder, x, y, total):
        """x·y + total: one instruction wherever the machine has it. x may be in single precision."""
        if x.type != _DOUBLES:
            x = builder.fpext(x, _DOUBLES)
        kind = ir.FunctionType(_DOUBLES, [_DOUBLES] * 3)
        name = f"llvm.fmuladd.v{_LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y, total])

    def _whole_and_rest(builder, size):
        """How many numbers are in whole vectors, and the mask of those that are left."""
        whole = builder.and_(size, _INT64(-_LANES))
        counts = ir.VectorType(_INT64, _LANES)
        rest = _splat(builder, builder.sub(size, whole), counts)
        return whole, builder.icmp_unsigned("<", ir.Constant(counts, list(range(_LANES))), rest)

    def _products(context, builder, rows_type, rows, vector_type, vector, places, size):
        """For each row, eight partial sums of its product with the vector."""
        element, held = _starts(context, builder, rows_type, rows, places)
        other = context.make_array(vector_type)(context, builder, vector).data
        whole, mask = _whole_and_rest(builder, size)
        totals = [cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, [0.0] * _LANES)) for _ in held]

        def add(total, x, y):
            builder.store(_multiply_add(builder, x, y, builder.load(total)), total)

        with cgutils.for_range_slice(builder, _INT64(0), whole, _INT64(_LANES), _INT64) as (place, _):
            y = _eight(builder, other, place, _DOUBLE)
            for total, row in zip(totals, held, strict=True):
                add(total, _eight(builder, row, place, element), y)
        y = _masked(builder, builder.gep(other, [whole]), _DOUBLE, mask)
        for total, row in zip(totals, held, strict=True):
            add(total, _masked(builder, builder.gep(row, [whole]), element, mask), y)
        return [builder.load(total) for total in totals]

    def _combine(context, builder, rows_type, rows, places, factors, out_type, out, size):
        """out += Σ factor·row, eight numbers of out at a time."""
        element, held = _starts(context, builder, rows_type, rows, places)
        factors = [_splat(builder, factor, _DOUBLES) for factor in factors]
        target = context.make_array(out_type)(context, builder, out).data
        whole, mask = _whole_and_rest(builder, size)

        def added(total, vectors):
            for x, factor in zip(vectors, factors, strict=True):
                total = _multiply_add(builder, x, factor, total)
            return total

        with cgutils.for_range_slice(builder, _INT64(0), whole, _INT64(_LANES), _INT64) as (place, _):
            total = _eight(builder, target, place, _DOUBLE)
            total = added(total, [_eight(builder, row, place, element) for row in held])
            start = builder.gep(target, [place])
            builder.store(total, builder.bitcast(start, _DOUBLES.as_pointer()), align=8)
        start = builder.gep(target, [whole])
        total = _masked(builder, start, _DOUBLE, mask)
        total = added(total, [_masked(builder, builder.gep(row, [whole]), element, mask) for row in held])
        kind = ir.FunctionType(ir.VoidType(), [_DOUBLES, _DOUBLES.as_pointer(), _INT32, mask.type])
        store = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{_LANES}f64.p0")
        builder.call(store, [total, builder.bitcast(start, _DOUBLES.as_pointer()), _INT32(8), mask])
        return context.get_dummy_value()

    def _multipliable(rows, vector):
        return rows.dtype in (types.float64, types.float32) and vector.dtype == types.float64

    @intrinsic
    def _dot(typing_context, rows, n, vector, count):
        """Σ_{d < count} x_nd v_d in eight lanes; rows: (N, D) float64 or float32 with adjacent columns."""
        if not _multipliable(rows, vector):
            return None

        def generate(context, builder, signature, arguments):
            rows, n, vector, count = arguments
            kinds = signature.args
            partial = _products(context, builder, kinds[0], rows, kinds[2], vector, [n], count)
            return _sum_of_lanes(builder, partial)

        return types.float64(rows, types.int64, vector, types.int64), generate

    @intrinsic
    def _four_dots(typing_context, rows, i, j, k, m, vector, count):
        """`_dot` of four rows at once, bit for bit: the vector is loaded once, they are summed together."""
        if not _multipliable(rows, vector):
            return None

        def generate(context, builder, signature, arguments):
            rows, *places, vector, count = arguments
            kinds = signature.args
            partial = _products(context, builder, kinds[0], rows, kinds[5], vector, places, count)
            sums = _sum_of_lanes(builder, partial)
            each = [builder.extract_element(sums, _INT32(lane)) for lane in range(4)]
            return context.make_tuple(builder, signature.return_type, each)

        place = types.int64
        kind = types.UniTuple(types.float64, 4)
        return kind(rows, place, place, place, place, vector, types.int64), generate

    @intrinsic
    def _add_row(typing_context, rows, n, factor, out, count):
        """out += factor·x_n, its first `count` numbers; kinds as for `_dot`."""
        if not _multipliable(rows, out):
            return None

        def generate(context, builder, signature, arguments):
            rows, n, factor, out, count = arguments
            kinds = signature.args
            return _combine(context, builder, kinds[0], rows, [n], [factor], kinds[3], out, count)

        return types.none(rows, types.int64, types.float64, out, types.int64), generate

    @intrinsic
    def _add_four(typing_context, rows, i, j, k, m, p, q, r, s, out, count):
        """`_add_row` of four rows, in this order: `out` is read and written once for all of them."""
        if not _multipliable(rows, out):
            return None

        def generate(context, builder, signature, arguments):
            rows, *both, out, count = arguments
            kinds = signature.args
            return _combine(context, builder, kinds[0], rows, both[:4], both[4:], kinds[9], out, count)

        eight = (types.int64,) * 4 + (types.float64,) * 4
        return types.none(rows, *eight, out, types.int64), generate


@inline_jit
def row_dot(rows, n, vector):
    """x_nᵀv, 0 ≤ n. rows: (N, D) float64 or float32, C-contiguous; vector: (D,) float64."""
    return _dot(rows, n, vector, vector.shape[0])


@inline_jit
def first_dot(rows, n, vector, count):
    """The first `count` ≤ D terms of x_nᵀv; otherwise as `row_dot`."""
    return _dot(rows, n, vector, count)


@inline_jit
def four_dots(rows, i, j, k, m, vector):
    """`row_dot` of rows i, j, k and m, bit for bit; the vector is loaded once for all of them."""
    return _four_dots(rows, i, j, k, m, vector, vector.shape[0])


@inline_jit
def first_four_dots(rows, i, j, k, m, vector, count):
    """`first_dot` of four rows at once, bit for bit."""
    return _four_dots(rows, i, j, k, m, vector, count)


@inline_jit
def add_row(rows, n, factor, out):
    """out += factor·x_n; rows and out as for `row_dot`."""
    _add_row(rows, n, factor, out, out.shape[0])


@inline_jit
def add_four_rows(rows, i, j, k, m, p, q, r, s, out):
    """`add_row` of rows i, j, k and m with factors p, q, r and s, one after the other, bit for bit."""
    _add_four(rows, i, j, k, m, p, q, r, s, out, out.shape[0])
