"""Tables of nodes: beliefs forward in time, messages backward, one column a node, one row a state, the row of the end last.

A table is flat, row s beginning at s * width; widths are multiples of 16 and columns beyond the nodes are zero. Rows of states that are not listed are never
read. Columns carry powers of two of their own (see nodes.py), so that their weights, the sums of g[s] x[s], lie in [1/2, 1).
"""

import numpy as np

from icexact.kernels.entropy import TINY, pivot_entropy
from icexact.kernels.jit import inlined, kernel
from icexact.kernels.logarithm import divergence, log
from icexact.kernels.rows import mix

FLOOR = 2.0**-960  # entries whose share of their column's weight is below it are left out
TILE = 1024  # columns summed at once: they stay in the first cache
BLOCK = 64  # states summed before they are added to the rest, so that no sum is deeper than BLOCK + S / BLOCK


@kernel
def expand(states, run_ptr, run_label, entry_ptr, source, weight, block, n_blocks, x, width, y, at):
    """y[s] of the listed states: for each label with a block the sum of weight * x[source] over the entries of its run, zeros where it has none.

    Runs of row s are run_ptr[s]:run_ptr[s+1], ascending in label; y has n_blocks blocks of `width` columns; at is scratch, as long as the longest run.
    """
    wide = n_blocks * width
    for i in range(len(states)):
        s = states[i]
        base = s * wide
        filled = np.int64(0)
        for j in range(run_ptr[s], run_ptr[s + 1]):
            b = block[run_label[j]]
            if b >= 0:
                for z in range(np.uint64(base + filled * width), np.uint64(base + b * width)):
                    y[z] = 0.0
                first = entry_ptr[j]
                count = entry_ptr[j + 1] - first
                for k in range(count):
                    at[k] = source[first + k] * width
                mix(y, base + b * width, width, x, at, np.int64(0), weight, first, count)
                filled = b + 1
        for z in range(np.uint64(base + filled * width), np.uint64(base + wide)):
            y[z] = 0.0


@kernel
def project(states, functional, n_rows, count, x, width, part, out):
    """out[i * width + j] += sum over the listed states of functional[i * n_rows + s] x[s * width + j], for i < count. part [TILE] is scratch."""
    for begin in range(0, width, TILE):
        size = np.uint64(min(np.int64(TILE), width - begin))
        for low in range(0, len(states), BLOCK):
            high = min(low + BLOCK, len(states))
            for i in range(count):
                for j in range(size):
                    part[j] = 0.0
                some = False
                for k in range(low, high):
                    c = functional[i * n_rows + states[k]]
                    if c > 0.0:
                        some = True
                        row = np.uint64(states[k] * width + begin)
                        for j in range(size):
                            part[j] += c * x[row + j]
                if some:
                    to = np.uint64(i * width + begin)
                    for j in range(size):
                        out[to + j] += part[j]


@inlined
def _add(high, low, x):
    total = high + x
    back = total - high
    return total, low + ((high - (total - back)) + (x - back))


@kernel
def node_entropies(joint, width, n, mass, group_ptr, parts, groups, out):
    """out = (sum of mass * H(group | node), sum of mass * H(label | group, node)) from joint[label * width + node].

    The labels of a group are group_ptr[g]:group_ptr[g+1]. Each entropy is that of the parts over their sum, which need not be 1: mass times sum is the node's probability.
    """
    n_groups = len(group_ptr) - 1
    first = first_low = second = second_low = 0.0
    for j in range(n):
        whole = 0.0
        inner = 0.0
        for g in range(n_groups):
            begin = group_ptr[g]
            size = group_ptr[g + 1] - begin
            total = 0.0
            for i in range(begin, begin + size):
                p = joint[i * width + j]
                parts[i] = p
                total += p
            groups[g] = total
            whole += total
            if size > 1 and total > 0.0:
                inner += pivot_entropy(parts, begin, size, total)
        if whole > 0.0:
            first, first_low = _add(first, first_low, mass[j] * pivot_entropy(groups, np.int64(0), n_groups, whole))
            second, second_low = _add(second, second_low, mass[j] * inner)
    out[0] = first + first_low
    out[1] = second + second_low


@kernel
def same_direction(order, first, second, tolerance, leader):
    """leader[i], for i in `order` (ascending in first): the first of its group. A group has `first` and `second` within (1 + tolerance) of its leader's."""
    n = np.int64(0)
    for k in range(len(order)):
        i = order[k]
        if k > 0:
            lead = leader[order[k - 1]]
            if first[i] <= first[lead] * (1.0 + tolerance) and abs(second[i] - second[lead]) <= tolerance * second[lead]:
                leader[i] = lead
                continue
        leader[i] = i
        n += 1
    return n


@kernel
def ratios(states, g, y, width, column, leader, low, high):
    """low, high: the least and largest y[s, column] / y[s, leader] over the listed states with g > 0, of each pair of columns; low = 0 where one has a zero that the other has not."""
    for k in range(len(states)):
        s = states[k]
        if g[s] > 0.0:
            for p in range(np.uint64(len(column))):
                a = y[np.uint64(s * width + column[p])]
                b = y[np.uint64(s * width + leader[p])]
                if a > 0.0 and b > 0.0:
                    r = a / b
                    low[p] = min(low[p], r)
                    high[p] = max(high[p], r)
                elif a > 0.0 or b > 0.0:
                    low[p] = 0.0


@kernel
def collect(states, g, y, wide, column, target, factor, x, width):
    """x[s, target[p]] = sum of factor[p] * y[s, column[p]] over the p of that target, for the listed states; all columns of x are written."""
    for k in range(len(states)):
        s = states[k]
        to = np.uint64(s * width)
        at = np.uint64(s * wide)
        for j in range(np.uint64(width)):
            x[to + j] = 0.0
        least = FLOOR / g[s] if g[s] > 0.0 else np.inf
        for p in range(np.uint64(len(column))):
            v = factor[p] * y[at + np.uint64(column[p])]
            if v >= least:
                x[to + np.uint64(target[p])] += v


@kernel
def losses(states, g, y, wide, column, target, share, x, width, out):
    """out[p] += sum over the listed states of F(g y[s, column[p]], share[p] g x[s, target[p]]): what merging into `target` loses of the state, in Bregman form."""
    for k in range(len(states)):
        s = states[k]
        if g[s] > 0.0:
            for p in range(np.uint64(len(column))):
                q = share[p] * g[s] * x[np.uint64(s * width + target[p])]
                if q >= TINY:
                    a = g[s] * y[np.uint64(s * wide + column[p])]
                    out[p] += divergence(a if a >= TINY else 0.0, q)


@kernel
def spread(states, g, x, width, n, out):
    """out[j] += sum over the listed states of -p ln p, p = g[s] x[s, j]: how uncertain the state is at a node."""
    for k in range(len(states)):
        s = states[k]
        at = np.uint64(s * width)
        for j in range(np.uint64(n)):
            p = g[s] * x[at + j]
            p = p if p >= TINY else 0.0
            out[j] -= p * log(p)


@kernel
def sketch(states, g, bucket, sign, x, width, n, scale, out):
    """out[bucket[s] * width + j] += sign[s] sqrt(scale[j] g[s] x[s, j]): Hellinger coordinates of the law of the state at a node, folded into few."""
    for k in range(len(states)):
        s = states[k]
        at = np.uint64(s * width)
        to = np.uint64(bucket[s] * width)
        for j in range(np.uint64(n)):
            out[to + j] += sign[s] * np.sqrt(scale[j] * (g[s] * x[at + j]))


@inlined
def _moments(f, dim, weight, order, begin, end, first, second, c, score, axis, cut):
    """Weighted variance of a cluster: score, the axis of the largest and the mean there."""
    for d in range(np.uint64(dim)):
        first[d] = 0.0
        second[d] = 0.0
    total = 0.0
    for k in range(begin, end):
        i = order[k]
        w = weight[i]
        total += w
        at = np.uint64(i * dim)
        for d in range(np.uint64(dim)):
            v = w * f[at + d]
            first[d] += v
            second[d] += v * f[at + d]
    best = -1.0
    score[c] = 0.0
    for d in range(dim):
        v = max(second[d] - first[d] * first[d] / total, 0.0)
        score[c] += v
        if v > best:
            best = v
            axis[c] = d
            cut[c] = first[d] / total


@inlined
def _push(heap, size, score, c):
    i = size
    while i > 0 and score[heap[(i - 1) // 2]] < score[c]:
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = c


@inlined
def _pop(heap, size, score):
    top = heap[0]
    last = heap[size - 1]
    n = size - 1
    i = np.int64(0)
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and score[heap[child + 1]] > score[heap[child]]:
            child += 1
        if score[heap[child]] <= score[last]:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return top


@kernel
def quantise(f, dim, weight, order, limit, first, second, begin, end, score, axis, cut, heap, state):
    """Split the points f[i * dim : (i + 1) * dim] into at most `limit` clusters: always the cluster of the largest weighted variance, at the mean of its widest axis.

    order[] lists the points and is permuted, cluster c being order[begin[c]:end[c]]. state = (clusters, size of the heap), zeros to begin with; a call does a share of
    the work and returns whether there is more.
    """
    if state[0] == 0:
        begin[0] = 0
        end[0] = len(order)
        _moments(f, dim, weight, order, begin[0], end[0], first, second, np.int64(0), score, axis, cut)
        heap[0] = 0
        state[0] = 1
        state[1] = 1
    work = np.int64(0)
    while state[0] < limit and state[1] > 0:
        if work > 100_000_000:
            return True
        c = _pop(heap, state[1], score)
        state[1] -= 1
        if not score[c] > 0.0:
            return False
        i = begin[c]
        j = end[c] - 1
        work += (end[c] - begin[c]) * dim
        while i <= j:
            if f[order[i] * dim + axis[c]] <= cut[c]:
                i += 1
            else:
                order[i], order[j] = order[j], order[i]
                j -= 1
        if i == begin[c] or i == end[c]:
            continue
        new = state[0]
        state[0] += 1
        begin[new] = i
        end[new] = end[c]
        end[c] = i
        _moments(f, dim, weight, order, begin[c], end[c], first, second, c, score, axis, cut)
        _moments(f, dim, weight, order, begin[new], end[new], first, second, new, score, axis, cut)
        if end[c] - begin[c] > 1:
            _push(heap, state[1], score, c)
            state[1] += 1
        if end[new] - begin[new] > 1:
            _push(heap, state[1], score, new)
            state[1] += 1
    return False
