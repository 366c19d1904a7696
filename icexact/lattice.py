"""The lattice engine: laws as dense rows on an integer lattice, discount 1 (kernels.lattice)."""

import numpy as np

from icexact import kernels
from icexact.chain import merged, outcome_labels
from icexact.laws import Laws
from icexact.mdp import _frozen

WORK = 1 << 27  #: multiply-adds of one kernel call, some tenths of a second: between two the interpreter can be interrupted


def supports(mdp, policy, plan, horizon):
    """(h, flags uint8 [S+1, W]) for h = H .. 0: which points of the lattice, from plan.lowest.min() on, the return-to-go can take; good until the next step.

    Laws tell it by their atoms, unless these are so small that float64 has lost some: then this is asked.
    """
    floor = int(plan.lowest.min())
    width = int(plan.highest.max()) - floor + 1
    n_labels = len(mdp.rewards.values) + 1
    label = outcome_labels(mdp, n_labels)
    tables = np.zeros((2, (mdp.n_states + 1) * width), dtype=np.uint8)
    tables[:, mdp.n_states * width - floor] = 1
    tables[0, -floor::width] = 1
    yield horizon, tables[0].reshape(-1, width)
    chain = None
    for h in range(horizon - 1, -1, -1):
        if chain is None or len(policy.table) > 1:
            chain = merged(mdp, policy.at(h), label)
            successor, reward = np.divmod(chain.entry, n_labels)
        now, later = tables[(horizon - h) % 2], tables[(horizon - h - 1) % 2]
        size = max(1, WORK // (width * chain.longest))
        for begin in range(0, mdp.n_states, size):
            kernels.lattice.support_step(begin, min(begin + size, mdp.n_states), chain.ptr, successor, plan.label_shift[reward], width, later, now)
        yield h, now.reshape(-1, width)


class Lattice:
    """v_h of every state, walked back from v_H: `step` on a merged chain, `credit_step` with the information."""

    def __init__(self, plan, horizon):
        self.plan, self.horizon, self.k = plan, horizon, 0
        self.n_states, self.slots, self.stride = plan.n_states, plan.slots(), plan.stride(horizon)
        self.origin = plan.left + 16 - int(plan.lowest[: horizon + 1].min())
        self.drop = plan.reach + 1
        self.base = 0
        self._chain = self._entries = None
        # where the largest atom is and the entropy by the others (kernels.lattice.credit_step), of the step before and of this one
        self.top, self.close = np.zeros((2, self.n_states + 1), dtype=np.int64), np.zeros((2, self.n_states + 1))
        self.buffer = np.zeros((self.slots + 1) * self.stride)
        self.low, self.high = np.zeros(self.slots + 1, dtype=np.int64), np.zeros(self.slots + 1, dtype=np.int64)
        kernels.lattice.start(self.n_states, self.slots, self.stride, self.origin, self.buffer, self.low, self.high)

    @property
    def width(self):
        """Atoms of the widest row at the next step back, at most."""
        k = min(self.k + 1, self.horizon)
        return int(min(self.plan.widest, self.plan.highest[: k + 1].max() - self.plan.lowest[: k + 1].min() + 1))

    def _ranges(self, count, branches):
        size = max(1, WORK // max(1, self.width * branches))
        return ((i, min(i + size, count)) for i in range(0, count, size))

    def _next_base(self):
        return (self.base - self.drop) % self.slots

    def step(self, states, chain, n_labels):
        """Laws of the listed states (ascending) one step further back."""
        at = np.empty(max(1, chain.longest), dtype=np.int64)
        base = self._next_base()
        if chain is not self._chain:
            successor, reward = np.divmod(chain.entry, n_labels)
            self._chain, self._entries = chain, (successor, self.plan.label_shift[reward])
        for begin, end in self._ranges(len(states), chain.longest):
            kernels.lattice.law_step(begin, end, states, self.n_states, chain.ptr, *self._entries, chain.weight, self.stride, self.origin, self.slots, self.base, base, self.buffer, self.low, self.high, at)
        self.base = base
        self.k += 1

    def mixture(self, states, weights):
        """The law of the mixture of the listed states' laws, as `Laws` of one row."""
        n = len(states)
        at = np.empty(n, dtype=np.int64)
        base = self._next_base()
        kernels.lattice.law_step(0, 1, np.zeros(1, dtype=np.int64), self.n_states, np.array([0, n]), states, np.zeros(n, dtype=np.int64), weights, self.stride, self.origin, self.slots, self.base, base, self.buffer, self.low, self.high, at)
        return self._copy()

    def credit_step(self, states, b, policy, child_entropy, new_entropy, rate, tau, terms):
        """`step` with the information: see kernels.information."""
        self._credit(states, b, policy, self.plan.label_shift[b.reward_index], child_entropy, new_entropy, rate, tau, terms)
        self.top, self.close = self.top[::-1], self.close[::-1]
        self.base = self._next_base()
        self.k += 1

    def credit_start(self, b, child_entropy, new_entropy, rate, tau, terms):
        """The same for the law of the first state; returns the law of Z."""
        # the mixture's window may be wider than that of any state
        slot = (b.successor + self.base) % self.slots
        width = int(self.high[slot].max() - self.low[slot].min()) + 1
        self._credit(np.zeros(1, dtype=np.int64), b, _frozen(np.ones(1)), np.zeros(len(b.successor), dtype=np.int64), child_entropy, new_entropy, rate, tau, terms, width)
        return self._copy()

    def _credit(self, states, b, policy, shift, child_entropy, new_entropy, rate, tau, terms, width=0):
        scratch = np.zeros((b.most_actions + 1) * (max(self.width, width) + 16))
        at, actions = np.empty(b.largest_state, dtype=np.int64), b.most_actions
        pair_at, pair_entropy = np.empty(actions, dtype=np.int64), np.empty(actions)
        for begin, end in self._ranges(len(states), b.largest_state):
            kernels.lattice.credit_step(
                begin, end, states, self.n_states, b.pair_ptr, policy, b.group_ptr, b.group_branch, b.group_probability, b.successor, b.probability, b.conditional, shift,
                self.stride, self.origin, self.slots, self.base, self._next_base(), self.buffer, self.low, self.high, child_entropy, new_entropy, self.top[0], self.close[0], self.top[1], self.close[1], rate, tau, at, pair_at, pair_entropy, scratch, terms,
            )  # fmt: skip

    def pair_step(self, states, b, policy, out):
        """KL(q || v) of every pair of the listed states into out [K], just after `credit_step` or `step` gave v (two tables: the plan's reach is S)."""
        shift = self.plan.label_shift[b.reward_index]
        scratch, at = np.zeros(self.width + 16), np.empty(b.largest_state, dtype=np.int64)
        old = (self.base + self.drop) % self.slots
        for begin, end in self._ranges(len(states), b.largest_state):
            kernels.lattice.pair_step(begin, end, states, self.n_states, b.pair_ptr, b.group_ptr, b.group_branch, b.successor, b.probability, shift, self.stride, self.origin, self.slots, old, self.base, self.buffer, self.low, self.high, at, scratch, out)

    def laws(self):
        """The laws of all states at this step as they stand in the buffer (`Laws`): good until the next step, without a copy."""
        return self._view(self.n_states, self.base)

    def packed(self):
        """The same, copied one after the other: good for ever."""
        view = self.laws()
        begins = np.cumsum(view.count) - view.count
        data = np.empty(int(view.count.sum()))
        kernels.lattice.copy_rows(view.start, view.count, self.buffer, begins, data)
        return Laws(begins, view.count, data, low=view.low, plan=self.plan, k=self.k)

    def _view(self, n_states, base):
        slot = (np.arange(n_states) + base) % self.slots
        low = self.low[slot]
        return Laws(slot * self.stride + self.origin + low, self.high[slot] - low + 1, self.buffer, low=low, plan=self.plan, k=self.k)

    def _copy(self):
        """The one row of a mixture, copied."""
        view = self._view(1, self._next_base())
        row = self.buffer[view.start[0] : view.start[0] + view.count[0]].copy()
        return Laws(np.zeros(1, dtype=np.int64), view.count, row, low=view.low, plan=self.plan, k=self.k)
