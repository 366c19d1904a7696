"""One forward and one backward pass: everything that `credit`, `information_sparsity` and `analyze` report, in nats.

Laws, skill, luck and noise (S2), (C1) come from the fused kernels, which hold two steps of laws; the variance split (C6) from the values; the sides
of Proposition 1 (C4) from the chain. Each sum is kept in the two parts whose bounds differ, entropies and Bregman.
"""

from dataclasses import dataclass, replace

import numpy as np

from icexact import bounds, kernels
from icexact.chain import branching, least_path, merged, outcome_labels, restrict, start_branching
from icexact.keys import Keys
from icexact.lattice import Lattice, supports
from icexact.laws import Laws
from icexact.occupancy import Forward, propagate
from icexact.progress import Progress
from icexact.support import KeyPlan, choose

TAU = 2e-8  #: an entropy difference is taken as it is where its error is below this share of it, else it is done again in Bregman form
SMALL_TAU = 1e-12  #: the same where the work is small: then more digits cost nothing that is felt
SMALL = 1 << 18  #: pairs times atoms of the widest law, for one step


@dataclass(eq=False)
class Backward:
    """What the passes found, in nats: arrays by step, with their errors; index h = 0 .. H-1."""

    value: np.ndarray  # [3, H] skill, luck, noise
    error: np.ndarray
    by_state: np.ndarray  # [3, S]: summed over the steps
    by_state_error: np.ndarray
    entropy: tuple  # H(Z), error
    law: Laws
    law_count: int
    law_underflow: float
    policy_entropy: tuple  # [H], error
    proposition_1: tuple  # left, right, gap, and their errors: [3, H] twice
    variance: tuple  # [3, H], error
    variance_total: tuple
    mean: tuple
    forward: Forward
    states: np.ndarray  # the numbers that forward's states have in the caller's model
    method: str


class _Sums:
    """Skill, luck and noise by step and by state, as the parts that their bounds need."""

    def __init__(self, horizon, n_states):
        self.step = np.zeros((12, horizon + 1))
        self.rate = np.zeros((3, horizon + 1))  # of the entropy parts
        self.state = np.zeros((12, n_states))

    def add(self, h, weights, terms, states, rate):
        sums = np.empty(12)
        kernels.entropy.weighted_sums(weights, terms, states, sums)
        kernels.entropy.accumulate(weights, terms, states, self.state)
        self.put(h, sums, rate)

    def put(self, h, sums, rate):
        for i, late in ((0, 0), (1, 1), (2, 0)):  # the luck of the transition that leaves step h belongs to step h + 1
            self.step[4 * i : 4 * i + 4, h + late] = sums[4 * i : 4 * i + 4]
            self.rate[i, h + late] = rate


def backward(mdp, policy, horizon, gamma, *, budget, engine=None, progress=None, tau=None):
    """Run the passes on the part of the model that can be occupied."""
    part = restrict(mdp, policy, horizon)
    model, read = part.mdp, part.policy
    if horizon == 0:
        return _nothing(mdp, gamma)
    plan = choose(model, np.ones(model.n_pairs, dtype=np.bool_), horizon, gamma, engine, budget, lambda plan, k: 8 * k * model.n_states, "occupancy and lattice rows", read, True)
    method = f"{'integer lattice' if plan is not None else 'exact keys'}, float64 with proven error"
    forward = propagate(model, read, horizon, budget, False, want_support=True, alone=False)
    b = branching(model)
    counts = _Counts(model, read, b, horizon)
    walk = Lattice(plan, horizon) if plan is not None else Keys(KeyPlan(model.rewards.values, gamma), model.n_states, horizon, budget)

    sums = _Sums(horizon, model.n_states)
    values = _Values(model, read, b, horizon, gamma)
    terms = np.zeros((12, model.n_states))
    entropy, later_entropy = np.zeros(model.n_states + 1), np.zeros(model.n_states + 1)
    width = 1
    with Progress(progress, horizon, "credit") as bar:
        for h in range(horizon - 1, -1, -1):
            states, weights = forward.support[h], read.at(h)
            rate = counts.rate(max(width, walk.width))
            share = tau or (SMALL_TAU if walk.width * model.n_pairs <= SMALL else TAU)
            walk.credit_step(states, b, weights, later_entropy, entropy, rate, share, terms)
            width = max(width, walk.width)
            entropy, later_entropy = later_entropy, entropy
            sums.add(h, forward.state[h], terms, states, counts.rate(width))
            values.step(h, states, forward.state[h])
            bar.advance()
    result = Backward(None, None, None, None, None, None, 0, 0.0, _policy_entropy(model, read, forward), _proposition_1(model, read, b, forward, tau or TAU), *values.split(forward), forward, part.states, method)
    _finish(result, mdp, model, part, b, walk, counts, sums, later_entropy, width, tau or TAU)
    return result


class _Counts:
    """Roundings of the laws step by step, and of what mixes them."""

    def __init__(self, model, policy, b, horizon):
        pair, self.policy = int(model.pair_rounding.max()), policy.rounding
        group = pair + b.largest_group
        share = pair + group + 1
        q = pair + 1 + bounds.mixture_depth(b.largest_pair)
        v = q + self.policy + 1 + bounds.mixture_depth(b.most_actions)
        m = share + 1 + bounds.mixture_depth(b.largest_group)
        k = horizon - np.arange(horizon + 1)  # steps to go at h
        self.v = v * k
        self.q = np.append(self.v[1:] + q, 0)
        self.m = np.append(self.v[1:] + m, 0)
        self.shares = max(self.policy, share) + b.largest_state
        # a mixture from its computed parts, by whichever way it was formed
        self.mixing = max(self.policy + 1 + bounds.mixture_depth(b.most_actions), share + m + q + group)
        self.weights = self.policy + group + b.largest_state + 4
        self.horizon = horizon
        self.least = float(model.probability.min()) * float(policy.table[policy.table > 0].min())
        self.terms = b.largest_state
        self.risk = bounds.may_underflow(float(model.initial[model.initial > 0].min()), self.least, horizon) and least_path(model, policy, horizon) < 2.0**bounds.TINY_EXPONENT
        if self.risk:
            extra = bounds.underflow_count(horizon, self.terms)
            self.v, self.q, self.m = self.v + extra, self.q + extra, self.m + extra

    def rate(self, width):
        return bounds.entropy_rate(self.mixing, width, self.shares)

    def parts(self):
        """Roundings of (p, q) in the Bregman sums of skill and noise at step h and luck at step h + 1: int [3, 2, H+1]."""
        mixed = np.maximum(self.q, self.m)
        late = np.roll(np.stack([self.v, self.v]), 1, axis=1)
        late[1, 1:] = mixed[:-1]
        late[0, 1:] = self.v[1:]
        late[:, 0] = self.v[0]
        return np.stack([np.stack([self.q, self.v]), late, np.stack([self.m, self.q])])


def _finish(result, mdp, model, part, b, walk, counts, sums, later_entropy, width, tau):
    """The first state's share, the law of Z and its entropy, and the errors of all sums."""
    horizon, forward = counts.horizon, result.forward
    starts = forward.support[0]
    first = start_branching(starts, np.ascontiguousarray(model.initial[starts]))
    z_count = int(counts.v[0]) + model.initial_rounding + 1 + bounds.mixture_depth(len(starts))
    z_entropy, terms = np.zeros(1), np.zeros((12, 1))
    rate = bounds.entropy_rate(model.initial_rounding + 1 + bounds.mixture_depth(len(starts)), width * len(starts), model.initial_rounding + len(starts))
    law = walk.credit_start(first, later_entropy, z_entropy, rate, tau, terms)
    if counts.risk and law.low is not None:
        for h, flags in supports(model, part.policy, law.plan, horizon):
            if h == 0:
                law = replace(law, possible=flags[starts].any(axis=0)[None, :], floor=int(law.plan.lowest.min()))
    keys, p = law.row(0)
    sums.step[4:8, 0] = terms[4:8, 0]
    sums.rate[1, 0] = rate

    p_count, q_count = counts.parts().transpose(1, 0, 2)
    q_count[1, 0], p_count[1, 0] = z_count, counts.v[0]
    step = sums.step.reshape(3, 4, horizon + 1)
    result.value = step[:, 0, :horizon].copy()
    error = np.zeros((3, horizon + 1))
    for i in range(3):
        for h in range(horizon):
            error[i, h] = bounds.difference_error(*step[i, :, h], p_count[i, h], q_count[i, h], sums.rate[i, h], width * len(starts) if h == 0 else width)
    weight = np.append(forward.count, 0) + counts.weights
    weight = np.stack([weight, np.append(0, weight[:-1]) + 1, weight])
    error = error * (1 + bounds.gamma(weight)) + step[:, 0] * bounds.gamma(weight)
    lost = (4 * bounds.dust(width) + forward.underflow * model.n_states * 100) if counts.risk or forward.underflow else 0.0
    result.error = (error[:, :horizon] + lost) * (1 + 1e-9)

    state = sums.state.reshape(3, 4, -1)
    by_state_error = np.stack([bounds.difference_error(*state[i], int(p_count[i].max()), int(q_count[i].max()), counts.rate(width), width) for i in range(3)])
    relative = bounds.gamma(int(weight.max()) + horizon + 2)
    by_state_error = (by_state_error * (1 + relative) + state[:, 0] * relative + horizon * lost) * (1 + 1e-9)
    result.by_state, result.by_state_error = np.zeros((3, mdp.n_states)), np.zeros((3, mdp.n_states))
    result.by_state[:, part.states], result.by_state_error[:, part.states] = state[:, 0], by_state_error

    result.law, result.law_count = law, z_count
    result.law_underflow = bounds.underflow(horizon, counts.terms) if counts.risk else 0.0
    value = kernels.entropy.pivot_entropy(np.ascontiguousarray(p), 0, len(p), 1.0) if len(p) > 1 else 0.0
    result.entropy = value, value * bounds.pivot_rate(z_count, len(p)) + (2 * bounds.dust(len(p)) if counts.risk else 0.0)


def _nothing(mdp, gamma):
    """No step: the return is 0."""
    none = np.zeros((3, 0))
    law = Laws(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), np.ones(1), rank=np.zeros(1, dtype=np.int64), table=np.zeros(1, dtype=np.int64), plan=KeyPlan((), gamma), k=0)
    state = np.zeros((3, mdp.n_states))
    return Backward(none, none, state, state, (0.0, 0.0), law, 0, 0.0, (np.zeros(0), np.zeros(0)), (none, none), (none, none), (0.0, 0.0), (0.0, 0.0), Forward(np.zeros((0, 0)), np.zeros(0, dtype=np.int64), 0.0, []), np.zeros(0, dtype=np.int64), "no steps")


def _policy_entropy(model, policy, forward):
    """H(A_h | S_h) for each h, with its error."""
    horizon = len(forward.state)
    value, entropies = np.zeros(horizon), None
    actions = int(np.diff(model.pair_ptr).max())
    for h in range(horizon):
        if entropies is None or len(policy.table) > 1:
            entropies = np.empty((1, model.n_states))
            kernels.entropy.row_entropies(model.pair_ptr, policy.at(h).copy(), entropies[0])
        kernels.entropy.weighted_sums(forward.state[h], entropies, forward.support[h], value[h : h + 1])
    error = value * (bounds.pivot_rate(policy.rounding, actions) + bounds.gamma(forward.count + 4)) + forward.underflow * model.n_states * 100
    return value, error + np.where(_tiny(policy.table), bounds.dust(actions), 0.0)


def _tiny(weights):
    """Whether positive weights may be so small that entropies leave them out."""
    return bool(weights[weights > 0].min() < 2.0**-999)


def _proposition_1(model, policy, b, forward, tau):
    """(C4): left H(R_h | tau_{h-1}, S_{h+1}), right H(R_h | tau_{h-1}) and the gap, [3, H] each with its error."""
    horizon = len(forward.state)
    table = model.rewards
    zero = table.values.index(0) if 0 in table.values else len(table.values)
    n_labels = len(table.values) + 1
    label = outcome_labels(model, n_labels)
    groups = len(b.group_probability)
    group_pair = np.repeat(np.arange(model.n_pairs), np.diff(b.group_ptr))
    every_group = np.arange(groups)
    pair = int(model.pair_rounding.max())
    value, error = np.zeros((3, horizon)), np.zeros((3, horizon))
    chain = out = None
    for h in range(horizon):
        if chain is None or len(policy.table) > 1:
            chain, out = merged(model, policy.at(h), label), None
            distinct, number = np.unique(np.append(chain.entry, model.n_states * n_labels + zero), return_inverse=True)
            number, last = np.ascontiguousarray(number[:-1]), int(number[-1])
            entry_count = policy.rounding + pair + 1 + chain.most
            # a label gets one weight from each branch of a node; so many labels there can be
            width = min(b.largest_group * chain.longest, len(distinct)) + 1
            joint = np.zeros(len(distinct))
            room = np.zeros(n_labels), np.empty(n_labels, dtype=np.int64), np.empty(n_labels)
            held = np.empty(width, dtype=np.int64), np.empty(width)
        if h == 0:
            # as many parts as there are states to start in: all their rows are brought together here
            rows = np.repeat(np.arange(model.n_states), np.diff(chain.ptr))
            mass = np.bincount(number, model.initial[rows] * chain.weight, minlength=len(distinct))
            listed = np.flatnonzero(mass > 0)
            joint[listed] = mass[listed]
            parts = len(listed)
            count, weight_count = model.initial_rounding + 1 + entry_count + int(np.bincount(number[model.initial[rows] > 0]).max(initial=1)) + parts, 0
            rate, one = _joint_rate(count, parts), np.zeros((1, 6))
            kernels.reward_entropy.joint_terms(parts, n_labels, distinct, joint, listed, np.empty(parts), *room, rate, tau, one, 0)
            sums = one[0]
        else:
            parts = width
            count = 2 * pair + b.largest_group + 1 + entry_count + 1 + b.largest_group + parts
            rate = _joint_rate(count, parts)
            if out is None:
                out = np.zeros((groups, 6))
                seen, state_out = np.zeros(model.n_states, dtype=np.bool_), np.zeros((model.n_states, 6))
                step = max(1, (1 << 24) // (b.largest_group * chain.longest))
                for begin in range(0, groups, step):
                    kernels.reward_entropy.nodes(begin, min(begin + step, groups), b.group_branch, b.successor, b.conditional, model.n_states, chain.ptr, number, chain.weight, last, n_labels, distinct, joint, *held, *room, rate, tau, seen, state_out, out)
                columns = np.ascontiguousarray(out.T)
            weights = (forward.state[h - 1][model.pair_state] * policy.at(h - 1))[group_pair] * b.group_probability
            sums = np.empty(6)
            kernels.entropy.weighted_sums(weights, columns, every_group, sums)
            weight_count = int(forward.count[h - 1]) + policy.rounding + pair + b.largest_group + 6
        if h == horizon - 1:
            sums = np.array([sums[1], sums[1], 0.0, 0.0, 0.0, 0.0])
        value[:, h] = sums[:3]
        # a part over its block: both are off by `count` roundings, and the logarithm of a ratio below 1/2 by no more than thrice that of itself
        error[:2, h] = sums[:2] * (bounds.pivot_rate(4 * count, parts) + float(bounds.gamma(weight_count)))
        error[2, h] = bounds.difference_error(*sums[2:], count, 2 * count + 4, rate, parts) + sums[2] * bounds.gamma(weight_count)
    # of an entry of a joint law three factors may be tiny: the first state or a branch, the action, the branch after it
    least = float(model.probability.min())
    start = min(least, float(model.initial[model.initial > 0].min()))
    lost = 4 * bounds.dust(len(distinct) + n_labels) if bounds.may_underflow(start, least, 1) or bounds.may_underflow(start * least, float(policy.table[policy.table > 0].min()), 1) else 0.0
    return value, error * (1 + 1e-9) + forward.underflow * model.n_states * 100 + lost


def _joint_rate(count, parts):
    return bounds.entropy_rate(2 * count, 1, 2 * parts + 2 * bounds.LOG + 12)


class _Values:
    """Q, V and the split of the variance (C6), backward."""

    def __init__(self, model, policy, b, horizon, gamma):
        self.model, self.policy, self.b, self.horizon, self.gamma = model, policy, b, horizon, gamma
        pair = int(model.pair_rounding.max())
        share = 2 * pair + b.largest_group + 1
        deepest = share + (pair + b.largest_group) + policy.rounding + b.largest_group + b.largest_pair + b.most_actions + 8
        self.count = deepest * (horizon - np.arange(horizon + 1))
        self.weight_count = policy.rounding + pair + b.largest_group + b.largest_state + 6
        self.value, self.scale = np.zeros((2, model.n_states + 1)), np.zeros((2, model.n_states + 1))
        self.pair_value = np.zeros((2, model.n_pairs))
        self.terms = np.zeros((6, model.n_states))
        self.sums = np.zeros((6, horizon + 1))
        self.group_reward = model.reward[b.group_branch[:-1]]
        size = np.abs(model.reward)
        weight = float(model.probability.min()) * float(policy.table[policy.table > 0].min())
        self.risk = bool(((size > 0) & (size < 2.0**-900)).any()) or bounds.may_underflow(float(model.initial[model.initial > 0].min()), weight, horizon)
        self.there = np.zeros((3, horizon + 1), dtype=np.bool_)  # whether there is anything to vary, be it ever so small

    def step(self, h, states, weights):
        b, now, later = self.b, h % 2, (h + 1) % 2
        rate = float(bounds.gamma(self.count[h] + 2))
        size = max(1, (1 << 25) // b.largest_state)
        for begin in range(0, len(states), size):
            kernels.values.step(
                begin, min(begin + size, len(states)), states, b.pair_ptr, self.policy.at(h), b.group_ptr, b.group_branch, b.group_probability, b.successor, b.probability, b.conditional,
                self.group_reward, float(self.gamma), self.value[later], self.scale[later], self.value[now], self.scale[now], self.pair_value, rate, self.risk, self.terms,
            )  # fmt: skip
        sums = np.empty(6)
        kernels.entropy.weighted_sums(weights, self.terms, states, sums)
        there = (self.terms[1::2, states] > 0).any(axis=1)
        self.there[0, h], self.there[1, h + 1], self.there[2, h] = there
        self.sums[[0, 1, 4, 5], h] = sums[[0, 1, 4, 5]]
        self.sums[2:4, h + 1] = sums[2:4]

    def split(self, forward):
        """((value, error) [3, H] of skill, luck, noise; (value, error) of their sum; (value, error) of the mean)."""
        starts, weights = forward.support[0], self.model.initial[forward.support[0]]
        v, size = self.value[0][starts], self.scale[0][starts]
        rate = float(bounds.gamma(self.count[0] + len(starts) + self.model.initial_rounding + 4))
        mean, mean_size = float(weights @ v), float(weights @ size)
        if len(starts) > 1:
            x, d = v - mean, rate * (size + mean_size)
            self.sums[2, 0], self.sums[3, 0] = weights @ (x * x), weights @ (2 * np.abs(x) * d + d * d)
            self.there[1, 0] = self.risk or bool((d > 0).any() or x.any())
        horizon = self.horizon
        power = np.array([float(self.gamma ** (2 * h)) for h in range(horizon)])
        value = self.sums[0::2, :horizon] * power
        weight = forward.count + self.weight_count + len(starts) + 4
        weight = np.maximum(weight, np.append(0, weight[:-1]))
        error = (self.sums[1::2, :horizon] * power * (1 + bounds.gamma(weight)) + value * bounds.gamma(weight)) * (1 + 1e-9)
        # what squares, products and powers of the discount below the range of float64 may have lost
        size = float(self.scale.max()) + 1.0
        error = error + np.where(self.there[:, :horizon], 2.0**-960 * size * size, 0.0)
        if forward.underflow:
            error = error + forward.underflow * self.model.n_states * size**2
        total = float(value.sum())
        if not (np.isfinite(value).all() and np.isfinite(error).all() and np.isfinite(mean_size)):
            raise ValueError("the variance of the return is beyond the range of float64: scale the rewards down; no information changes by it")
        return (value, error), (total, float(error.sum()) * (1 + 1e-9) + total * float(bounds.gamma(3 * horizon + 3))), (mean, rate * mean_size + (2.0**-960 * size if self.risk else 0.0))
