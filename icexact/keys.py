"""The keys engine: laws as sorted distinct integer keys, any rational discount (kernels.keys).

A step's distinct keys are one sorted table, int64 where they fit and Python integers beyond, and a law holds ranks in it. So the width of a key
is paid once a step, not once a state. Float keys would merge and split atoms at random (exactness.md section 3).
"""

import numpy as np

from icexact import kernels
from icexact.errors import BudgetError
from icexact.laws import Laws
from icexact.mdp import _frozen
from icexact.results import bytes_text

_DENSE = 1 << 26  #: entries of a direct table from (reward, rank) to rank; beyond it codes are searched


class Keys:
    """v_h of every state, walked back from v_H: `step` on a merged chain, `credit_step` with the information."""

    def __init__(self, plan, n_states, horizon, budget):
        self.plan, self.n_states, self.horizon, self.k = plan, n_states, horizon, 0
        self.limit = max(1, budget // 48)  # two laws of rank and probability, and the tables beside them
        self.budget = budget
        self.start = np.arange(n_states + 1)
        self.count = np.ones(n_states + 1, dtype=np.int64)
        self.rank = np.zeros(n_states + 1, dtype=np.int64)
        self.law = np.ones(n_states + 1)
        self.table = np.zeros(1, dtype=np.int64)
        self._later = None

    @property
    def width(self):
        """Atoms of the widest law at this step; of the next one at most that many times its branches."""
        return int(self.count.max())

    def _map(self, states, reward_index, successor, pointer):
        """The next step's keys, and the map to their ranks, for the branches of the listed states (pointer: where a state's branches begin)."""
        n_ranks = len(self.table)
        if len(states) == len(pointer) - 1:
            used = np.arange(pointer[-1])
        else:
            used = np.concatenate([np.arange(pointer[s], pointer[s + 1]) for s in states]) if len(states) else np.zeros(0, dtype=np.int64)
        order = used[np.argsort(reward_index[used], kind="stable")]
        brought = np.cumsum(self.count[successor[order]])
        total = int(brought[-1]) if len(order) else 0
        n_rewards = int(reward_index.max()) + 1 if len(reward_index) else 1
        codes = np.empty(min(total, n_rewards * n_ranks), dtype=np.int64)
        stamp = np.full(n_ranks, -1, dtype=np.int64)
        at, begin = 0, 0
        while begin < len(order):
            end = int(np.searchsorted(brought, (brought[begin - 1] if begin else 0) + (1 << 25))) + 1
            at = kernels.keys.collect(begin, min(end, len(order)), order, reward_index, successor, self.start, self.count, self.rank, n_ranks, stamp, at, codes)
            begin = end
        codes = np.sort(codes[:at])
        # a key takes room of its own beside the laws: codes, map, sorted table, and as a Python integer an object
        self.limit = max(0, self.budget - at * self.plan.room(self.k + 1)) // 48
        if at > self.limit:
            self._refuse(at)
        reward, u = np.divmod(codes, n_ranks)
        keys = self.plan.advance(self.table[u], reward, self.k + 1)
        # the end state's key is 0 at every step
        table, inverse = np.unique(np.append(keys, keys.dtype.type(0) if keys.dtype != object else 0), return_inverse=True)
        dense = n_rewards * n_ranks <= max(_DENSE, 4 * at)
        target = inverse[:-1].astype(np.int64)
        if dense:
            direct = np.full(n_rewards * n_ranks, -1, dtype=np.int64)
            direct[codes] = target
            target = direct
        return table, int(inverse[-1]), dense, codes, target

    def _refuse(self, atoms):
        done = self.k
        fits = f"a horizon of {done} would fit with engine='keys', or " if done else ""
        raise BudgetError(f"return laws on exact keys reach more than {atoms} atoms at {done + 1} steps to go (of {self.horizon}); the budget of {bytes_text(self.budget)} has room for {self.limit}: {fits}a larger budget= (bytes), a discount or rewards with smaller denominators")

    def _scratch(self, table):
        n = len(table)
        words = np.zeros((n >> 6) + 1, dtype=np.uint64)
        return words, np.zeros((len(words) >> 6) + 1, dtype=np.uint64), np.empty(n, dtype=np.int64)

    def _fill(self, states, pointer, table, zero_rank, longest_atoms, advance):
        """Room for the next laws, the loop over ranges of states, and the end state's law; advance(begin, end, at, laws) does one range."""
        # every atom of a state comes from an atom of a successor: so many there can be, and no more than the table has
        expected = int(min(longest_atoms, len(states) * len(table)))
        size = min(expected, self.limit) + 1
        new = np.zeros(self.n_states + 1, dtype=np.int64), np.zeros(self.n_states + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
        at = 0
        step = max(1, int(len(states) * (1 << 25) / max(1, longest_atoms)))
        for begin in range(0, len(states), step):
            at = advance(begin, min(begin + step, len(states)), at, new)
            if at < 0:
                self._refuse(self.limit)
        start, count, rank, law = new
        if at == size:
            self._refuse(self.limit)
        start[self.n_states], count[self.n_states], rank[at], law[at] = at, 1, zero_rank, 1.0
        at += 1
        if at < 0.7 * size:
            rank, law = rank[:at].copy(), law[:at].copy()
        self.start, self.count, self.rank, self.law, self.table = start, count, rank[:at], law[:at], table
        self.k += 1

    def step(self, states, chain, n_labels):
        """Laws of the listed states one step further back, on the merged chain."""
        successor, reward = np.divmod(chain.entry, n_labels)
        table, zero_rank, dense, codes, target = self._map(states, reward, successor, chain.ptr)
        words, summary, where = self._scratch(table)
        brought = np.diff(np.append(0, np.cumsum(self.count[successor]))[chain.ptr])
        targets = np.empty(int(brought.max()), dtype=np.int64)
        n_ranks = len(self.table)

        def advance(begin, end, at, new):
            return kernels.keys.law_step(begin, end, states, at, chain.ptr, chain.entry, n_labels, chain.weight, self.start, self.count, self.rank, self.law, n_ranks, dense, codes, target, words, summary, where, targets, *new)

        self._fill(states, chain.ptr, table, zero_rank, int(brought.sum()), advance)

    def mixture(self, states, weights):
        """The law of the mixture of the listed states' laws, as `Laws` of one row."""
        n_ranks = len(self.table)
        identity = np.arange(n_ranks)
        words, summary, where = self._scratch(self.table)
        targets = np.empty(int(self.count[states].sum()), dtype=np.int64)
        size = min(len(targets), n_ranks) + 1
        start, count, rank, law = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
        at = kernels.keys.law_step(0, 1, np.zeros(1, dtype=np.int64), 0, np.array([0, len(states)]), states, 1, weights, self.start, self.count, self.rank, self.law, n_ranks, True, identity, identity, words, summary, where, targets, start, count, rank, law)
        return Laws(np.zeros(1, dtype=np.int64), np.array([at]), law[:at], rank=rank[:at], table=self.table, plan=self.plan, k=self.k)

    def credit_step(self, states, b, policy, child_entropy, new_entropy, rate, tau, terms):
        """`step` with the information: see kernels.information."""
        pointer = b.group_branch[b.group_ptr[b.pair_ptr]]
        reward = b.reward_index
        table, zero_rank, dense, codes, target = self._map(states, reward, b.successor, pointer)
        scratch = self._scratch(table)
        atoms, branches = kernels.keys.widest(states, b.pair_ptr, policy, b.group_ptr, b.group_branch, b.successor, self.count)
        room = self._room(min(int(atoms), len(table)), int(atoms), int(branches), b.most_actions)
        n_ranks = len(self.table)
        brought = int(self.count[b.successor].sum())

        def advance(begin, end, at, new):
            return kernels.keys.credit_step(
                begin, end, states, at, b.pair_ptr, policy, b.group_ptr, b.group_branch, b.group_probability, b.successor, b.probability, b.conditional, reward,
                self.start, self.count, self.rank, self.law, n_ranks, dense, codes, target, *scratch, room[0], *new, child_entropy, new_entropy, rate, tau, *room[1:], terms,
            )  # fmt: skip

        self._later = self.start, self.count, self.rank, self.law, n_ranks, dense, codes, target
        self._fill(states, pointer, table, zero_rank, brought, advance)

    def pair_step(self, states, b, policy, out):
        """KL(q || v) of every pair of the listed states into out [K], just after `credit_step` gave v."""
        rows = np.zeros(2 * (self.width + 16))
        where = np.full(len(self.table), -1, dtype=np.int64)
        kernels.keys.pair_step(states, b.pair_ptr, policy, b.group_ptr, b.group_branch, b.successor, b.probability, b.reward_index, *self._later, self.start, self.count, self.rank, self.law, where, rows, out)

    def _room(self, width, atoms, branches, actions):
        """targets, at, pair_at, pair_entropy, rows, row, scratch."""
        length = width + 16
        need = 8 * length * (branches + actions + 2)
        if need > self.budget:
            raise BudgetError(f"one state's laws need {bytes_text(need)} ({branches} branches of {width} atoms) at {self.k + 1} steps to go; the budget is {bytes_text(self.budget)}: a horizon of {self.k} would fit, or budget={need} (bytes)")
        return np.empty(max(1, atoms), dtype=np.int64), np.empty(max(1, branches), dtype=np.int64), np.empty(actions, dtype=np.int64), np.empty(actions), np.empty(length * branches), np.zeros(length), np.zeros(length * (actions + 1))

    def credit_start(self, b, child_entropy, new_entropy, rate, tau, terms):
        """The same for the law of the first state, with the keys as they are; returns the law of Z."""
        n_ranks = len(self.table)
        identity = np.arange(n_ranks)
        atoms = int(self.count[b.successor].sum())
        room = self._room(min(atoms, n_ranks), atoms, len(b.successor), 1)
        size = min(atoms, n_ranks) + 1
        new = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
        at = kernels.keys.credit_step(
            0, 1, np.zeros(1, dtype=np.int64), 0, b.pair_ptr, _frozen(np.ones(1)), b.group_ptr, b.group_branch, b.group_probability, b.successor, b.probability, b.conditional, b.reward_index,
            self.start, self.count, self.rank, self.law, n_ranks, True, identity, identity, *self._scratch(self.table), room[0], *new, child_entropy, new_entropy, rate, tau, *room[1:], terms,
        )  # fmt: skip
        return Laws(np.zeros(1, dtype=np.int64), np.array([at]), new[3][:at], rank=new[2][:at], table=self.table, plan=self.plan, k=self.k)

    def laws(self):
        """The laws of all states at this step (`Laws`): every step has arrays of its own."""
        return Laws(self.start[:-1], self.count[:-1], self.law, rank=self.rank, table=self.table, plan=self.plan, k=self.k)

    packed = laws
