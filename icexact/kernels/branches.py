"""Model intake: rows summed without rounding error to speak of, and the branches of each pair brought into one order."""

import numpy as np

from icexact.kernels.jit import kernel


@kernel
def row_sums(pointer, values, deviation, dyadic):
    """deviation[i] = sum of values[pointer[i]:pointer[i+1]] minus 1, in double-double, so right to a few 2^-106.

    dyadic[i] tells whether every value is a multiple of 2^-26, which no decimal or small fraction was rounded to.
    """
    for i in range(len(pointer) - 1):
        high = 0.0
        low = 0.0
        exact = True
        for j in range(pointer[i], pointer[i + 1]):
            x = values[j]
            total = high + x
            back = total - high
            low += (high - (total - back)) + (x - back)
            high = total
            scaled = x * 67108864.0
            exact &= scaled == np.floor(scaled)
        deviation[i] = (high - 1.0) + low
        dyadic[i] = exact


@kernel
def _before(i, j, reward, ends, next_state, probability):
    if reward[i] != reward[j]:
        return reward[i] < reward[j]
    if ends[i] != ends[j]:
        return ends[i] < ends[j]
    if next_state[i] != next_state[j]:
        return next_state[i] < next_state[j]
    return probability[i] < probability[j]


@kernel
def _sink(order, first, root, count, reward, ends, next_state, probability):
    while True:
        child = 2 * root + 1
        if child >= count:
            return
        if child + 1 < count and _before(order[first + child], order[first + child + 1], reward, ends, next_state, probability):
            child += 1
        if not _before(order[first + root], order[first + child], reward, ends, next_state, probability):
            return
        order[first + root], order[first + child] = order[first + child], order[first + root]
        root = child


@kernel
def sort_rows(pointer, begin, end, order, reward, ends, next_state, probability):
    """Sort order[] within pairs begin..end-1 by (reward, ends, next state, probability): so equal outcomes add to the same bits in any given order."""
    for k in range(begin, end):
        first, last = pointer[k], pointer[k + 1]
        if last - first <= 32:
            for i in range(first + 1, last):
                x = order[i]
                j = i - 1
                while j >= first and _before(x, order[j], reward, ends, next_state, probability):
                    order[j + 1] = order[j]
                    j -= 1
                order[j + 1] = x
        else:
            count = last - first
            for root in range(count // 2 - 1, -1, -1):
                _sink(order, first, root, count, reward, ends, next_state, probability)
            for size in range(count - 1, 0, -1):
                order[first], order[first + size] = order[first + size], order[first]
                _sink(order, first, np.int64(0), size, reward, ends, next_state, probability)


@kernel
def merge_rows(pointer, order, probability, reward, ends, next_state, out_pointer, out_probability, out_reward, out_ends, out_next, merged):
    """Write the sorted rows out, outcomes that are equal in all but probability added; returns the branches written.

    merged[k] is the largest number of rows that were added into one branch of pair k.
    """
    n = 0
    for k in range(len(pointer) - 1):
        out_pointer[k] = n
        most = 1
        run = 0
        for i in range(pointer[k], pointer[k + 1]):
            row = order[i]
            if run > 0 and reward[row] == out_reward[n - 1] and ends[row] == out_ends[n - 1] and next_state[row] == out_next[n - 1]:
                out_probability[n - 1] += probability[row]
                run += 1
                most = max(most, run)
            else:
                out_probability[n] = probability[row]
                out_reward[n] = reward[row]
                out_ends[n] = ends[row]
                out_next[n] = next_state[row]
                n += 1
                run = 1
        merged[k] = most
    out_pointer[len(pointer) - 1] = n
    return n


@kernel
def counting_sort(keys, starts, order):
    """Counting sort: order[] lists the rows by ascending key, equal keys in their given order; starts[] is overwritten."""
    for i in range(len(keys)):
        k = keys[i]
        order[starts[k]] = i
        starts[k] += 1
