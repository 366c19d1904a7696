"""The two sides of Proposition 1 (C4): entropy of the next reward given the step before, with and without the state that follows it.

A node is a possible step (s, a, r): shares over successors s'. From s' the merged chain gives (next state, reward) with a weight; entries are
next state * n_labels + reward index, next state S being the end.
"""

import numpy as np

from icexact.kernels.chain import _sort
from icexact.kernels.entropy import pivot_entropy
from icexact.kernels.jit import inlined, kernel
from icexact.kernels.logarithm import divergence


@inlined
def _add(count, number, weight, joint, listed):
    """Add to a joint law; a label's number is listed when it is first given weight (one lost to underflow is not)."""
    if weight > 0.0:
        if joint[number] == 0.0:
            listed[count] = number
            count += 1
        joint[number] += weight
    return count


@kernel
def joint_terms(count, n_labels, distinct, joint, labels, weights, marginal, touched, parts, rate, tau, out, row):
    """out[row] = (H(R | S''), H(R), gap, scale of the gap's entropy part, value of its Bregman part, weight of the gap) of a joint law.

    labels[:count] lists the numbers of its labels, each once, in any order, distinct[] what labels these are (ascending); joint[] holds the weights by number, all
    positive, and is 0 elsewhere and afterwards.
    """
    n = count
    for i in range(n):
        weights[i] = joint[labels[i]]
        joint[labels[i]] = 0.0
    _sort(labels, weights, np.int64(0), n)
    for i in range(n):
        labels[i] = distinct[labels[i]]
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
def nodes(begin, end, group_branch, successor, conditional, n_states, ptr, number, weight, last, n_labels, distinct, joint, labels, weights, marginal, touched, parts, rate, tau, seen, state_out, out):
    """The terms of groups begin..end-1; number[] is an entry's label by its number, `last` that of the end, which stays and pays 0.

    Groups with one successor share that state's terms, worked out once (seen, state_out).
    """
    for g in range(begin, end):
        first = group_branch[g]
        s = successor[first]
        alone = True
        for b in range(first + 1, group_branch[g + 1]):
            alone &= successor[b] == s
        if alone and s == n_states:
            out[g, :] = 0.0
            continue
        count = np.int64(0)
        if not alone:
            for b in range(first, group_branch[g + 1]):
                s = successor[b]
                if s == n_states:
                    count = _add(count, last, conditional[b], joint, labels)
                else:
                    for j in range(ptr[s], ptr[s + 1]):
                        count = _add(count, number[j], conditional[b] * weight[j], joint, labels)
            joint_terms(count, n_labels, distinct, joint, labels, weights, marginal, touched, parts, rate, tau, out, g)
            continue
        if not seen[s]:
            for j in range(ptr[s], ptr[s + 1]):
                count = _add(count, number[j], weight[j], joint, labels)
            joint_terms(count, n_labels, distinct, joint, labels, weights, marginal, touched, parts, rate, tau, state_out, s)
            seen[s] = True
        for i in range(6):
            out[g, i] = state_out[s, i]
