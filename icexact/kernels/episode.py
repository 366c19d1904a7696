"""The return seen from inside the episode (R3) on an integer lattice: what was gained before a step, forward in time, and what is gained in all.

Rows are packed, one a state, each as wide as its window: row s is data[start[s] : start[s] + count[s]], its first atom at lattice point low[s]. A state
that cannot be occupied has no row (count 0). Rows of the past are joint: they sum to the probability of the state.
"""

import numpy as np

from icexact.kernels.entropy import divergence_sum, same
from icexact.kernels.jit import kernel
from icexact.kernels.rows import padded


@kernel
def past_windows(states, n_states, ptr, successor, shift, low, high, new_low, new_high):
    """Windows of what was gained before the next step, from those of the listed states; the new ones begin empty, low above high."""
    for i in range(np.uint64(len(states))):
        s = np.uint64(states[i])
        for j in range(np.uint64(ptr[s]), np.uint64(ptr[s + np.uint64(1)])):
            if successor[j] != n_states:
                t = np.uint64(successor[j])
                new_low[t] = min(new_low[t], low[s] + shift[j])
                new_high[t] = max(new_high[t], high[s] + shift[j])


@kernel
def past_step(begin, end, states, n_states, ptr, successor, shift, weight, start, count, low, data, new_start, new_low, new_data):
    """Add what the listed states begin..end-1 hand on to the rows of the next step, which begin with zeros."""
    for i in range(np.uint64(begin), np.uint64(end)):
        s = np.uint64(states[i])
        a = np.uint64(start[s])
        n = np.uint64(count[s])
        for j in range(np.uint64(ptr[s]), np.uint64(ptr[s + np.uint64(1)])):
            if successor[j] != n_states:
                t = np.uint64(successor[j])
                to = np.uint64(new_start[t] + low[s] + shift[j] - new_low[t])
                w = weight[j]
                for z in range(n):
                    new_data[to + z] += w * data[a + z]


@kernel
def convolve(a, b, out):
    """Add the convolution of two rows to out."""
    n = np.uint64(len(b))
    for x in range(np.uint64(len(a))):
        c = a[x]
        if c != 0.0:
            for z in range(n):
                out[x + z] += c * b[z]


@kernel
def information_step(begin, end, states, n_states, pair_ptr, policy, branch_ptr, successor, probability, shift, start, count, past, now_low, now_count, later_start, later_low, later_count, later, law, rows, mixed, terms):
    """terms[:, s] of the listed states begin..end-1: sum_a pi KL(law of Z | s, a || law of Z | s), times P(S_h = s), and that probability (0 where the sum is 0 for a reason).

    successor[b] is n_states after a branch that ends; rows has room for one row of Z an action.
    """
    for i in range(begin, end):
        s = np.uint64(states[i])
        terms[0, s] = 0.0
        terms[1, s] = 0.0
        first = np.uint64(pair_ptr[s])
        last = np.uint64(pair_ptr[s + np.uint64(1)])
        played = 0
        for k in range(first, last):
            if policy[k] > 0.0:
                played += 1
        m = np.uint64(now_count[s])
        if played < 2 or m == 1:
            continue
        n = np.uint64(count[s])
        a = np.uint64(start[s])
        length = np.uint64(padded(now_count[s] + count[s] - 1))
        for z in range(length):
            mixed[z] = 0.0
        row = np.uint64(0)
        alike = True
        for k in range(first, last):
            if policy[k] == 0.0:
                continue
            for z in range(m):
                law[z] = 0.0
            for b in range(np.uint64(branch_ptr[k]), np.uint64(branch_ptr[k + np.uint64(1)])):
                c = probability[b]
                if successor[b] == n_states:
                    law[np.uint64(shift[b] - now_low[s])] += c
                else:
                    t = np.uint64(successor[b])
                    to = np.uint64(later_low[t] + shift[b] - now_low[s])
                    f = np.uint64(later_start[t])
                    for z in range(np.uint64(later_count[t])):
                        law[to + z] += c * later[f + z]
            for z in range(length):
                rows[row + z] = 0.0
            for x in range(n):
                c = past[a + x]
                if c != 0.0:
                    for z in range(m):
                        rows[row + x + z] += c * law[z]
            c = policy[k]
            for z in range(length):
                mixed[z] += c * rows[row + z]
            if row > 0:
                alike = alike and same(rows, np.uint64(0), row, length)
            row += length
        for x in range(n):
            terms[1, s] += past[a + x]
        if alike:
            continue
        row = np.uint64(0)
        for k in range(first, last):
            if policy[k] > 0.0:
                terms[0, s] += policy[k] * divergence_sum(rows, row, mixed, np.uint64(0), length)
                row += length
