"""Expected returns and the split of the variance (C6), backward, from the values alone.

Beside every value runs the value of the absolute rewards: the scale of the rounding error, since rewards of both signs may cancel.
"""

from icexact.kernels.jit import inlined, kernel

FLOOR = 2.0**-900  # marks, in a slope, a term that is there: squares may fall below the range of float64


@inlined
def _mean(begin, end, conditional, successor, value):
    """Expected later value over the branches of one group."""
    total = 0.0
    for b in range(begin, end):
        total += conditional[b] * value[successor[b]]
    return total


@kernel
def step(begin, end, states, pair_ptr, policy, group_ptr, group_branch, group_probability, successor, probability, conditional, group_reward, discount, value, scale, new_value, new_scale, pair_value, rate, risk, terms):
    """Q_h and V_h of the listed states from V_{h+1}, with the scales; terms[0:6, s] = skill, its slope, luck, slope, noise, slope.

    A term is a mean square x^2, its slope the mean of 2|x| d + d^2, where d >= |error of x|: what it may be off by. value[S] = 0 is that of the end
    state. Luck and noise are those of the pairs' own branches, undiscounted here: luck is the variance of V_{h+1}, noise that of E[G_h | s, a, r].
    """
    for i in range(begin, end):
        s = states[i]
        for j in range(6):
            terms[j, s] = 0.0
        v = 0.0
        size = 0.0
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            q = 0.0
            q_size = 0.0
            for g in range(group_ptr[k], group_ptr[k + 1]):
                mean = _mean(group_branch[g], group_branch[g + 1], conditional, successor, value)
                mean_size = _mean(group_branch[g], group_branch[g + 1], conditional, successor, scale)
                if policy[k] > 0.0 and group_branch[g + 1] - group_branch[g] > 1:
                    for b in range(group_branch[g], group_branch[g + 1]):
                        x = value[successor[b]] - mean
                        d = rate * (scale[successor[b]] + mean_size)
                        weight = policy[k] * probability[b]
                        terms[2, s] += weight * (x * x)
                        terms[3, s] += weight * (2.0 * abs(x) * d + d * d)
                        if risk or x != 0.0 or d > 0.0:
                            terms[3, s] += FLOOR
                q += group_probability[g] * (group_reward[g] + discount * mean)
                q_size += group_probability[g] * (abs(group_reward[g]) + discount * mean_size)
            if policy[k] > 0.0 and group_ptr[k + 1] - group_ptr[k] > 1:
                for g in range(group_ptr[k], group_ptr[k + 1]):
                    mean = _mean(group_branch[g], group_branch[g + 1], conditional, successor, value)
                    mean_size = _mean(group_branch[g], group_branch[g + 1], conditional, successor, scale)
                    x = group_reward[g] + discount * mean - q
                    d = rate * (abs(group_reward[g]) + discount * mean_size + q_size)
                    weight = policy[k] * group_probability[g]
                    terms[4, s] += weight * (x * x)
                    terms[5, s] += weight * (2.0 * abs(x) * d + d * d)
                    if risk or x != 0.0 or d > 0.0:
                        terms[5, s] += FLOOR
            pair_value[0, k] = q
            pair_value[1, k] = q_size
            v += policy[k] * q
            size += policy[k] * q_size
        new_value[s] = v
        new_scale[s] = size
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if policy[k] > 0.0 and policy[k] < 1.0:
                x = pair_value[0, k] - v
                d = rate * (pair_value[1, k] + size)
                terms[0, s] += policy[k] * (x * x)
                terms[1, s] += policy[k] * (2.0 * abs(x) * d + d * d)
                if risk or x != 0.0 or d > 0.0:
                    terms[1, s] += FLOOR
