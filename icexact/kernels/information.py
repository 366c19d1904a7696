"""Skill, luck and noise of one state at one step (C1), from the rows of its successors' laws.

Entropies first: skill = H(v) - sum_a pi H(q_a), luck = H(m) - sum_s' p H(v'), noise = H(q) - sum_r p H(m_r), one logarithm an atom. A difference
that is small against its entropies (rate * scale > tau * difference, rate being the entropies' error) is done again in Bregman form,
whose error vanishes with the value. Where all laws of a state have an atom of more than 1/2 at one place, entropies by the other atoms have
relative errors, and what is small against 1 only, as far from all rewards, stays with them. Both parts are reported apart, since their bounds differ:

terms[0:4, s]  skill: value, scale of the entropy part, value of the Bregman part, weight (0 where the value is 0 for a reason); [4:8] luck; [8:12] noise.
Luck is that of the transition which leaves s, per visit of s; so is noise.
"""

import numpy as np

from icexact.kernels.entropy import TINY, by_rest, divergence_sum, entropy, others, same
from icexact.kernels.jit import inlined, kernel
from icexact.kernels.logarithm import log
from icexact.kernels.rows import mix


@inlined
def _split(value, scale, rate, tau):
    """Whether the entropy form is good enough for a difference of that scale."""
    return rate * scale <= tau * value


@kernel
def mixture_terms(n, count, successor, shares, b, rows, at, j, child_entropy, more, mixed, mixed_at, mixed_entropy, rate, tau, weight, terms, where, s):
    """Jensen-Shannon divergence of `count` rows from their mixture, times weight, added to terms[where : where+4, s].

    Their shares are shares[b:], the states they belong to successor[b:], their places at[j:]; the mixture is mixed[mixed_at:]. `more` is what the scale
    of the entropies has beside them.
    """
    inside = 0.0
    alike = True
    for i in range(b, b + count):
        e = child_entropy[successor[i]]
        inside += shares[i] * e
        alike &= e == child_entropy[successor[b]]
    value = mixed_entropy - inside
    scale = mixed_entropy + inside + more
    if scale > 0.0 and _split(value, scale, rate, tau):
        terms[where, s] += weight * value
        terms[where + 1, s] += weight * scale
        terms[where + 3, s] += weight
        return
    if alike:
        for i in range(j + 1, j + count):
            alike &= same(rows, at[j], at[i], n)
        if alike and inside == 0.0:
            return  # one and the same certain return
    value = 0.0
    if not alike:
        for i in range(count):
            value += shares[b + i] * divergence_sum(rows, at[j + i], mixed, mixed_at, n)
    terms[where, s] += weight * value
    terms[where + 2, s] += weight * value
    terms[where + 3, s] += weight


@inlined
def distinct(successor, begin, end):
    """How many different successors a group has; those that end are one."""
    n = 1
    for i in range(begin + 1, end):
        if successor[i] != successor[i - 1]:
            n += 1
    return n


@inlined
def _entropy_of(rows, at, n, top):
    """By the other atoms where all the state's laws have one place for their largest."""
    if top < 0:
        return entropy(rows, at, n)
    total, mass = others(rows, at, n, top)
    return by_rest(total, mass)


@inlined
def state_terms(s, n, pair_ptr, policy, group_ptr, group_branch, group_probability, successor, probability, conditional, rows, at, child_entropy, top, out, to, new_entropy, new_close, rate, tau, pair_at, pair_entropy, scratch, terms):
    """The law v of state s into out[to : to+n], its entropy into new_entropy[s], and its terms.

    at[], counted from the state's first branch, is where the rows of the successors' laws begin, each already moved by its reward.

    top >= 0: every one of these rows has an atom of more than 1/2, all of them at row + top. Then child_entropy[] are entropies by the other atoms, and so
    is new_close[s]: each with a relative error, so that their differences have no absolute one.
    """
    for i in range(12):
        terms[i, s] = 0.0
    first = group_branch[group_ptr[pair_ptr[s]]]
    played = 0
    only = np.int64(0)
    inside = 0.0
    more = 2.0 if top < 0 else 0.0
    first_pair = pair_ptr[s]
    actions = pair_ptr[s + 1] - first_pair
    for a in range(actions):
        k = first_pair + a
        weight = policy[k]
        q = a * n
        # a pair that is not played keeps what its row held: finite, and times 0
        pair_at[a] = q
        if weight == 0.0:
            continue
        g0, g1 = group_ptr[k], group_ptr[k + 1]
        j0, j1 = group_branch[g0] - first, group_branch[g1] - first
        mix(scratch, q, n, rows, at, j0, probability, first + j0, j1 - j0)
        if j1 - j0 == 1:
            e = child_entropy[successor[first + j0]]
        else:
            e = _entropy_of(scratch, q, n, top)
        if g1 - g0 == 1:
            if distinct(successor, first + j0, first + j1) > 1:
                mixture_terms(n, j1 - j0, successor, probability, first + j0, rows, at, j0, child_entropy, more, scratch, q, e, rate, tau, weight, terms, np.int64(4), s)
        else:
            _noisy_pair(n, g0, g1, first, group_branch, group_probability, successor, conditional, rows, at, child_entropy, top, more, scratch, q, e, rate, tau, weight, terms, s)
        pair_entropy[a] = e
        inside += weight * e
        played += 1
        only = a
    mix(out, to, n, scratch, pair_at, np.int64(0), policy, first_pair, actions)
    if top >= 0:
        total, mass = others(out, to, n, top)
        value = by_rest(total, mass)
        new_close[s] = value
        p = out[to + top]
        new_entropy[s] = total - p * log(p)
    elif played == 1:
        value = pair_entropy[only]
        new_entropy[s] = value
    else:
        value = entropy(out, to, n)
        new_entropy[s] = value
    if played == 1:
        return
    scale = value + inside + more
    if scale > 0.0 and _split(value - inside, scale, rate, tau):
        terms[0, s] = value - inside
        terms[1, s] = scale
        terms[3, s] = 1.0
        return
    alike = True
    for a in range(actions):
        if policy[first_pair + a] > 0.0:
            alike = alike and same(scratch, pair_at[only], pair_at[a], n)
    if not alike:
        for a in range(actions):
            if policy[first_pair + a] > 0.0:
                terms[0, s] += policy[first_pair + a] * divergence_sum(scratch, pair_at[a], out, to, n)
    terms[2, s] = terms[0, s]
    terms[3, s] = 1.0


@inlined
def _noisy_pair(n, g0, g1, first, group_branch, group_probability, successor, conditional, rows, at, child_entropy, top, more, scratch, q, q_entropy, rate, tau, weight, terms, s):
    """Luck and noise of a pair whose reward is random: one group of branches a reward."""
    mixed = len(scratch) - n  # behind the rows of the actions
    inside = 0.0
    for g in range(g0, g1):
        j0, j1 = group_branch[g] - first, group_branch[g + 1] - first
        if distinct(successor, first + j0, first + j1) == 1:
            e = child_entropy[successor[first + j0]]
        else:
            mix(scratch, mixed, n, rows, at, j0, conditional, first + j0, j1 - j0)
            e = _entropy_of(scratch, mixed, n, top)
            mixture_terms(n, j1 - j0, successor, conditional, first + j0, rows, at, j0, child_entropy, more, scratch, mixed, e, rate, tau, weight * group_probability[g], terms, np.int64(4), s)
        inside += group_probability[g] * e
    value = q_entropy - inside
    scale = q_entropy + inside + more
    if scale > 0.0 and _split(value, scale, rate, tau):
        terms[8, s] += weight * value
        terms[9, s] += weight * scale
        terms[11, s] += weight
        return
    value = 0.0
    for g in range(g0, g1):
        j0, j1 = group_branch[g] - first, group_branch[g + 1] - first
        if j1 - j0 == 1:
            value += group_probability[g] * divergence_sum(rows, at[j0], scratch, q, n)
        else:
            mix(scratch, mixed, n, rows, at, j0, conditional, first + j0, j1 - j0)
            value += group_probability[g] * divergence_sum(scratch, mixed, scratch, q, n)
    terms[8, s] += weight * value
    terms[10, s] += weight * value
    terms[11, s] += weight


@inlined
def hidden(p_rows, p_at, q_rows, q_at, n):
    """What `divergence_sum` leaves out: atoms of p of at least 2^-1000 where q is smaller, for q may be that small against p where an action is hardly ever played."""
    total = 0.0
    for i in range(n):
        p, q = p_rows[p_at + i], q_rows[q_at + i]
        if p >= TINY and 0.0 < q < TINY:
            total += p * (log(p) - log(q * 2.0**64) + 44.3614195558364998) - (p - q)
    return total


@inlined
def pair_divergence(n, rows, at, weights, first, count, scratch, v_rows, v_at):
    """KL(q || v) of one pair in Bregman form (S1); infinite where q has an atom that v has not."""
    mix(scratch, np.int64(0), n, rows, at, np.int64(0), weights, first, count)
    for i in range(n):
        if scratch[i] > 0.0 and v_rows[v_at + i] == 0.0:
            return float("inf")
    return divergence_sum(scratch, np.int64(0), v_rows, v_at, n) + hidden(scratch, np.int64(0), v_rows, v_at, n)
