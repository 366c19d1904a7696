"""Sums over one row of a law: entropy and divergence. Rows are pieces of flat arrays; unsigned indices keep the loops free of wrap-around tests.

A row is summed 1024 atoms at a time: entropies in 32 lanes that come together at the end, divergences in blocks of 32 atoms, each in any order (so that they
vectorise), one after the other; and those pieces in turn. So no tree is deeper than
64 + n / 1024 (`bounds.row_depth`). Lengths are multiples of 16, with zeros behind the law. Atoms below 2^-1000 count as 0; `bounds.dust` says what that can hide.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from icexact.kernels.jit import inlined, inlined_sum, kernel
from icexact.kernels.logarithm import divergence, log, log1p, log_code

TINY = 2.0**-1000


LANES = 16  # atoms at a time, twice side by side
PIECE = 1024


@intrinsic
def _piece_sums(typing_context, rows, at, n, without):
    """(-sum p ln p, sum p) over rows[at : at + n] but for atom at + without, n a multiple of 16 up to 1024: a lane takes at most 32 atoms, and five additions bring the 32 lanes together."""

    def code(context, builder, signature, arguments):
        rows_value, at_value, n_value, without_value = arguments
        vector = ir.VectorType(ir.DoubleType(), LANES)
        whole = ir.IntType(64)
        data = builder.gep(context.make_array(signature.args[0])(context, builder, value=rows_value).data, [at_value])
        zero = ir.Constant(vector, [0.0] * LANES)
        numbers = ir.VectorType(whole, LANES)

        def splat(x):
            one = builder.insert_element(ir.Constant(numbers, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, ir.Constant(numbers, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

        place = builder.sub(splat(without_value), ir.Constant(numbers, list(range(LANES))))
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(2)] for _ in range(2)]

        def take(index, entropy, mass):
            p = builder.load(builder.bitcast(builder.gep(data, [index]), vector.as_pointer()), align=8)
            counts = builder.and_(builder.fcmp_ordered(">=", p, ir.Constant(vector, [TINY] * LANES)), builder.icmp_signed("!=", place, splat(index)))
            p = builder.select(counts, p, zero)
            builder.store(builder.fsub(builder.load(entropy), builder.fmul(p, log_code(builder, p), flags=("contract",)), flags=("contract",)), entropy)
            builder.store(builder.fadd(builder.load(mass), p), mass)

        pairs = builder.and_(n_value, ir.Constant(whole, -2 * LANES))
        with cgutils.for_range_slice(builder, ir.Constant(whole, 0), pairs, ir.Constant(whole, 2 * LANES), intp=whole) as (i, _):
            take(i, *sums[0])
            take(builder.add(i, ir.Constant(whole, LANES)), *sums[1])
        with builder.if_then(builder.icmp_unsigned("<", pairs, n_value)):
            take(pairs, *sums[0])

        totals = []
        for j in range(2):
            total = builder.fadd(builder.load(sums[0][j]), builder.load(sums[1][j]))
            while total.type.count > 1:
                half = total.type.count // 2
                lower, upper = (ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(first, first + half))) for first in (0, half))
                empty = ir.Constant(total.type, ir.Undefined)
                total = builder.fadd(builder.shuffle_vector(total, empty, lower), builder.shuffle_vector(total, empty, upper))
            totals.append(builder.extract_element(total, ir.Constant(ir.IntType(32), 0)))
        return context.make_tuple(builder, signature.return_type, totals)

    return types.UniTuple(types.float64, 2)(rows, at, n, without), code


if numba.config.DISABLE_JIT:  # the same by plain Python, for a debugger

    def _piece_sums(rows, at, n, without):
        p = [x if x >= TINY and i != without else 0.0 for i, x in enumerate(rows[at : at + n])]
        return -sum(x * log(x) for x in p), sum(p)


@kernel
def entropy(rows, at, n):
    """-sum p ln p over rows[at : at + n], n a multiple of 16."""
    total = 0.0
    begin = np.uint64(at)
    end = begin + np.uint64(n)
    while begin < end:
        size = min(end - begin, np.uint64(PIECE))
        total += _piece_sums(rows, begin, size, np.int64(-1))[0]
        begin += size
    return total


@kernel
def others(rows, at, n, top):
    """(-sum p ln p, sum p) over rows[at : at + n] but for atom at + top."""
    total = 0.0
    mass = 0.0
    for begin in range(np.int64(0), n, np.int64(PIECE)):
        part, weight = _piece_sums(rows, np.uint64(at + begin), np.uint64(min(n - begin, np.int64(PIECE))), top - begin)
        total += part
        mass += weight
    return total, mass


@inlined
def by_rest(total, mass):
    """The entropy of a law of which all but the largest atom, above 1/2, have the entropy sum `total` and weigh `mass`: the largest speaks through them.

    No larger a relative error than `bounds.entropy_rate` has: fewer additions make up for the longer end.
    """
    return total - (1.0 - mass) * log1p(-mass)


@inlined
def find_top(rows, at, n):
    """Where the row has its atom of more than 0.51, -1 where it has none."""
    found = np.int64(-1)
    for i in range(np.uint64(n)):
        found += np.int64(i + np.uint64(1)) if rows[np.uint64(at) + i] > 0.51 else np.int64(0)
    return found


@inlined_sum
def _divergence_block(p_rows, a, q_rows, b, size):
    total = 0.0
    for i in range(np.uint64(size)):
        p = p_rows[a + i]
        q = q_rows[b + i]
        p = p if p >= TINY else 0.0
        term = divergence(p, q if q >= TINY else 1.0)
        total += term if q >= TINY else 0.0
    return total


@kernel
def divergence_sum(p_rows, p_at, q_rows, q_at, n):
    """KL(p || q) in Bregman form over n atoms, n a multiple of 16; q's support holds p's."""
    total = 0.0
    begin = np.uint64(0)
    end = np.uint64(n)
    a = np.uint64(p_at)
    b = np.uint64(q_at)
    while begin < end:
        part = 0.0
        stop = min(end, begin + np.uint64(1024))
        while begin + np.uint64(32) <= stop:
            part += _divergence_block(p_rows, a + begin, q_rows, b + begin, 32)
            begin += np.uint64(32)
        if begin < stop:
            part += _divergence_block(p_rows, a + begin, q_rows, b + begin, 16)
            begin += np.uint64(16)
        total += part
    return total


@kernel
def pivot_entropy(parts, at, n, whole):
    """-sum p ln(p / whole) with relative accuracy, whole being the sum of the parts: the largest part speaks through the others."""
    top = at
    for i in range(at + 1, at + n):
        if parts[i] > parts[top]:
            top = i
    rest = 0.0
    low = 0.0
    value = 0.0
    for i in range(at, at + n):
        p = parts[i]
        if i != top and p >= TINY:
            total = rest + p
            back = total - rest
            low += (rest - (total - back)) + (p - back)
            rest = total
            value -= p * log(p / whole)
    rest += low
    if rest == 0.0:
        return 0.0
    if 2.0 * rest <= whole:
        return value - (whole - rest) * log1p(-rest / whole)
    return value - parts[top] * log(parts[top] / whole)


@kernel
def same(rows, a, b, n):
    """Whether two rows are equal, bit for bit."""
    for i in range(n):
        if rows[a + i] != rows[b + i]:
            return False
    return True


@kernel
def weighted_sums(weights, terms, states, out):
    """out[i] = sum over the listed states of weights[s] * terms[i, s], compensated, so that the depth does not grow with S."""
    for i in range(len(terms)):
        high = 0.0
        low = 0.0
        for j in range(np.uint64(len(states))):
            s = np.uint64(states[j])
            x = weights[s] * terms[np.uint64(i), s]
            total = high + x
            back = total - high
            low += (high - (total - back)) + (x - back)
            high = total
        out[i] = high + low


@kernel
def row_entropies(pointer, values, out):
    """out[i] = entropy of the law values[pointer[i]:pointer[i+1]], relative accuracy."""
    for i in range(len(pointer) - 1):
        out[i] = pivot_entropy(values, pointer[i], pointer[i + 1] - pointer[i], 1.0) if pointer[i + 1] - pointer[i] > 1 else 0.0


@kernel
def accumulate(weights, terms, states, by_state):
    """by_state[i, s] += weights[s] * terms[i, s] for the listed states."""
    for i in range(np.uint64(len(terms))):
        for j in range(np.uint64(len(states))):
            s = np.uint64(states[j])
            by_state[i, s] += weights[s] * terms[i, s]
