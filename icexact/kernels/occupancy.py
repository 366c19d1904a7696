"""Occupancy recursions (O1), forward in time, and their twins without horizon."""

import numpy as np

from icexact.kernels.jit import kernel

LONG = 64  # rows longer than this are summed with compensation


@kernel
def _long_row(begin, end, column, weight, x):
    high = 0.0
    low = 0.0
    for i in range(np.uint64(begin), np.uint64(end)):
        term = weight[i] * x[np.uint64(column[i])]
        total = high + term
        back = total - high
        low += (high - (total - back)) + (term - back)
        high = total
    return high + low


@kernel
def gather(begin, end, ptr, column, weight, x, out):
    """out[t] = sum of weight x[s] over the predecessors s of t, for begin <= t < end: one step of (O1) on the chain turned round."""
    for t in range(np.uint64(begin), np.uint64(end)):
        first = np.uint64(ptr[t])
        last = np.uint64(ptr[t + np.uint64(1)])
        if last - first > np.uint64(LONG):
            out[t] = _long_row(first, last, column, weight, x)
        else:
            total = 0.0
            for i in range(first, last):
                total += weight[i] * x[np.uint64(column[i])]
            out[t] = total


@kernel
def push(states, ptr, column, weight, x, mark, stamp, out, listed):
    """The same from the occupied states alone: out[] of the states reached is written, and they are listed (unsorted)."""
    n = 0
    for i in range(len(states)):
        s = np.uint64(states[i])
        mass = x[s]
        for j in range(np.uint64(ptr[s]), np.uint64(ptr[s + np.uint64(1)])):
            t = np.uint64(column[j])
            if mark[t] == stamp:
                out[t] += weight[j] * mass
            else:
                mark[t] = stamp
                out[t] = weight[j] * mass
                listed[n] = t
                n += 1
    return n


@kernel
def total(x, high, low):
    """Compensated sum in eight lanes; high and low [8] are scratch."""
    n = len(x) & ~7
    for j in range(8):
        high[j] = 0.0
        low[j] = 0.0
    for i in range(np.uint64(0), np.uint64(n), np.uint64(8)):
        for j in range(np.uint64(8)):
            y = x[i + j]
            h = high[j]
            t = h + y
            back = t - h
            low[j] += (h - (t - back)) + (y - back)
            high[j] = t
    h = 0.0
    l = 0.0
    for j in range(8 + len(x) - n):
        y = high[j] if j < 8 else x[n + j - 8]
        t = h + y
        back = t - h
        l += (h - (t - back)) + (y - back)
        h = t
        if j < 8:
            l += low[j]
    return h + l


@kernel
def least_positive(x):
    """The smallest positive entry; infinity where there is none."""
    least = np.inf
    for i in range(len(x)):
        v = x[i] if x[i] > 0.0 else np.inf
        least = min(least, v)
    return least
