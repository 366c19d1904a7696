"""Pooled information sparsity (S3): I(A; G | S) at a step drawn uniformly, which is what an observer without a clock sees.

The joint laws of action and return-to-go are added up state by state over the steps, d_h(s, a) q_h(. | s, a), and compared once at the end. Values of different
steps are one atom where they are equal as exact numbers: on the lattice by rank among the integers z step + k base of all k, on exact keys
among the keys brought to the last step's denominator.
"""

import numpy as np

from icexact import bounds, kernels
from icexact.chain import merged, outcome_labels, restrict, successors
from icexact.errors import BudgetError
from icexact.keys import Keys
from icexact.lattice import WORK, Lattice
from icexact.mdp import chunks
from icexact.occupancy import propagate
from icexact.progress import Progress
from icexact.results import bytes_text
from icexact.support import WIDE, KeyPlan, choose, over_budget


def pooled(mdp, policy, horizon, gamma, budget, engine=None, progress=None):
    """(I(A; G | S) in nats, its error)."""
    if horizon == 0:
        return 0.0, 0.0
    part = restrict(mdp, policy, horizon)
    model, read = part.mdp, part.policy
    plan = choose(model, np.ones(model.n_pairs, dtype=np.bool_), horizon, gamma, engine, budget, lambda plan, k: 8 * k * model.n_states, "occupancy and lattice rows", read, True)
    table = _Ranks(plan) if plan is not None else None
    if table is not None and not table.fits:
        plan = None
    if plan is not None:
        rows = _LatticeRows(model, plan, table, horizon, budget)
        walk = Lattice(plan, horizon)
    else:
        rows = _KeyRows(model, budget, horizon)
        walk = Keys(KeyPlan(model.rewards.values, gamma), model.n_states, horizon, budget)
    forward = propagate(model, read, horizon, budget, False, want_support=True, alone=False)
    label, n_labels = outcome_labels(model, len(model.rewards.values) + 1), len(model.rewards.values) + 1
    pair, branches, actions = int(model.pair_rounding.max()), int(np.diff(model.branch_ptr).max()), int(np.diff(model.pair_ptr).max())
    chain, later, count, longest = None, 0, 0, 1
    with Progress(progress, horizon, "pooled information") as bar:
        for h in range(horizon - 1, -1, -1):
            states = forward.support[h]
            rows.add(walk, states, read.at(h), forward.state[h])
            # this step's terms: an atom of v_{h+1}, a branch, the action, the state
            count = max(count, later + pair + branches + 1 + read.rounding + int(forward.count[h]) + 2)
            if chain is None or len(read.table) > 1:
                chain = merged(model, read.at(h), label)
            longest = max(longest, chain.longest * chain.most)
            if h:
                walk.step(states, chain, n_labels)
                later += read.rounding + pair + 1 + chain.most + bounds.mixture_depth(chain.longest)
            bar.advance()
    row_start, length, data, seen = rows.finish()
    terms, sums = np.zeros((2, model.n_states)), np.empty(2)
    width = int(length.max())
    room = np.empty(actions), np.empty(width), np.empty(width)
    for begin, end in chunks(np.append(0, np.cumsum(length * np.diff(model.pair_ptr))), WORK >> 4):
        kernels.pooled.terms_of(begin, end, model.pair_ptr, seen, row_start, length, data, *room, terms)
    kernels.entropy.weighted_sums(np.ones(model.n_states), terms, np.arange(model.n_states), sums)
    value, weight = sums / horizon
    least = float(model.probability.min()) * float(read.table[read.table > 0].min())
    risk = bounds.may_underflow(float(model.initial[model.initial > 0].min()), least, horizon)
    count += rows.depth + (bounds.underflow_count(horizon, longest) if risk else 0)
    # the other side: the sum over the actions, times one row's mass over that of all
    error = bounds.difference_error(value, 0.0, value, weight, count, 3 * count + 2 * actions + 10, 0.0, width) + value * float(bounds.gamma(8))
    if risk or forward.underflow:
        error += 4 * bounds.dust(width) * model.n_states + forward.underflow * model.n_states * 100 * horizon
    return float(value), float(error * (1 + 1e-9))


class _Ranks:
    """Lattice points of every step as ranks among the values z step + k base of all steps."""

    def __init__(self, plan):
        step, base = plan.step, plan.base
        self.lowest, self.highest = plan.lowest, plan.highest
        self.slope, self.offset = step.numerator * base.denominator, base.numerator * step.denominator
        divisor = int(np.gcd.reduce(np.array([self.slope, self.offset], dtype=object)))
        self.slope, self.offset = self.slope // divisor, self.offset // divisor
        steps = range(1, len(plan.lowest))
        self.floor = int(plan.lowest.min())
        most = max(abs(self.floor), int(plan.highest.max()))
        self.fits = abs(self.slope) * most + abs(self.offset) * len(plan.lowest) < WIDE
        self.table = None
        if self.fits and self.offset:
            self.table = np.zeros(0, dtype=np.int64)
            for some in range(1, len(plan.lowest), 64):
                self.table = np.unique(np.concatenate([self.table, *(self._values(k) for k in steps[some - 1 : some + 63])]))

    def _values(self, k):
        return np.arange(int(self.lowest[k]), int(self.highest[k]) + 1) * self.slope + k * self.offset

    def place(self, k):
        """int64: the ranks of the points lowest[k] .. highest[k] at k steps to go."""
        if self.table is None:
            return np.arange(int(self.lowest[k]) - self.floor, int(self.highest[k]) + 1 - self.floor)
        return np.searchsorted(self.table, self._values(k))


class _LatticeRows:
    """Rows over ranks, each as wide as its state needs over all steps; their memory is known before they are made."""

    def __init__(self, model, plan, table, horizon, budget):
        self.model, self.plan, self.table = model, plan, table
        n_labels = len(model.rewards.values) + 1
        chain = merged(model, np.ones(model.n_pairs), outcome_labels(model, n_labels))
        successor, reward = np.divmod(chain.entry, n_labels)
        shift, S = plan.label_shift[reward], model.n_states
        low, high = np.zeros((2, S + 1), dtype=np.int64), np.zeros((2, S + 1), dtype=np.int64)
        far = np.int64(1) << 62
        self.low, top = np.full(S, far), np.full(S, -far)
        actions = np.diff(model.pair_ptr)
        sizes = np.zeros(horizon + 1, dtype=np.int64)
        for k in range(1, horizon + 1):
            now, before = k % 2, (k - 1) % 2
            kernels.lattice.windows(chain.ptr, successor, shift, low[before], high[before], low[now], high[now])
            place = table.place(k)
            np.minimum(self.low, place[low[now][:-1] - plan.lowest[k]], out=self.low)
            np.maximum(top, place[high[now][:-1] - plan.lowest[k]], out=top)
            self.length = (top - self.low + 16) // 16 * 16
            sizes[k] = self.length @ actions
        ranks = 8 * (0 if table.table is None else len(table.table))

        def size(k):
            return plan.bytes(k) + 8 * k * S + 8 * int(sizes[k]) + ranks

        if size(horizon) > budget:
            raise over_budget("occupancy, lattice rows and the pooled laws of the pairs", size, horizon, budget)
        ends = np.cumsum(np.repeat(self.length, actions))
        self.row_start = np.append(0, ends[:-1])
        self.rows = np.zeros(int(ends[-1]))
        self.seen = np.zeros(model.n_pairs, dtype=np.bool_)
        self.law = np.empty(int(plan.highest.max() - plan.lowest.min()) + 1)
        self.after, self.shift = successors(model), plan.label_shift[model.rewards.index]
        self.depth = horizon

    def add(self, walk, states, weights, mass):
        """The step that the walk's laws come just after."""
        model, k = self.model, walk.k + 1
        place, branches = self.table.place(k), int(np.diff(model.branch_ptr[model.pair_ptr]).max())
        for begin, end in walk._ranges(len(states), branches):
            kernels.pooled.add_step(
                begin, end, states, model.n_states, model.pair_ptr, weights, model.branch_ptr, self.after, model.probability, self.shift, walk.stride, walk.origin, walk.slots, walk.base,
                walk.buffer, walk.low, walk.high, mass, place, int(self.plan.lowest[k]), self.row_start, self.low, self.law, self.rows, self.seen,
            )  # fmt: skip

    def finish(self):
        return self.row_start, self.length, self.rows, self.seen


class _KeyRows:
    """The same on exact keys: a list of (pair, key, mass) for each step, joined at the end."""

    def __init__(self, model, budget, horizon):
        self.model, self.budget, self.horizon = model, budget, horizon
        self.seen = np.zeros(model.n_pairs, dtype=np.bool_)
        self.parts, self.tables, self.held = [], [], 0
        self.after = successors(model)
        self.depth = horizon

    def _check(self, more, h):
        if self.held + more > self.budget:
            raise BudgetError(f"the pooled laws of the pairs, on exact keys, take more than the budget of {bytes_text(self.budget)} at step {h} of {self.horizon}: use a shorter horizon, a larger budget= (bytes), a discount or rewards with smaller denominators")

    def add(self, walk, states, weights, mass):
        model, k = self.model, walk.k + 1
        if not len(states):
            return
        listed = np.zeros(model.n_states, dtype=np.bool_)
        listed[states] = True
        played = listed[model.pair_state] & (weights > 0)
        self.seen |= played
        branch = np.flatnonzero(np.repeat(played, np.diff(model.branch_ptr)))
        pair = np.repeat(np.arange(model.n_pairs), np.diff(model.branch_ptr))[branch]
        brought = walk.count[self.after[branch]]
        total = int(brought.sum())
        self._check(80 * total, self.horizon - k)
        at = np.repeat(walk.start[self.after[branch]] - np.append(0, np.cumsum(brought)[:-1]), brought) + np.arange(total)
        n_ranks = len(walk.table)
        code, inverse = np.unique(np.repeat(model.rewards.index[branch], brought) * n_ranks + walk.rank[at], return_inverse=True)
        reward, rank = np.divmod(code, n_ranks)
        keys, target = np.unique(walk.plan.advance(walk.table[rank], reward, k), return_inverse=True)
        place, number = np.unique(np.repeat(pair, brought) * len(keys) + target[inverse], return_inverse=True)
        law = np.bincount(number, np.repeat(model.probability[branch], brought) * walk.law[at])
        pair, rank = np.divmod(place, len(keys))
        # over the denominator that the keys of all steps go into
        power = walk.plan.b ** (self.horizon - k)
        wide = keys.dtype == object or power * max(abs(int(keys[0])), abs(int(keys[-1])), 1) >= WIDE
        self.tables.append(keys.astype(object) * power if wide else keys * power)
        self.parts.append((pair, rank, law * (mass[model.pair_state[pair]] * weights[pair])))
        self.held += 24 * len(law) + len(keys) * walk.plan.room(self.horizon)
        self._check(0, self.horizon - k)

    def finish(self):
        model = self.model
        self._check(10 * self.held, 0)
        wide = any(keys.dtype == object for keys in self.tables)
        every, inverse = np.unique(np.concatenate([keys.astype(object) if wide else keys for keys in self.tables]), return_inverse=True)
        begins = np.cumsum([0, *(len(keys) for keys in self.tables)])
        pair = np.concatenate([pair for pair, _, _ in self.parts])
        rank = np.concatenate([inverse[begin + rank] for begin, (_, rank, _) in zip(begins, self.parts)])
        # a state's own keys, numbered
        own, column = np.unique(model.pair_state[pair] * len(every) + rank, return_inverse=True)
        atoms = np.bincount(own // len(every), minlength=model.n_states)
        column -= (np.cumsum(atoms) - atoms)[model.pair_state[pair]]
        length = (atoms + 15) // 16 * 16
        ends = np.cumsum(np.repeat(length, np.diff(model.pair_ptr)))
        row_start = np.append(0, ends[:-1])
        self._check(10 * self.held + 8 * int(ends[-1]), 0)
        rows = np.bincount(row_start[pair] + column, np.concatenate([law for _, _, law in self.parts]), minlength=int(ends[-1]))
        return row_start, length, rows, self.seen
