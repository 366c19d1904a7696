"""The two sides of Proposition 1 (C4): entropy of the next reward given the step before, with and without the state that follows it.

A node is a possible step (s, a, r): shares over successors s'. From s' the merged chain gives (next state, reward) with a weight; entries are
next state * n_labels + reward index, next state S being the end.
"""

import numpy as np

from icexact.kernels.chain import _sort
from icexact.kernels.entropy import pivot_entropy
from icexact.kernels.jit import kernel
from icexact.kernels.logarithm import divergence


@kernel
def joint_terms(count, n_labels, labels, weights, marginal, touched, parts, rate, tau, out, row):
    """out[row] = (H(R | S''), H(R), gap, scale of the gap's entropy part, value of its Bregman part, weight of the gap) of the joint law listed as labels and weights (in any order; overwritten)."""
    _sort(labels, weights, np.int64(0), count)
    n = np.int64(0)
    for i in range(count):
        if n > 0 and labels[n - 1] == labels[i]:
            weights[n - 1] += weights[i]
        else:
            labels[n] = labels[i]
            weights[n] = weights[i]
            n += 1
    rewards = np.int64(0)
    whole = 0.0
    for i in range(n):
        r = labels[i] % n_labels
        if marginal[r] == 0.0:
            touched[rewards] = r
            rewards += 1
        marginal[r] += weights[i]
        whole += weights[i]
    for i in range(rewards):
        parts[i] = marginal[touched[i]]
    right = pivot_entropy(parts, np.int64(0), rewards, whole)
    left = 0.0
    blocks = 0
    i = np.int64(0)
    while i < n:
        e = i
        block = 0.0
        while e < n and labels[e] // n_labels == labels[i] // n_labels:
            block += weights[e]
            e += 1
        if e - i > 1:
            left += pivot_entropy(weights, i, e - i, block)
        blocks += 1
        i = e
    out[row, 0] = left
    out[row, 1] = right
    out[row, 3] = 0.0
    out[row, 4] = 0.0
    out[row, 5] = 0.0
    if blocks == 1 or rewards == 1:
        out[row, 2] = 0.0
    elif rate * (right + left + 2.0) <= tau * (right - left):
        out[row, 2] = right - left
        out[row, 3] = right + left + 2.0
        out[row, 5] = 1.0
    else:
        gap = 0.0
        i = np.int64(0)
        while i < n:
            e = i
            block = 0.0
            held = 0.0
            while e < n and labels[e] // n_labels == labels[i] // n_labels:
                block += weights[e]
                e += 1
            for j in range(i, e):
                p = marginal[labels[j] % n_labels]
                held += p
                gap += divergence(weights[j], block * p / whole)
            # the rewards that this successor never brings
            for j in range(rewards):
                seen = False
                for x in range(i, e):
                    seen |= labels[x] % n_labels == touched[j]
                if not seen:
                    gap += block * marginal[touched[j]] / whole
            i = e
        out[row, 2] = gap
        out[row, 4] = gap
        out[row, 5] = 1.0
    for i in range(rewards):
        marginal[touched[i]] = 0.0


@kernel
def node(row, begin, end, successor, share, n_states, zero_label, ptr, entry, weight, n_labels, labels, weights, marginal, touched, parts, rate, tau, out):
    """The terms of one node whose successors are begin..end-1; the end state stays and pays 0."""
    count = np.int64(0)
    for b in range(begin, end):
        s = successor[b]
        if s == n_states:
            labels[count] = n_states * n_labels + zero_label
            weights[count] = share[b]
            count += 1
        else:
            for j in range(ptr[s], ptr[s + 1]):
                labels[count] = entry[j]
                weights[count] = share[b] * weight[j]
                count += 1
    joint_terms(count, n_labels, labels, weights, marginal, touched, parts, rate, tau, out, row)


@kernel
def nodes(begin, end, group_branch, successor, conditional, n_states, zero_label, ptr, entry, weight, n_labels, labels, weights, marginal, touched, parts, rate, tau, seen, state_out, out):
    """The terms of groups begin..end-1. Those with one successor share that state's, worked out once (seen, state_out)."""
    for g in range(begin, end):
        b = group_branch[g]
        s = successor[b]
        alone = True
        for i in range(b + 1, group_branch[g + 1]):
            alone &= successor[i] == s
        if alone and s == n_states:
            out[g, :] = 0.0
        elif alone:
            if not seen[s]:
                count = np.int64(0)
                for j in range(ptr[s], ptr[s + 1]):
                    labels[count] = entry[j]
                    weights[count] = weight[j]
                    count += 1
                joint_terms(count, n_labels, labels, weights, marginal, touched, parts, rate, tau, state_out, s)
                seen[s] = True
            for i in range(6):
                out[g, i] = state_out[s, i]
        else:
            node(g, b, group_branch[g + 1], successor, conditional, n_states, zero_label, ptr, entry, weight, n_labels, labels, weights, marginal, touched, parts, rate, tau, out)
