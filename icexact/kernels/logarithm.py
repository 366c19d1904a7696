"""Our own logarithm and divergence: pure IEEE operations with a stated error, without a branch, so that loops over them vectorise.

`log(x)` splits x = 2^k m with m in [sqrt(1/2), sqrt(2)) on the bits, and sums ln m = 2 artanh(s), s = (m-1)/(m+1), as fdlibm
does: f - (f^2/2 - s (f^2/2 + R)) with f = m - 1, which is exact by Sterbenz. Stated error: 2 ulp (`bounds.LOG`); the tests measure
it against balls of 40 digits. Domain: normal doubles; 0 gives a finite number, so that 0 log 0 = 0 without a branch.

`divergence(p, q)` is F(p, q) = p ln(p/q) - p + q >= 0, the term of Kullback-Leibler in Bregman form (exactness.md section 1.3): its
relative error stays within `bounds.DIVERGENCE` units however close p and q are.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from icexact.kernels.jit import kernel

_LN2_HIGH = 6.93147180369123816490e-01  # 33 bits, so k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_LN2 = 0.6931471805599453
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
_MANTISSA = 0x000FFFFFFFFFFFFF
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: an integer in the low bits of a double
_MAGIC_BITS = 0x4338000000000000
_L1, _L2, _L3, _L4, _L5, _L6, _L7 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01


@intrinsic
def bits_of(typing_context, x):
    """The bits of a float64 as int64."""

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


@intrinsic
def from_bits(typing_context, x):
    """The float64 with these bits."""

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


if numba.config.DISABLE_JIT:  # the same by plain Python, for a debugger

    def bits_of(x):
        return int(np.float64(x).view(np.int64))

    def from_bits(x):
        return np.int64(x).view(np.float64)


@kernel
def log(x):
    bits = bits_of(x)
    k = (bits - _SQRT_HALF_BITS) >> 52
    f = from_bits(bits - (k << 52)) - 1.0
    e = from_bits(k + _MAGIC_BITS) - _MAGIC
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    r = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half = 0.5 * f * f
    return e * _LN2_HIGH - ((half - (s * (half + r) + e * _LN2_LOW)) - f)


def log_code(builder, x):
    """The same as LLVM code for a vector of doubles: a compiler left to itself keeps to half the width of the registers."""
    n, flags = x.type.count, ("contract",)
    whole = ir.VectorType(ir.IntType(64), n)

    def real(value):
        return ir.Constant(x.type, [value] * n)

    def integer(value):
        return ir.Constant(whole, [value] * n)

    def add(a, b):
        return builder.fadd(a, b, flags=flags)

    def subtract(a, b):
        return builder.fsub(a, b, flags=flags)

    def times(a, b):
        return builder.fmul(a, b, flags=flags)

    bits = builder.bitcast(x, whole)
    k = builder.ashr(builder.sub(bits, integer(_SQRT_HALF_BITS)), integer(52))
    f = subtract(builder.bitcast(builder.sub(bits, builder.shl(k, integer(52))), x.type), real(1.0))
    e = subtract(builder.bitcast(builder.add(k, integer(_MAGIC_BITS)), x.type), real(_MAGIC))
    s = builder.fdiv(f, add(real(2.0), f))
    z = times(s, s)
    w = times(z, z)
    odd = times(z, add(real(_L1), times(w, add(real(_L3), times(w, add(real(_L5), times(w, real(_L7))))))))
    r = add(odd, times(w, add(real(_L2), times(w, add(real(_L4), times(w, real(_L6)))))))
    half = times(times(real(0.5), f), f)
    return subtract(times(e, real(_LN2_HIGH)), subtract(subtract(half, add(times(s, add(half, r)), times(e, real(_LN2_LOW)))), f))


@kernel
def log1p(x):
    """log(1 + x) for -1/2 <= x <= 1, to a few units however small x is (Kahan's correction)."""
    u = 1.0 + x
    d = u - 1.0
    return x if d == 0.0 else log(u) * (x / d)


@kernel
def divergence(p, q):
    """F(p, q) = p ln(p/q) - p + q for normal p, q > 0, and q where p = 0."""
    shift = bits_of(p) - bits_of(q)
    # the power of two that brings q next to p, rounded on the bits: a wrong half only moves s a little
    k = (shift + (1 << 51)) >> 52
    m = from_bits(bits_of(q) + (k << 52))
    e = from_bits(k + _MAGIC_BITS) - _MAGIC
    s = (p - m) / (p + m)
    z = s * s
    # 2 artanh(s) - 2 s
    t = s * z * (2 / 3 + z * (2 / 5 + z * (2 / 7 + z * (2 / 9 + z * (2 / 11 + z * (2 / 13 + z * (2 / 15 + z * (2 / 17 + z * (2 / 19 + z * (2 / 21 + z * (2 / 23)))))))))))
    near = s * (p - q) + p * t
    far = p * (e * _LN2 + (2.0 * s + t)) - (p - q)
    value = near if k == 0 else far
    return value if p > 0.0 else q
