"""Model and policy brought together: the merged chain, the branches grouped by reward, and the part that can be occupied at all."""

from dataclasses import dataclass, replace

import numpy as np

from icexact import kernels
from icexact.mdp import MDP, RewardTable, _frozen, chunks
from icexact.policies import Policy


@dataclass(frozen=True, eq=False)
class Chain:
    """Rows over labels: those of state s are entry[ptr[s]:ptr[s+1]], distinct and ascending, with their weights.

    most: branches added into one entry, at most; longest: entries of one row.
    """

    ptr: np.ndarray
    entry: np.ndarray
    weight: np.ndarray
    most: int

    @property
    def longest(self):
        return int(np.diff(self.ptr).max())


def merged(mdp, weights, label):
    """The chain under one policy row over `label` [B]; branches of negative label are left out."""
    ptr = np.zeros(mdp.n_states + 1, dtype=np.int64)
    entry = np.empty(mdp.n_branches, dtype=np.int64)
    weight = np.empty(mdp.n_branches)
    at, most = 0, 1
    for begin, end in chunks(mdp.branch_ptr[mdp.pair_ptr]):
        at, run = kernels.chain.merge(begin, end, at, mdp.pair_ptr, mdp.branch_ptr, label, mdp.probability, weights, ptr, entry, weight)
        most = max(most, run)
    return Chain(ptr, entry[:at], weight[:at], most)


def merged_pairs(mdp, label):
    """Rows of the pairs, whatever the policy: label and probability of what each pair can bring."""
    ptr = np.zeros(mdp.n_pairs + 1, dtype=np.int64)
    entry, weight = np.empty(mdp.n_branches, dtype=np.int64), np.empty(mdp.n_branches)
    at, most, one, alone = 0, 1, np.ones(mdp.n_pairs), _frozen(np.arange(mdp.n_pairs + 1))
    for begin, end in chunks(mdp.branch_ptr):
        at, run = kernels.chain.merge(begin, end, at, alone, mdp.branch_ptr, label, mdp.probability, one, ptr, entry, weight)
        most = max(most, run)
    return Chain(ptr, entry[:at], weight[:at], most)


def merged_states(mdp, weights):
    """The same over the states entered, branches that end left out, the entries of a row in no order: for those that only add them up."""
    ptr = np.zeros(mdp.n_states + 1, dtype=np.int64)
    entry = np.empty(mdp.n_branches, dtype=np.int64)
    weight = np.empty(mdp.n_branches)
    place, times = np.full(mdp.n_states, -1, dtype=np.int64), np.empty(mdp.n_states, dtype=np.int32)
    at, most = 0, 1
    for begin, end in chunks(mdp.branch_ptr[mdp.pair_ptr]):
        at, run = kernels.chain.merge_unsorted(begin, end, at, mdp.pair_ptr, mdp.branch_ptr, mdp.next_state, mdp.ends, mdp.probability, weights, place, times, ptr, entry, weight)
        most = max(most, run)
    return Chain(ptr, entry[:at], weight[:at], most)


def transposed(chain, degree, n_states):
    """The chain turned round: (ptr, column int32, weight), rows by the state entered."""
    ptr = np.zeros(n_states + 1, dtype=np.int64)
    np.cumsum(degree, out=ptr[1:])
    starts = ptr[:-1].copy()
    column = np.empty(len(chain.entry), dtype=np.int32)
    weight = np.empty(len(chain.entry))
    for begin, end in chunks(chain.ptr):
        kernels.chain.transpose(begin, end, chain.ptr, chain.entry, chain.weight, starts, column, weight)
    return ptr, column, weight


def least_path(mdp, policy, horizon):
    """The smallest product of weights that `horizon` steps or fewer can bring, the first state's among them: no atom of a law is smaller, nor any product on the way to one.

    As good as exact: down to 2^-1000 each factor is off by a rounding.
    """
    least, smallest = np.ones((2, mdp.n_states)), 1.0
    for k in range(1, horizon + 1):
        smallest = min(smallest, kernels.chain.least_step(mdp.pair_ptr, mdp.branch_ptr, mdp.next_state, mdp.ends, mdp.probability, policy.at(horizon - k), least[(k - 1) % 2], least[k % 2]))
    starts = mdp.initial > 0
    return min(smallest, float((mdp.initial[starts] * least[horizon % 2][starts]).min()))


def outcome_labels(mdp, n_labels):
    """Branches by what can be seen of them: next state * n_labels + reward index, the end being state S."""
    return successors(mdp) * n_labels + mdp.rewards.index


def successors(mdp):
    """int64 [B]: the state that a branch leads to, S where the episode ends."""
    return np.where(mdp.ends, mdp.n_states, mdp.next_state)


@dataclass(frozen=True, eq=False)
class Branching:
    """The branches of the pairs, grouped by reward: what the fused kernels read.

    Groups of pair k are group_ptr[k]:group_ptr[k+1], the branches of group g group_branch[g]:group_branch[g+1]; `conditional` is a
    branch's share in its group, successor S the end.
    """

    pair_ptr: np.ndarray
    group_ptr: np.ndarray
    group_branch: np.ndarray
    group_probability: np.ndarray
    successor: np.ndarray
    probability: np.ndarray
    conditional: np.ndarray
    reward_index: np.ndarray
    largest_group: int
    largest_pair: int
    largest_state: int
    most_actions: int


def branching(mdp):
    """The model's `Branching`."""
    index = mdp.rewards.index
    group_ptr = np.zeros(mdp.n_pairs + 1, dtype=np.int64)
    group_branch = np.empty(mdp.n_branches + 1, dtype=np.int64)
    group_probability = np.empty(mdp.n_branches)
    conditional = np.empty(mdp.n_branches)
    at = 0
    for begin, end in chunks(mdp.branch_ptr):
        at = kernels.chain.groups(begin, end, at, mdp.branch_ptr, index, mdp.probability, group_ptr, group_branch, group_probability, conditional)
    group_branch = group_branch[: at + 1]
    # read-only all of them, as the model's arrays are: each mixture of types would be one more compilation
    return Branching(
        mdp.pair_ptr, _frozen(group_ptr), _frozen(group_branch), _frozen(group_probability[:at]), _frozen(successors(mdp)), mdp.probability, _frozen(conditional), _frozen(index),
        int(np.diff(group_branch).max()), int(np.diff(mdp.branch_ptr).max()), int(np.diff(mdp.branch_ptr[mdp.pair_ptr]).max()), int(np.diff(mdp.pair_ptr).max()),
    )  # fmt: skip


def start_branching(states, weights):
    """The first state's law as one pair of one state: branches of reward 0 to the states that an episode can start in."""
    n = len(states)
    one, whole = _frozen(np.array([0, 1])), _frozen(np.array([0, n]))
    return Branching(one, one, whole, _frozen(np.ones(1)), _frozen(states.copy()), _frozen(weights), _frozen(weights.copy()), _frozen(np.zeros(n, dtype=np.int64)), n, n, n, 1)


def occupiable(mdp, policy, horizon):
    """bool [S]: the states that can be occupied at some step h < horizon, decided on the graph."""
    found = np.zeros(mdp.n_states, dtype=np.bool_)
    if horizon == 0:
        return found
    possible = (policy.table > 0).any(axis=0)
    mark = np.zeros(mdp.n_states, dtype=np.int64)
    front = np.flatnonzero(mdp.initial > 0)
    mark[front] = 1
    out = np.empty(mdp.n_states, dtype=np.int64)
    for _ in range(horizon - 1):
        n = kernels.chain.push_reachable(front, mdp.pair_ptr, mdp.branch_ptr, mdp.next_state, mdp.ends, possible, 1, mark, out)
        if n == 0:
            break
        front = out[:n].copy()
    return mark == 1


@dataclass(frozen=True, eq=False)
class Part:
    """The part of a model that matters: its states and pairs renumbered in their order, with the numbers they have outside."""

    mdp: MDP
    policy: Policy
    states: np.ndarray
    pairs: np.ndarray


def restrict(mdp, policy, horizon):
    """The states that can be occupied within the horizon and the pairs that are played there, as a model of its own."""
    keep = occupiable(mdp, policy, horizon)
    keep_pair = keep[mdp.pair_state] & (policy.table > 0).any(axis=0)
    if keep.all() and keep_pair.all():
        return Part(mdp, policy, np.arange(mdp.n_states), np.arange(mdp.n_pairs))
    states, pairs = np.flatnonzero(keep), np.flatnonzero(keep_pair)
    number = np.cumsum(keep) - 1
    keep_branch = np.repeat(keep_pair, np.diff(mdp.branch_ptr))
    # a branch of the last step may lead where nobody can be within the horizon: any number does, its law is never read
    next_state = np.maximum(number[mdp.next_state[keep_branch]], 0)
    pair_ptr = np.zeros(len(states) + 1, dtype=np.int64)
    np.cumsum(np.bincount(number[mdp.pair_state[pairs]], minlength=len(states)), out=pair_ptr[1:])
    branch_ptr = np.zeros(len(pairs) + 1, dtype=np.int64)
    np.cumsum(np.diff(mdp.branch_ptr)[pairs], out=branch_ptr[1:])
    table = mdp.rewards
    index = table.index[keep_branch]
    used, index = np.unique(index, return_inverse=True)
    part = replace(
        mdp, pair_ptr=_frozen(pair_ptr), pair_action=_frozen(mdp.pair_action[pairs]), branch_ptr=_frozen(branch_ptr), next_state=_frozen(next_state),
        probability=_frozen(mdp.probability[keep_branch]), reward=_frozen(mdp.reward[keep_branch]), ends=_frozen(mdp.ends[keep_branch]), initial=_frozen(mdp.initial[states]),
        pair_rounding=_frozen(mdp.pair_rounding[pairs]), state_names=None, exact_rewards=RewardTable(tuple(table.values[i] for i in used), _frozen(index.astype(np.int64))),
    )  # fmt: skip
    return Part(part, replace(policy, table=_frozen(policy.table[:, pairs])), states, pairs)
