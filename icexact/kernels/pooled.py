"""What an observer without a clock sees (S3): the joint law of action and return-to-go in each state, added up over the steps.

One row a pair, over the values that its state can bring at any step; the rows of a state have one length, a multiple of 16, and stand one after the other.
"""

import numpy as np

from icexact.kernels.entropy import divergence_sum
from icexact.kernels.jit import kernel
from icexact.kernels.lattice import slot


@kernel
def add_step(begin, end, states, n_states, pair_ptr, policy, branch_ptr, successor, probability, shift, stride, origin, slots, base, buffer, low, high, weight, place, place_low, row_start, row_low, law, rows, seen):
    """Add d_h(s) pi_h(a|s) q_h(.|s,a) of the listed states begin..end-1 to their rows; the buffer holds v_{h+1} (kernels.lattice).

    place[z - place_low] is the rank of lattice point z among the values of all steps; row_low[s] the rank at which the state's rows begin. seen[k] is set for each pair that is played.
    """
    for i in range(begin, end):
        s = np.uint64(states[i])
        for k in range(np.uint64(pair_ptr[s]), np.uint64(pair_ptr[s + np.uint64(1)])):
            if policy[k] == 0.0:
                continue
            seen[k] = True
            first = np.uint64(branch_ptr[k])
            last = np.uint64(branch_ptr[k + np.uint64(1)])
            lo = np.int64(1) << 62
            hi = -lo
            for b in range(first, last):
                t = slot(successor[b], base, n_states, slots)
                lo = min(lo, low[t] + shift[b])
                hi = max(hi, high[t] + shift[b])
            n = np.uint64(hi - lo + 1)
            for z in range(n):
                law[z] = 0.0
            for b in range(first, last):
                t = slot(successor[b], base, n_states, slots)
                c = probability[b]
                to = np.uint64(low[t] + shift[b] - lo)
                at = np.uint64(t * stride + origin + low[t])
                for z in range(np.uint64(high[t] - low[t] + 1)):
                    law[to + z] += c * buffer[at + z]
            c = weight[s] * policy[k]
            to = row_start[k] - row_low[s]
            at = np.uint64(lo - place_low)
            for z in range(n):
                rows[np.uint64(to + place[at + z])] += c * law[z]


@kernel
def _mass(rows, at, n):
    """Compensated sum of one row."""
    high = 0.0
    low = 0.0
    for z in range(n):
        x = rows[at + z]
        total = high + x
        back = total - high
        low += (high - (total - back)) + (x - back)
        high = total
    return high + low


@kernel
def terms_of(begin, end, pair_ptr, seen, row_start, length, rows, masses, mixed, other, terms):
    """terms[:, s] for states begin..end-1: sum_a KL(row a || its share of the state's mass x the sum of the rows), and that mass (0 where the sum is 0 for a reason).

    length[s] is that of the state's rows; masses has room for its actions.
    """
    for i in range(begin, end):
        s = np.uint64(i)
        first = np.uint64(pair_ptr[s])
        last = np.uint64(pair_ptr[s + np.uint64(1)])
        n = np.uint64(length[s])
        terms[0, s] = 0.0
        terms[1, s] = 0.0
        played = 0
        for k in range(first, last):
            if seen[k]:
                played += 1
        if played < 2:
            continue
        for z in range(n):
            mixed[z] = 0.0
        whole = 0.0
        for k in range(first, last):
            if seen[k]:
                a = np.uint64(row_start[k])
                masses[k - first] = _mass(rows, a, n)
                whole += masses[k - first]
                for z in range(n):
                    mixed[z] += rows[a + z]
        atoms = 0
        for z in range(n):
            atoms += mixed[z] > 0.0
        if atoms < 2:
            continue
        terms[1, s] = whole
        for k in range(first, last):
            if seen[k]:
                share = masses[k - first] / whole
                for z in range(n):
                    other[z] = share * mixed[z]
                terms[0, s] += divergence_sum(rows, np.uint64(row_start[k]), other, np.uint64(0), n)
