"""exp, log and their companions in arithmetic that compilers turn into vector instructions.

A call of the C library for every datum would cost more than the dot product that precedes it. These functions
have no branches and no calls, so a loop over them is vectorised. Within their ranges they are as good as the
library's (a few units in the last place; tests/numerics/test_vector_math.py measures it).

Method: argument reduction by powers of two, then a polynomial (Taylor or atanh series on a small interval);
the power of two is put in and taken out of a double's exponent bits; adding 1.5·2⁵² rounds to an integer.
"""

import struct

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

_TWO_PI = 6.283185307179586
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 cut to 33 bits: n·_LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5·2⁵²: adding and subtracting it rounds to the nearest integer
_ROUND_BITS = 0x4338000000000000  # its bits
_LOWEST = -708.0  # e^−708 ≈ 3e−308, the last normal double
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_ONE_BITS = 0x3FF0000000000000
_ONE_WORD, _UNUSED = np.uint64(_ONE_BITS), np.uint64(12)


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def _to_bits(number):
        return struct.unpack("<q", struct.pack("<d", number))[0]

    def _from_bits(bits):
        return struct.unpack("<d", struct.pack("<Q", bits & (2**64 - 1)))[0]  # wraps, as int64 does

else:

    @intrinsic
    def _to_bits(context, number):
        """The int64 with the same bits as a float64."""

        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(types.int64))

        return types.int64(types.float64), generate

    @intrinsic
    def _from_bits(context, bits):
        """The float64 with the same bits as an int64."""

        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(types.float64))

        return types.float64(types.int64), generate


def _inline(function):
    # contract: multiply and add in one rounding, which only gains accuracy
    return numba.njit(forceinline=True, error_model="numpy", fastmath={"contract"})(function)


@_inline
def unit_interval(word):
    """A multiple of 2⁻⁵² in (0, 1] from the upper bits of 64 random ones, uint64."""
    return 2.0 - _from_bits((word >> _UNUSED) | _ONE_WORD)


@_inline
def _expm1_reduced(r):
    """e^r − 1 for |r| ≤ ln2/2, Taylor to r¹³ (next term below 2⁻⁵³ of the result)."""
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    return p * r * r + r


@_inline
def _power_and_rest(x):
    """2ⁿ and e^r − 1 of e^x = 2ⁿ·e^r, |r| ≤ ln2/2."""
    shifted = x * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    return _from_bits(((_to_bits(shifted) - _ROUND_BITS) << 52) + _ONE_BITS), _expm1_reduced(r)


@_inline
def exp_negative(x):
    """e^x for x ≤ 0; 3e−308 for x below −708."""
    power, rest = _power_and_rest(max(x, _LOWEST))
    return power + power * rest


@_inline
def exp_bounded(x):
    """e^x; 3e307 above 708, 3e−308 below −708."""
    small = exp_negative(-abs(x))
    return 1.0 / small if x > 0.0 else small


@_inline
def one_minus_exp_negative(x):
    """1 − e^x for x ≤ 0, with full relative accuracy near 0."""
    power, rest = _power_and_rest(max(x, -60.0))
    return (1.0 - power) - power * rest


@_inline
def _log_ratio(f):
    """log((1+f)/(1−f)) = 2 atanh f for |f| ≤ 0.1716, series to f²¹."""
    s = f * f
    p = 1.0 / 21.0
    p = p * s + 1.0 / 19.0
    p = p * s + 1.0 / 17.0
    p = p * s + 1.0 / 15.0
    p = p * s + 1.0 / 13.0
    p = p * s + 1.0 / 11.0
    p = p * s + 1.0 / 9.0
    p = p * s + 1.0 / 7.0
    p = p * s + 1.0 / 5.0
    p = p * s + 1.0 / 3.0
    return 2.0 * f + 2.0 * f * s * p


@_inline
def log_positive(y):
    """log y for normal y > 0."""
    bits = _to_bits(y)
    # the power of two that brings y into [√½, √2)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    m = _from_bits(bits - (exponent << 52))
    n = _from_bits(exponent + _ROUND_BITS) - _ROUND
    return n * _LN2_HIGH + (n * _LN2_LOW + _log_ratio((m - 1.0) / (m + 1.0)))


@_inline
def log1p_unit(e):
    """log(1 + e) for 0 ≤ e ≤ 1, with full relative accuracy near 0."""
    large = e > 0.41421356237309503
    f = (e - 1.0) / (e + 3.0) if large else e / (e + 2.0)
    return (0.6931471805599453 if large else 0.0) + _log_ratio(f)


@_inline
def _sin_reduced(x):
    """sin x for |x| ≤ π/4, Taylor to x¹⁵."""
    s = x * x
    p = -7.647163731819816e-13
    p = p * s + 1.6059043836821613e-10
    p = p * s - 2.505210838544172e-08
    p = p * s + 2.7557319223985893e-06
    p = p * s - 0.0001984126984126984
    p = p * s + 0.008333333333333333
    p = p * s - 0.16666666666666666
    return p * s * x + x


@_inline
def _cos_reduced(x):
    """cos x for |x| ≤ π/4, Taylor to x¹⁶."""
    s = x * x
    p = 4.779477332387385e-14
    p = p * s - 1.1470745597729725e-11
    p = p * s + 2.08767569878681e-09
    p = p * s - 2.755731922398589e-07
    p = p * s + 2.48015873015873e-05
    p = p * s - 0.001388888888888889
    p = p * s + 0.041666666666666664
    p = p * s - 0.5
    return p * s + 1.0


@_inline
def cos_sin_of_turn(f):
    """cos 2πf and sin 2πf for f ∈ [0, 1]."""
    shifted = f * 4.0 + _ROUND  # the nearest quarter turn
    quarter = _to_bits(shifted)
    x = _TWO_PI * (f - (shifted - _ROUND) * 0.25)  # the difference is exact
    c, s = _cos_reduced(x), _sin_reduced(x)
    odd = (quarter & 1) == 1
    cosine, sine = s if odd else c, c if odd else s
    return cosine * (1 - ((quarter + 1) & 2)), sine * (1 - (quarter & 2))
