"""Weighted sums of rows, the inner loop of every law: out = sum_j c_j row_j, up to five rows a pass, unsigned indices, no slices."""

import numpy as np

from icexact.kernels.jit import kernel

PAD = 16  # lengths are rounded up to it: what lies beyond a window is zero, and there is no scalar tail


@kernel
def padded(n):
    return (n + (PAD - 1)) & ~(PAD - 1)


@kernel
def _assign(out, d, n, rows, at, a, c, b, m):
    a0 = np.uint64(at[a])
    c0 = c[b]
    if m == 1:
        for z in range(n):
            out[d + z] = c0 * rows[a0 + z]
        return
    a1 = np.uint64(at[a + 1])
    c1 = c[b + 1]
    if m == 2:
        for z in range(n):
            out[d + z] = c0 * rows[a0 + z] + c1 * rows[a1 + z]
        return
    a2 = np.uint64(at[a + 2])
    c2 = c[b + 2]
    if m == 3:
        for z in range(n):
            out[d + z] = c0 * rows[a0 + z] + c1 * rows[a1 + z] + c2 * rows[a2 + z]
        return
    a3 = np.uint64(at[a + 3])
    c3 = c[b + 3]
    if m == 4:
        for z in range(n):
            out[d + z] = (c0 * rows[a0 + z] + c1 * rows[a1 + z]) + (c2 * rows[a2 + z] + c3 * rows[a3 + z])
        return
    a4 = np.uint64(at[a + 4])
    c4 = c[b + 4]
    for z in range(n):
        out[d + z] = (c0 * rows[a0 + z] + c1 * rows[a1 + z]) + (c2 * rows[a2 + z] + c3 * rows[a3 + z]) + c4 * rows[a4 + z]


@kernel
def _add(out, d, n, rows, at, a, c, b, m):
    a0 = np.uint64(at[a])
    c0 = c[b]
    if m == 1:
        for z in range(n):
            out[d + z] += c0 * rows[a0 + z]
        return
    a1 = np.uint64(at[a + 1])
    c1 = c[b + 1]
    if m == 2:
        for z in range(n):
            out[d + z] += c0 * rows[a0 + z] + c1 * rows[a1 + z]
        return
    a2 = np.uint64(at[a + 2])
    c2 = c[b + 2]
    if m == 3:
        for z in range(n):
            out[d + z] += c0 * rows[a0 + z] + c1 * rows[a1 + z] + c2 * rows[a2 + z]
        return
    a3 = np.uint64(at[a + 3])
    c3 = c[b + 3]
    for z in range(n):
        out[d + z] += (c0 * rows[a0 + z] + c1 * rows[a1 + z]) + (c2 * rows[a2 + z] + c3 * rows[a3 + z])


@kernel
def mix(out, to, n, rows, at, a, c, b, count):
    """out[to : to+n] = sum over i < count of c[b+i] * rows[at[a+i] : at[a+i]+n]; out is none of the rows, count >= 1."""
    d = np.uint64(to)
    length = np.uint64(n)
    if count <= 5:
        _assign(out, d, length, rows, at, a, c, b, count)
        return
    _assign(out, d, length, rows, at, a, c, b, np.int64(5))
    for j in range(5, count, 4):
        _add(out, d, length, rows, at, a + j, c, b + j, min(np.int64(4), count - j))
