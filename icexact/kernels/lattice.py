"""Return laws on an integer lattice (R1), gamma = 1: one dense row a state, only as wide as that state needs at that step.

All rows live in one buffer of `slots` rows of `stride` doubles, and one more for the end state, whose law is the unit at 0. Lattice
point z of the row in slot t is buffer[t * stride + origin + z]; outside its window [low[t], high[t]] a row is zero, so that rows can be read
over one another's windows without a test.

One table with a gap instead of two tables: states are walked in ascending order, and if no successor is more than w states
away, the new row of s may take the slot of the old row of s-w-1, which nobody needs any more. State s at base b is in slot
(s + b) mod slots, slots = S + w + 1, and the base falls by w + 1 at each step. With w = S - 1 this is two tables again.
"""

import numpy as np

from icexact.kernels.entropy import by_rest, find_top, others
from icexact.kernels.information import pair_divergence, state_terms
from icexact.kernels.jit import inlined, kernel
from icexact.kernels.rows import mix, padded

NOWHERE = -(1 << 62)  # the place of the largest atom of a law that has none of more than 1/2
UNLIKELY = -(1 << 61)  # NOWHERE moved by any reward stays below


@kernel
def windows(ptr, successor, shift, low, high, new_low, new_high):
    """One step back of every state's window over the chain's entries, the end state being S; returns (smallest low, largest high, widest, sum of widths)."""
    least, most, widest, atoms = np.int64(0), np.int64(0), np.int64(1), np.int64(0)
    for s in range(np.uint64(len(ptr) - 1)):
        lo = np.int64(1) << 62
        hi = -lo
        for j in range(np.uint64(ptr[s]), np.uint64(ptr[s + np.uint64(1)])):
            t = np.uint64(successor[j])
            lo = min(lo, low[t] + shift[j])
            hi = max(hi, high[t] + shift[j])
        if hi < lo:
            lo, hi = np.int64(0), np.int64(0)
        new_low[s] = lo
        new_high[s] = hi
        least = min(least, lo)
        most = max(most, hi)
        widest = max(widest, hi - lo + 1)
        atoms += hi - lo + 1
    return least, most, widest, atoms


@kernel
def start(n_states, slots, stride, origin, buffer, low, high):
    """The unit law at 0 for every state, base 0, and for the end state; the other slots hold nothing."""
    for t in range(slots + 1):
        low[t] = 0
        high[t] = -1
        if t < n_states or t == slots:
            high[t] = 0
            buffer[t * stride + origin] = 1.0


@inlined
def slot(state, base, n_states, slots):
    if state == n_states:
        return slots
    t = state + base
    return t - slots if t >= slots else t


@inlined
def _claim(t, lo, hi, stride, origin, buffer, low, high):
    """Make slot t ready for a row on [lo, hi]: what the row before left outside is cleared. Returns (where it starts, padded length)."""
    n = padded(hi - lo + 1)
    row = t * stride + origin
    for z in range(row + low[t], row + min(high[t], lo - 1) + 1):
        buffer[np.uint64(z)] = 0.0
    for z in range(row + max(low[t], lo + n), row + high[t] + 1):
        buffer[np.uint64(z)] = 0.0
    low[t] = lo
    high[t] = hi
    return row + lo, n


@inlined
def _certain(t, z, stride, origin, buffer, low, high):
    """The unit law at z into slot t; a slot that holds it already is left alone."""
    if low[t] != z or high[t] != z:
        row = t * stride + origin
        for i in range(row + low[t], row + high[t] + 1):
            buffer[np.uint64(i)] = 0.0
        buffer[row + z] = 1.0
        low[t] = z
        high[t] = z


@kernel
def law_step(begin, end, states, n_states, ptr, successor, shift, weight, stride, origin, slots, base, new_base, buffer, low, high, at):
    """v_h of the listed states begin..end-1 (ascending) from v_{h+1}, on the merged chain; shift is an entry's reward on the lattice."""
    for i in range(begin, end):
        s = states[i]
        first, last = ptr[s], ptr[s + 1]
        lo = np.int64(1) << 62
        hi = -lo
        for j in range(np.uint64(first), np.uint64(last)):
            t = slot(successor[j], base, n_states, slots)
            m = shift[j]
            lo = min(lo, low[np.uint64(t)] + m)
            hi = max(hi, high[np.uint64(t)] + m)
            at[j - np.uint64(first)] = t * stride + origin - m
        for j in range(np.uint64(last - first)):
            at[j] += lo
        own = slot(s, new_base, n_states, slots)
        if lo == hi:
            _certain(own, lo, stride, origin, buffer, low, high)
        else:
            to, n = _claim(own, lo, hi, stride, origin, buffer, low, high)
            mix(buffer, to, n, buffer, at, np.int64(0), weight, first, last - first)


@kernel
def credit_step(begin, end, states, n_states, pair_ptr, policy, group_ptr, group_branch, group_probability, successor, probability, conditional, shift, stride, origin, slots, base, new_base, buffer, low, high, child_entropy, new_entropy, top, close, new_top, new_close, rate, tau, at, pair_at, pair_entropy, scratch, terms):
    """One step of laws with their information: v_h of the listed states, its entropy, and the terms of skill, luck and noise (information.state_terms).

    top[s] is the lattice point of an atom of more than 1/2 of the law of s, NOWHERE if it has none, and close[s] the entropy by the other atoms then.

    successor[b] is n_states after a branch that ends; shift[b] is the reward on the lattice.
    """
    for i in range(begin, end):
        s = states[i]
        first = group_branch[group_ptr[pair_ptr[s]]]
        lo = np.int64(1) << 62
        hi = -lo
        summit = np.int64(0)
        started = 0
        aligned = True
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if policy[k] > 0.0:
                for b in range(group_branch[group_ptr[k]], group_branch[group_ptr[k + 1]]):
                    t = slot(successor[b], base, n_states, slots)
                    lo = min(lo, low[t] + shift[b])
                    hi = max(hi, high[t] + shift[b])
                    z = top[successor[b]] + shift[b]
                    aligned = aligned and z > UNLIKELY and (started == 0 or z == summit)
                    summit = z
                    started = 1
                    at[b - first] = t * stride + origin - shift[b]
        for j in range(group_branch[group_ptr[pair_ptr[s + 1]]] - first):
            at[j] += lo
        own = slot(s, new_base, n_states, slots)
        if lo == hi:
            # a certain return: every information is exactly 0
            _certain(own, lo, stride, origin, buffer, low, high)
            new_entropy[s] = 0.0
            new_close[s] = 0.0
            new_top[s] = lo
            for j in range(12):
                terms[j, s] = 0.0
        else:
            to, n = _claim(own, lo, hi, stride, origin, buffer, low, high)
            above = summit - lo if aligned else np.int64(-1)
            state_terms(s, n, pair_ptr, policy, group_ptr, group_branch, group_probability, successor, probability, conditional, buffer, at, close if aligned else child_entropy, above, buffer, to, new_entropy, new_close, rate, tau, pair_at, pair_entropy, scratch, terms)
            if aligned:
                new_top[s] = summit
            else:
                above = find_top(buffer, to, n)
                new_top[s] = lo + above if above >= 0 else NOWHERE
                if above >= 0:
                    total, mass = others(buffer, to, n, above)
                    new_close[s] = by_rest(total, mass)


@kernel
def copy_rows(start, count, buffer, begins, out):
    """Rows buffer[start[s] : start[s]+count[s]] one after the other: begins[s] is where that of s goes in out."""
    for s in range(np.uint64(len(start))):
        a = np.uint64(start[s])
        b = np.uint64(begins[s])
        for z in range(np.uint64(count[s])):
            out[b + z] = buffer[a + z]


@kernel
def pair_step(begin, end, states, n_states, pair_ptr, group_ptr, group_branch, successor, probability, shift, stride, origin, slots, old_base, base, buffer, low, high, at, scratch, out):
    """out[k] = KL(q || v) (S1) for every pair of the listed states; v is at `base`, the laws one step later still at `old_base`."""
    for i in range(begin, end):
        s = states[i]
        own = slot(s, base, n_states, slots)
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            first, last = group_branch[group_ptr[k]], group_branch[group_ptr[k + 1]]
            lo = np.int64(1) << 62
            hi = -lo
            for b in range(first, last):
                t = slot(successor[b], old_base, n_states, slots)
                lo = min(lo, low[t] + shift[b])
                hi = max(hi, high[t] + shift[b])
                at[b - first] = t * stride + origin - shift[b]
            if lo < low[own] or hi > high[own]:
                out[k] = np.inf
                continue
            if low[own] == high[own]:
                out[k] = 0.0
                continue
            for b in range(last - first):
                at[b] += low[own]
            n = padded(high[own] - low[own] + 1)
            out[k] = pair_divergence(n, buffer, at, probability, first, last - first, scratch, buffer, own * stride + origin + low[own])


@kernel
def support_step(begin, end, ptr, successor, shift, width, old, new):
    """Which lattice points are possible, one step further back: rows of `width` flags, for states begin..end-1. Decided without probabilities, which may underflow."""
    for s in range(begin, end):
        to = s * width
        for z in range(np.uint64(to), np.uint64(to + width)):
            new[z] = 0
        for j in range(ptr[s], ptr[s + 1]):
            m = shift[j]
            first, last = max(np.int64(0), m), min(width, width + m)
            a = np.uint64(successor[j] * width - m)
            for z in range(np.uint64(first), np.uint64(last)):
                new[np.uint64(to) + z] |= old[a + z]
