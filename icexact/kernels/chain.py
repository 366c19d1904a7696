"""The Markov chain that a policy makes of the model: branches of a state's actions merged, weighted, turned round."""

import numpy as np

from icexact.kernels.jit import kernel


@kernel
def _sink(labels, weights, first, root, count):
    while True:
        child = 2 * root + 1
        if child >= count:
            return
        if child + 1 < count and labels[first + child] < labels[first + child + 1]:
            child += 1
        if labels[first + root] >= labels[first + child]:
            return
        labels[first + root], labels[first + child] = labels[first + child], labels[first + root]
        weights[first + root], weights[first + child] = weights[first + child], weights[first + root]
        root = child


@kernel
def _sort(labels, weights, first, last):
    ordered = True
    for i in range(first + 1, last):
        ordered &= labels[i - 1] <= labels[i]
    if ordered:
        return
    if last - first <= 48:
        for i in range(first + 1, last):
            x, w = labels[i], weights[i]
            j = i - 1
            while j >= first and labels[j] > x:
                labels[j + 1] = labels[j]
                weights[j + 1] = weights[j]
                j -= 1
            labels[j + 1] = x
            weights[j + 1] = w
    else:
        count = last - first
        for root in range(count // 2 - 1, -1, -1):
            _sink(labels, weights, first, root, count)
        for size in range(count - 1, 0, -1):
            labels[first], labels[first + size] = labels[first + size], labels[first]
            weights[first], weights[first + size] = weights[first + size], weights[first]
            _sink(labels, weights, first, np.int64(0), size)


@kernel
def merge(begin, end, at, pair_ptr, branch_ptr, label, probability, policy, out_ptr, out_label, out_weight):
    """Write, for states begin..end-1, the distinct labels of their branches, ascending, with the summed weight policy x probability.

    Branches of label < 0 or weight 0 are left out. Entries are written from `at` on; returns (where they end, the most branches in one entry).
    """
    most = 1
    for s in range(begin, end):
        first = at
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if policy[k] > 0.0:
                for b in range(branch_ptr[k], branch_ptr[k + 1]):
                    if label[b] >= 0:
                        out_label[at] = label[b]
                        out_weight[at] = policy[k] * probability[b]
                        at += 1
        _sort(out_label, out_weight, first, at)
        last = first
        run = 0
        for i in range(first, at):
            if run > 0 and out_label[last - 1] == out_label[i]:
                out_weight[last - 1] += out_weight[i]
                run += 1
                most = max(most, run)
            else:
                out_label[last] = out_label[i]
                out_weight[last] = out_weight[i]
                last += 1
                run = 1
        at = last
        out_ptr[s + 1] = at
    return at, most


@kernel
def transpose(begin, end, ptr, column, weight, starts, out_column, out_weight):
    """Rows begin..end-1 of a CSR table into the table turned round; starts[c] is where row c continues, and is moved on."""
    for s in range(begin, end):
        for i in range(ptr[s], ptr[s + 1]):
            c = np.uint64(column[i])
            at = np.uint64(starts[c])
            out_column[at] = s
            out_weight[at] = weight[i]
            starts[c] += 1


@kernel
def least_step(pair_ptr, branch_ptr, next_state, ends, probability, policy, old, new):
    """new[s] = the smallest product of weights along a path from s, from old[] of one step later; returns the smallest of all, pairs that are not played among them."""
    smallest = 1.0
    for s in range(np.uint64(len(pair_ptr) - 1)):
        v = 1.0
        for k in range(np.uint64(pair_ptr[s]), np.uint64(pair_ptr[s + np.uint64(1)])):
            q = 1.0
            for b in range(np.uint64(branch_ptr[k]), np.uint64(branch_ptr[k + np.uint64(1)])):
                q = min(q, probability[b] * (1.0 if ends[b] else old[np.uint64(next_state[b])]))
            smallest = min(smallest, q)
            if policy[k] > 0.0:
                v = min(v, policy[k] * q)
        new[s] = v
        smallest = min(smallest, v)
    return smallest


@kernel
def groups(begin, end, at, branch_ptr, reward_index, probability, group_ptr, group_branch, group_probability, conditional):
    """Split the branches of pairs begin..end-1 by reward: where each group begins, its probability, and each branch's share in it.

    Branches are ordered by reward. Returns where the groups end.
    """
    for k in range(begin, end):
        b = branch_ptr[k]
        while b < branch_ptr[k + 1]:
            e = b
            total = 0.0
            while e < branch_ptr[k + 1] and reward_index[e] == reward_index[b]:
                total += probability[e]
                e += 1
            if b == branch_ptr[k] and e == branch_ptr[k + 1]:
                total = 1.0
                for i in range(b, e):
                    conditional[i] = probability[i]
            else:
                for i in range(b, e):
                    conditional[i] = probability[i] / total if e - b > 1 else 1.0
            group_branch[at] = b
            group_probability[at] = total
            at += 1
            b = e
        group_ptr[k + 1] = at
    group_branch[at] = branch_ptr[end]
    return at


@kernel
def push_reachable(states, pair_ptr, branch_ptr, next_state, ends, possible, stamp, mark, out):
    """The states that can follow the listed ones in one step (unsorted); mark[] holds the stamp of those already listed."""
    n = 0
    for i in range(len(states)):
        s = states[i]
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if possible[k]:
                for b in range(branch_ptr[k], branch_ptr[k + 1]):
                    t = next_state[b]
                    if not ends[b] and mark[t] != stamp:
                        mark[t] = stamp
                        out[n] = t
                        n += 1
    return n


@kernel
def merge_unsorted(begin, end, at, pair_ptr, branch_ptr, next_state, ends, probability, policy, place, times, out_ptr, out_label, out_weight):
    """`merge` by the state entered, branches that end left out, entries in the order in which they first come. place [S] starts negative; times [S] is scratch."""
    most = 1
    for s in range(begin, end):
        first = at
        for k in range(np.uint64(pair_ptr[s]), np.uint64(pair_ptr[s + 1])):
            if policy[k] > 0.0:
                for b in range(np.uint64(branch_ptr[k]), np.uint64(branch_ptr[k + np.uint64(1)])):
                    if not ends[b]:
                        t = np.uint64(next_state[b])
                        i = place[t]
                        if i >= first:
                            out_weight[np.uint64(i)] += policy[k] * probability[b]
                            times[t] += 1
                            most = max(most, times[t])
                        else:
                            place[t] = at
                            times[t] = 1
                            out_label[np.uint64(at)] = t
                            out_weight[np.uint64(at)] = policy[k] * probability[b]
                            at += 1
        out_ptr[s + 1] = at
    return at, most
