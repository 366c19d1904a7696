"""Return laws on sorted distinct keys (R1): any rational discount, scattered rewards.

The keys themselves stay outside: a step's distinct keys are one sorted table, and a law holds their ranks in it, so that wide keys cost
nothing here. Reward i takes rank u of the later step to the rank `place(i * n_ranks + u)` of this one; for each i the map is increasing.
A law is rank[start[s] : start[s] + count[s]] and the probabilities beside it; entry S of start and count is the end state's.
"""

import numpy as np

from icexact.kernels.entropy import divergence_sum
from icexact.kernels.information import hidden, state_terms
from icexact.kernels.jit import kernel
from icexact.kernels.rows import padded


@kernel
def collect(begin, end, order, reward_index, successor, start, count, rank, n_ranks, stamp, at, codes):
    """The distinct codes reward * n_ranks + rank of the branches order[begin:end], which are listed reward by reward; returns how many there are now."""
    for i in range(begin, end):
        b = order[i]
        r = reward_index[b]
        s = successor[b]
        for j in range(start[s], start[s] + count[s]):
            u = rank[j]
            if stamp[u] != r:
                stamp[u] = r
                codes[at] = r * n_ranks + u
                at += 1
    return at


@kernel
def place(code, dense, codes, target):
    """The rank that a code stands for: by direct look-up, or among the sorted codes where a table of all would be too large."""
    if dense:
        return target[code]
    low = 0
    high = len(codes)
    while high - low > 1:
        middle = (low + high) // 2
        if codes[middle] <= code:
            low = middle
        else:
            high = middle
    return target[low]


@kernel
def _mark(code_base, start, count, rank, dense, codes, target, words, summary, targets, at):
    """Set the bits of the ranks that one branch reaches, and note them in targets[at:]."""
    for j in range(count):
        t = place(code_base + rank[start + j], dense, codes, target)
        targets[at + j] = t
        w = t >> 6
        words[w] |= np.uint64(1) << np.uint64(t & 63)
        summary[w >> 6] |= np.uint64(1) << np.uint64(w & 63)


@kernel
def _lowest(bits):
    """The number of the lowest bit that is set."""
    n = 0
    isolated = bits & (~bits + np.uint64(1))
    if isolated & np.uint64(0xFFFFFFFF00000000):
        n += 32
    if isolated & np.uint64(0xFFFF0000FFFF0000):
        n += 16
    if isolated & np.uint64(0xFF00FF00FF00FF00):
        n += 8
    if isolated & np.uint64(0xF0F0F0F0F0F0F0F0):
        n += 4
    if isolated & np.uint64(0xCCCCCCCCCCCCCCCC):
        n += 2
    if isolated & np.uint64(0xAAAAAAAAAAAAAAAA):
        n += 1
    return n


@kernel
def _sweep(words, summary, first, last, where, out, at, limit):
    """List the marked ranks in order into out[at:], number them in where[], and clear the marks; returns how many, -1 beyond the limit."""
    n = 0
    full = False
    for z in range(first >> 12, (last >> 12) + 1):
        while summary[z] != 0:
            w = (z << 6) + _lowest(summary[z])
            summary[z] &= summary[z] - np.uint64(1)
            bits = words[w]
            words[w] = 0
            while bits != 0:
                t = (w << 6) + _lowest(bits)
                bits &= bits - np.uint64(1)
                if at + n >= limit:
                    full = True
                else:
                    where[t] = n
                    out[at + n] = t
                    n += 1
    return -1 if full else n


@kernel
def law_step(begin, end, states, at, ptr, entry, n_labels, weight, start, count, rank, law, n_ranks, dense, codes, target, words, summary, where, targets, new_start, new_count, new_rank, new_law):
    """v_h of the listed states begin..end-1 from v_{h+1} on the merged chain; returns where the next law begins, -1 where the output is full."""
    for i in range(begin, end):
        s = states[i]
        m = np.int64(0)
        first = np.int64(1) << 62
        last = np.int64(0)
        for j in range(ptr[s], ptr[s + 1]):
            t = entry[j] // n_labels
            _mark((entry[j] % n_labels) * n_ranks, start[t], count[t], rank, dense, codes, target, words, summary, targets, m)
            first = min(first, targets[m])
            m += count[t]
            last = max(last, targets[m - 1])
        n = _sweep(words, summary, first, last, where, new_rank, at, len(new_rank))
        if n < 0:
            return -1
        for z in range(at, at + n):
            new_law[z] = 0.0
        m = np.int64(0)
        for j in range(ptr[s], ptr[s + 1]):
            t = entry[j] // n_labels
            c = weight[j]
            for z in range(start[t], start[t] + count[t]):
                new_law[at + where[targets[m]]] += c * law[z]
                m += 1
        new_start[s] = at
        new_count[s] = n
        at += n
    return at


@kernel
def widest(states, pair_ptr, policy, group_ptr, group_branch, successor, count):
    """The most (atoms that the branches of one state bring, branches of one state)."""
    atoms = 0
    branches = 0
    for i in range(len(states)):
        s = states[i]
        n = 0
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if policy[k] > 0.0:
                for b in range(group_branch[group_ptr[k]], group_branch[group_ptr[k + 1]]):
                    n += count[successor[b]]
        atoms = max(atoms, n)
        branches = max(branches, group_branch[group_ptr[pair_ptr[s + 1]]] - group_branch[group_ptr[pair_ptr[s]]])
    return atoms, branches


@kernel
def credit_step(begin, end, states, begins, pair_ptr, policy, group_ptr, group_branch, group_probability, successor, probability, conditional, reward_index, start, count, rank, law, n_ranks, dense, codes, target, words, summary, where, targets, new_start, new_count, new_rank, new_law, child_entropy, new_entropy, rate, tau, at, pair_at, pair_entropy, rows, row, scratch, terms):
    """One step of laws with their information, as lattice.credit_step: the branches' laws are laid out as rows over the state's own keys.

    Returns where the next law begins; -1 where the output is full.
    """
    place_at = begins
    for i in range(begin, end):
        s = states[i]
        b_first = group_branch[group_ptr[pair_ptr[s]]]
        m = np.int64(0)
        first = np.int64(1) << 62
        last = np.int64(0)
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if policy[k] > 0.0:
                for b in range(group_branch[group_ptr[k]], group_branch[group_ptr[k + 1]]):
                    t = successor[b]
                    _mark(reward_index[b] * n_ranks, start[t], count[t], rank, dense, codes, target, words, summary, targets, m)
                    first = min(first, targets[m])
                    m += count[t]
                    last = max(last, targets[m - 1])
        n = _sweep(words, summary, first, last, where, new_rank, place_at, len(new_rank))
        if n < 0:
            return -1
        new_start[s] = place_at
        new_count[s] = n
        if n == 1:
            new_law[place_at] = 1.0
            new_entropy[s] = 0.0
            for j in range(12):
                terms[j, s] = 0.0
            place_at += 1
            continue
        length = padded(n)
        m = np.int64(0)
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if policy[k] > 0.0:
                for b in range(group_branch[group_ptr[k]], group_branch[group_ptr[k + 1]]):
                    t = successor[b]
                    to = (b - b_first) * length
                    at[b - b_first] = to
                    for z in range(to, to + length):
                        rows[np.uint64(z)] = 0.0
                    for z in range(start[t], start[t] + count[t]):
                        rows[to + where[targets[m]]] = law[z]
                        m += 1
        state_terms(s, length, pair_ptr, policy, group_ptr, group_branch, group_probability, successor, probability, conditional, rows, at, child_entropy, np.int64(-1), row, np.int64(0), new_entropy, new_entropy, rate, tau, pair_at, pair_entropy, scratch, terms)
        for z in range(n):
            new_law[place_at + z] = row[z]
        place_at += n
    return place_at


@kernel
def pair_step(states, pair_ptr, policy, group_ptr, group_branch, successor, probability, reward_index, start, count, rank, law, n_ranks, dense, codes, target, v_start, v_count, v_rank, v_law, where, rows, out):
    """out[k] = KL(q || v) (S1) for every pair of the listed states, infinite where q has an atom that v has not; where[] is -1 before and after."""
    half = len(rows) // 2
    for i in range(len(states)):
        s = states[i]
        n = v_count[s]
        for z in range(n):
            where[v_rank[v_start[s] + z]] = z
            rows[half + z] = v_law[v_start[s] + z]
        for z in range(n, padded(n)):
            rows[half + z] = 0.0
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            for z in range(padded(n)):
                rows[z] = 0.0
            outside = False
            for b in range(group_branch[group_ptr[k]], group_branch[group_ptr[k + 1]]):
                t = successor[b]
                for j in range(start[t], start[t] + count[t]):
                    code = reward_index[b] * n_ranks + rank[j]
                    to = place(code, dense, codes, target)
                    z = where[to] if to >= 0 else -1
                    if z < 0:
                        outside = True
                    else:
                        rows[z] += probability[b] * law[j]
            if outside:
                out[k] = np.inf
            elif n == 1:
                out[k] = 0.0
            else:
                out[k] = divergence_sum(rows, np.int64(0), rows, half, padded(n)) + hidden(rows, np.int64(0), rows, half, padded(n))
        for z in range(n):
            where[v_rank[v_start[s] + z]] = -1


@kernel
def growth(ptr, successor, reward, low, high, best, new_low, new_high):
    """Bounds on the number of atoms one step further back, by state; best[] is one slot a reward, 0 before and after.

    high: every atom of a successor brings one. low, where no two different reward sequences have one return: sequences with different first rewards
    differ, and with that first reward there are as many as the best successor has.
    """
    for s in range(len(ptr) - 1):
        upper = 0.0
        lower = 0.0
        for j in range(ptr[s], ptr[s + 1]):
            upper += high[successor[j]]
            best[reward[j]] = max(best[reward[j]], low[successor[j]])
        for j in range(ptr[s], ptr[s + 1]):
            lower += best[reward[j]]
            best[reward[j]] = 0.0
        new_low[s] = lower
        new_high[s] = upper
