"""Weighted sums of rows, the inner loop of every law: out = sum_j c_j row_j.

A block of 16 atoms is loaded from up to five rows, summed in registers and stored: written out as vector code, since a loop over one array that is both read and
written is vectorised only behind tests for overlap, which cost more than a short row. Blocks may not overlap the row that is written.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from icexact.kernels.jit import inlined

PAD = 16  # lengths are rounded up to it: what lies beyond a window is zero, and there is no tail


def _block_code(add):
    """Code that stores (or adds) sum of c[j] * rows[at[j] : at[j]+16] at out[to : to+16]; at and c are tuples of one length."""

    def typed(typing_context, out, to, rows, at, c):
        def code(context, builder, signature, arguments):
            out_value, to_value, rows_value, at_value, c_value = arguments
            vector = ir.VectorType(ir.DoubleType(), PAD)

            def place(array_type, array, index):
                data = context.make_array(array_type)(context, builder, value=array).data
                return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

            def splat(x):
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
                return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), PAD), [0] * PAD))

            target = place(signature.args[0], out_value, to_value)
            total = builder.load(target, align=8) if add else None
            for j in range(signature.args[3].count):
                row = builder.load(place(signature.args[2], rows_value, builder.extract_value(at_value, j)), align=8)
                term = builder.fmul(row, splat(builder.extract_value(c_value, j)), flags=("contract",))
                total = term if total is None else builder.fadd(total, term, flags=("contract",))
            builder.store(total, target, align=8)
            return context.get_dummy_value()

        return types.none(out, to, rows, at, c), code

    return typed


@intrinsic
def _store_block(typing_context, out, to, rows, at, c):
    return _block_code(False)(typing_context, out, to, rows, at, c)


@intrinsic
def _add_block(typing_context, out, to, rows, at, c):
    return _block_code(True)(typing_context, out, to, rows, at, c)


if numba.config.DISABLE_JIT:  # the same by plain Python, for a debugger

    def _store_block(out, to, rows, at, c):
        out[to : to + PAD] = sum(w * rows[a : a + PAD] for w, a in zip(c, at))

    def _add_block(out, to, rows, at, c):
        out[to : to + PAD] += sum(w * rows[a : a + PAD] for w, a in zip(c, at))


@inlined
def padded(n):
    return (n + (PAD - 1)) & ~(PAD - 1)


@inlined
def _assign(out, d, n, rows, at, a, c, b, m):
    step = np.uint64(PAD)
    a0 = np.uint64(at[a])
    c0 = c[b]
    if m == 1:
        for z in range(np.uint64(0), n, step):
            _store_block(out, d + z, rows, (a0 + z,), (c0,))
        return
    a1 = np.uint64(at[a + 1])
    c1 = c[b + 1]
    if m == 2:
        for z in range(np.uint64(0), n, step):
            _store_block(out, d + z, rows, (a0 + z, a1 + z), (c0, c1))
        return
    a2 = np.uint64(at[a + 2])
    c2 = c[b + 2]
    if m == 3:
        for z in range(np.uint64(0), n, step):
            _store_block(out, d + z, rows, (a0 + z, a1 + z, a2 + z), (c0, c1, c2))
        return
    a3 = np.uint64(at[a + 3])
    c3 = c[b + 3]
    if m == 4:
        for z in range(np.uint64(0), n, step):
            _store_block(out, d + z, rows, (a0 + z, a1 + z, a2 + z, a3 + z), (c0, c1, c2, c3))
        return
    a4 = np.uint64(at[a + 4])
    c4 = c[b + 4]
    for z in range(np.uint64(0), n, step):
        _store_block(out, d + z, rows, (a0 + z, a1 + z, a2 + z, a3 + z, a4 + z), (c0, c1, c2, c3, c4))


@inlined
def _add(out, d, n, rows, at, a, c, b, m):
    step = np.uint64(PAD)
    a0 = np.uint64(at[a])
    c0 = c[b]
    if m == 1:
        for z in range(np.uint64(0), n, step):
            _add_block(out, d + z, rows, (a0 + z,), (c0,))
        return
    a1 = np.uint64(at[a + 1])
    c1 = c[b + 1]
    if m == 2:
        for z in range(np.uint64(0), n, step):
            _add_block(out, d + z, rows, (a0 + z, a1 + z), (c0, c1))
        return
    a2 = np.uint64(at[a + 2])
    c2 = c[b + 2]
    if m == 3:
        for z in range(np.uint64(0), n, step):
            _add_block(out, d + z, rows, (a0 + z, a1 + z, a2 + z), (c0, c1, c2))
        return
    a3 = np.uint64(at[a + 3])
    c3 = c[b + 3]
    for z in range(np.uint64(0), n, step):
        _add_block(out, d + z, rows, (a0 + z, a1 + z, a2 + z, a3 + z), (c0, c1, c2, c3))


@inlined
def mix(out, to, n, rows, at, a, c, b, count):
    """out[to : to+n] = sum over i < count of c[b+i] * rows[at[a+i] : at[a+i]+n]; n is a multiple of 16, count >= 1, out is none of the rows."""
    d = np.uint64(to)
    length = np.uint64(n)
    if count <= 5:
        _assign(out, d, length, rows, at, a, c, b, count)
        return
    _assign(out, d, length, rows, at, a, c, b, np.int64(5))
    for j in range(5, count, 4):
        _add(out, d, length, rows, at, a + j, c, b + j, min(np.int64(4), count - j))
