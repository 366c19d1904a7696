"""What is seen of a process, step by step, as the recursions of nodes.py read it: a hidden Markov chain, forward in time (beliefs) or backward (messages).

Forward a node is the unnormalised law of the state given what was seen before; backward it is the likelihood, by state, of what is seen from then on. One step is
the same in both: columns x over the states, each label y with a nonnegative matrix, x' = M_y x; the weight of a column is the sum of g x, where g is 1
forward and the occupancy d_h backward. The end is one more state, number S, that sees a null action and reward 0.
"""

from dataclasses import dataclass

import numpy as np

from icexact.chain import merged, successors
from icexact.occupancy import propagate

SEEN = ("action", "reward", "action+reward")


@dataclass(frozen=True, eq=False)
class Labels:
    """What a branch shows: label int64 [B]; `end` that of the end; labels of group g (an action, if rewards are seen with it) are group_ptr[g]:group_ptr[g+1]."""

    branch: np.ndarray
    end: int
    group_ptr: np.ndarray

    @property
    def count(self):
        return int(self.group_ptr[-1])


def labels(mdp, of):
    """The `Labels` of "action", "reward" or both at once."""
    rewards = mdp.rewards
    zero = rewards.values.index(0) if 0 in rewards.values else len(rewards.values)
    n_rewards = max(len(rewards.values), zero + 1)
    action = np.repeat(mdp.pair_action, np.diff(mdp.branch_ptr)) + 1  # 0 is the null action of the end
    if of == "reward":
        code, end = rewards.index, zero
    elif of == "action":
        code, end = action, 0
    else:
        code, end = action * n_rewards + rewards.index, zero
    ends = bool(mdp.ends.any())
    used, number = np.unique(np.append(code, end) if ends else code, return_inverse=True)
    groups = used // n_rewards if of == "action+reward" else used
    group_ptr = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(used))
    return Labels(np.ascontiguousarray(number[: mdp.n_branches]), int(number[-1]) if ends else -1, group_ptr.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Matrices:
    """M_y for all labels y of one step, by row: the runs of row s are run_ptr[s]:run_ptr[s+1], one for each label it has, ascending."""

    run_ptr: np.ndarray
    run_label: np.ndarray
    entry_ptr: np.ndarray
    source: np.ndarray
    weight: np.ndarray
    longest: int  # entries of one run
    entry_count: int  # roundings of one entry


@dataclass(frozen=True, eq=False)
class Step:
    """One step h: P(label, node) is functional[label * (S+1) + s] x[s] summed over the states `before`; x' has rows `after` and weights g."""

    before: np.ndarray
    functional: np.ndarray
    functional_count: int
    matrices: Matrices
    after: np.ndarray
    g: np.ndarray
    g_count: int


class Filter:
    """The steps of one policy over one horizon, seen through `of`: forward, or backward=True."""

    def __init__(self, mdp, policy, horizon, of, *, backward=False, occupied=None, budget=4 << 30):
        self.mdp, self.policy, self.horizon, self.backward = mdp, policy, horizon, backward
        self.labels = labels(mdp, of)
        self.n_rows = mdp.n_states + 1
        self.occupied = occupied if occupied is not None else Occupied(mdp, policy, horizon, budget)
        #: whether products may leave the range in which relative bounds hold: decided on the smallest of them
        self.tiny = float(mdp.probability.min()) * float(policy.table[policy.table > 0].min()) < 2.0**-400
        self._ones = np.ones(self.n_rows)
        self._made = {}

    def order(self):
        """The steps in the order in which nodes are pushed through them."""
        return range(self.horizon - 1, -1, -1) if self.backward else range(self.horizon)

    def rows(self, h):
        """States that can be occupied at step h; for h = H, any."""
        return self.occupied.rows[h] if h < self.horizon else np.arange(self.n_rows)

    def weights(self, h):
        """(g, its roundings) of columns over the states at h."""
        if not self.backward:
            return self._ones, 0
        return (self.occupied.mass(h), int(self.occupied.count[h])) if h < self.horizon else (self._ones, 0)

    def step(self, h):
        """The `Step` h."""
        key = h if len(self.policy.table) > 1 else 0
        if key not in self._made:
            self._made = {key: self._matrices(h)}
        entries, matrices, functional, depth = self._made[key]
        n = self.n_rows
        if self.backward:
            state, label, entered, weight = entries
            d, count = self.weights(h)
            functional = np.bincount(label * n + entered, d[state] * weight, minlength=self.labels.count * n)
            return Step(self.rows(h + 1), functional, count + 1 + matrices.entry_count + depth, matrices, self.rows(h), d, count)
        return Step(self.rows(h), functional, matrices.entry_count + depth, matrices, self.rows(h + 1), self._ones, 0)

    def _matrices(self, h):
        mdp, n, L = self.mdp, self.n_rows, self.labels.count
        chain = merged(mdp, self.policy.at(h), self.labels.branch * n + successors(mdp))
        state = np.repeat(np.arange(mdp.n_states), np.diff(chain.ptr))
        label, entered = np.divmod(chain.entry, n)
        weight = chain.weight
        if self.labels.end >= 0:
            state, label, entered, weight = np.append(state, n - 1), np.append(label, self.labels.end), np.append(entered, n - 1), np.append(weight, 1.0)
        count = self.policy.rounding + int(mdp.pair_rounding.max()) + 1 + chain.most
        if self.backward:
            matrices = _by_row(state, label, entered, weight, n, L, count)
            # who enters a state with a label
            depth = int(np.bincount(label * n + entered).max())
            return (state, label, entered, weight), matrices, None, depth
        order = np.lexsort((state, label, entered))
        matrices = _by_row(entered[order], label[order], state[order], weight[order], n, L, count)
        place = label * n + state
        return (state, label, entered, weight), matrices, np.bincount(place, weight, minlength=L * n), int(np.bincount(place).max())


def _by_row(row, label, source, weight, n_rows, n_labels, count):
    """Entries ordered by row and label, as `Matrices`."""
    code = row * n_labels + label
    first = np.flatnonzero(np.diff(code, prepend=-1))
    entry_ptr = np.append(first, len(code))
    run_ptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row[first], minlength=n_rows), out=run_ptr[1:])
    return Matrices(run_ptr, label[first], entry_ptr, np.ascontiguousarray(source), np.ascontiguousarray(weight), int(np.diff(entry_ptr).max()), count)


class Occupied:
    """(O1) with the end as one more state: `mass(h)` float64 [S+1] with count[h] roundings; rows[h] lists the states that can be occupied at h = 0 .. H-1."""

    def __init__(self, mdp, policy, horizon, budget=4 << 30):
        self.forward = forward = propagate(mdp, policy, horizon, budget, False, want_support=True)
        n, pair = mdp.n_states, int(mdp.pair_rounding.max())
        degree = np.diff(mdp.branch_ptr)
        ending = np.repeat(mdp.pair_state, degree)[mdp.ends]
        chance = np.repeat(np.arange(mdp.n_pairs), degree)[mdp.ends]
        self.ended = np.zeros(horizon)
        self.rows, self.count = forward.support[:1], forward.count.copy()
        possible, leaving, ended_count = False, None, 0
        for h in range(1, horizon):
            if len(ending) and (leaving is None or len(policy.table) > 1):
                weight = policy.at(h - 1)[chance]
                leaving = np.bincount(ending, weight * mdp.probability[mdp.ends], minlength=n)
                leaves = np.bincount(ending, weight > 0, minlength=n) > 0
                most = int(np.bincount(ending).max())
            before = forward.support[h - 1]
            self.ended[h] = self.ended[h - 1]
            if leaving is not None and leaves[before].any():
                # mass that left earlier has one more addition behind it, this has those of its own sum
                self.ended[h] += float(forward.state[h - 1][before] @ leaving[before])
                new = int(forward.count[h - 1]) + policy.rounding + pair + 2 + most + len(before) + 1
                self.count[h] = max(self.count[h], new, ended_count + 1 if possible else 0)
                ended_count = max(new, ended_count + 1 if possible else 0)
                possible = True
            elif possible:
                self.count[h] = max(self.count[h], ended_count)
            self.rows.append(np.append(forward.support[h], n) if possible else forward.support[h])
        #: whether products may have fallen below the range in which relative bounds hold
        self.lost = bool(forward.underflow)

    def mass(self, h):
        return np.append(self.forward.state[h], self.ended[h])
