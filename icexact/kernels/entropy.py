"""Sums over one row of a law: entropy and divergence. Rows are pieces of flat arrays; unsigned indices keep the loops free of wrap-around tests.

A row is summed in blocks of 32 atoms, each in any order (so that they vectorise), 32 blocks in turn, and those in turn: no tree deeper than
64 + n / 1024 (`bounds.row_depth`). Lengths are multiples of 16, with zeros behind the law. Atoms below 2^-1000 count as 0; `bounds.dust` says what that can hide.
"""

import numpy as np

from icexact.kernels.jit import inlined_sum, kernel
from icexact.kernels.logarithm import divergence, log, log1p

TINY = 2.0**-1000


@inlined_sum
def _entropy_block(rows, at, size):
    total = 0.0
    for i in range(np.uint64(size)):
        p = rows[at + i]
        p = p if p >= TINY else 0.0
        total -= p * log(p)
    return total


@kernel
def entropy(rows, at, n):
    """-sum p ln p over rows[at : at + n], n a multiple of 16."""
    total = 0.0
    begin = np.uint64(at)
    end = begin + np.uint64(n)
    while begin < end:
        part = 0.0
        stop = min(end, begin + np.uint64(1024))
        while begin + np.uint64(32) <= stop:
            part += _entropy_block(rows, begin, 32)
            begin += np.uint64(32)
        if begin < stop:
            part += _entropy_block(rows, begin, 16)
            begin += np.uint64(16)
        total += part
    return total


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
