"""Hindsight laws: which action it was, given the state and the return that came of it (C3), or the state and one that came later (C5)."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from icexact import bounds, kernels, policies
from icexact.chain import merged, successors
from icexact.results import Bounded, Result, check_horizon, provenance
from icexact.returns import ReturnLaw, return_law


@dataclass(frozen=True, eq=False, repr=False)
class Hindsight(Result):
    """See `hindsight`."""

    laws: ReturnLaw
    horizon: int
    discount: Fraction
    source: dict = field(default_factory=dict)
    _mdp: object = None
    _policy: object = None

    def actions(self, state):
        """The available actions of a state, in the order of the columns of `law`."""
        state = self._mdp.check_state(state)
        return self._mdp.pair_action[self._mdp.pair_ptr[state] : self._mdp.pair_ptr[state + 1]]

    def law(self, h, state):
        """(values [N], table Bounded [N, actions of the state]): row z is P(A_h = a | S_h = state, G_h = z) = pi_h(a | s) q_h(z | s, a) / v_h(z | s)."""
        mdp, laws = self._mdp, self.laws
        laws._check_step(h, self.horizon - 1)
        state = mdp.check_state(state)
        if mdp.pair_ptr[state] == mdp.pair_ptr[state + 1]:
            raise ValueError(f"{mdp.name_state(state)} is terminal: there is no action in it")
        step = laws._step(h)
        keys, v = step.row(state)
        table = np.zeros((len(keys), mdp.pair_ptr[state + 1] - mdp.pair_ptr[state]))
        count, underflow = 0, laws._underflow
        for i, k in enumerate(range(mdp.pair_ptr[state], mdp.pair_ptr[state + 1])):
            weight = self._policy.at(h)[k]
            if weight > 0:
                _, q_keys, q, q_count, missed = laws._pair(h, state, int(mdp.pair_action[k]))
                if missed or weight * float(q.min()) < 2.0**-1000:
                    underflow = max(underflow, missed + 2.0**-1073)
                table[np.searchsorted(keys, q_keys), i] = weight * q
                count = max(count, q_count)
        # returns whose probability float64 has lost tell nothing: 0 +- 1
        lost = v == 0
        table /= np.where(lost, 1.0, v)[:, None]
        relative = bounds.gamma(count + int(laws._count[h]) + self._policy.rounding + 2)
        error = table * relative
        if underflow:
            error += 2 * underflow / np.where(lost, underflow, v)[:, None]
            error = np.minimum(error, 1.0)
        # a return that one action alone can bring was brought by it
        played = self._policy.at(h)[mdp.pair_ptr[state] : mdp.pair_ptr[state + 1]] > 0
        if played.sum() == 1:
            table[:], error[:] = played, 0.0
        elif not underflow:
            certain = (table > 0).sum(axis=1) == 1
            table[certain] = table[certain] > 0
            error[certain] = 0.0
        return step.values(keys), Bounded(table, error)

    def summary(self):
        """One screen of text."""
        return "\n".join([f"Hindsight laws over {self.horizon} steps, discount {self.discount}: .law(h, state)", self.footer()])


def hindsight(mdp, policy, *, horizon, discount=1, budget=4 << 30, engine=None, progress=None):
    """The laws of the action given state and return-to-go (C3), for every step and state: `.law(h, s)`.

    All return laws are kept, their memory predicted first (`budget`, bytes). Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.delayed_effect(2)
    >>> values, table = ic.hindsight(mdp, ic.policies.uniform(mdp), horizon=2).law(0, 0)
    >>> values, table
    (array([-1.,  1.]), Bounded([[0 1]
     [1 0]]))
    """
    laws = return_law(mdp, policy, horizon=horizon, discount=discount, keep="all", budget=budget, engine=engine, progress=progress)
    return Hindsight(laws, laws.horizon, laws.discount, provenance(mdp, "hindsight laws, float64 with proven error"), mdp, laws._policy)


@dataclass(frozen=True, eq=False, repr=False)
class StateHindsight(Result):
    """See `state_hindsight`."""

    horizon: int
    source: dict = field(default_factory=dict)
    _mdp: object = None
    _policy: object = None

    def actions(self, state):
        """The available actions of a state, in the order of the columns of `law`."""
        state = self._mdp.check_state(state)
        return self._mdp.pair_action[self._mdp.pair_ptr[state] : self._mdp.pair_ptr[state + 1]]

    def law(self, h, state, k):
        """(states int64 [N], table Bounded [N, actions of the state]): row i is P(A_h = a | S_h = state, S_{h+k} = states[i]) (C5).

        `states` are those that can follow after k steps, ascending; S, one beyond the model's states, is the end. The state may be one that cannot
        be occupied at h. An action that alone can lead to a state has exactly 1 there, one that cannot exactly 0.

        Raises ModelError, and ValueError for a state without actions, k < 1 or h + k > H - 1: the state after the last step is not part of the trajectory.
        """
        mdp, policy = self._mdp, self._policy
        self._check(h, k)
        state = mdp.check_state(state)
        first, last = mdp.pair_ptr[state], mdp.pair_ptr[state + 1]
        if first == last:
            raise ValueError(f"{mdp.name_state(state)} is terminal: there is no action in it")
        weights = policy.at(h)[first:last]
        played = np.flatnonzero(weights > 0)
        mass, reached, count, terms = self._onward(h, state, k, played)
        states = np.flatnonzero(reached.any(axis=0))
        table, can = np.zeros((len(states), len(weights))), np.zeros((len(states), len(weights)), dtype=np.bool_)
        table[:, played], can[:, played] = (weights[played, None] * mass).T[states], reached.T[states]
        total = table.sum(axis=1, keepdims=True)
        lost = total == 0  # to underflow: nothing is known then, 0 +- 1
        table /= np.where(lost, 1.0, total)
        error = table * bounds.gamma(2 * (count + policy.rounding + 1) + len(weights) + 1)
        least = float(mdp.probability.min()) * float(policy.table[policy.table > 0].min())
        if bounds.may_underflow(1.0, least, k):
            missed = 4 * (len(weights) + 1) * bounds.underflow(k, terms)
            error = np.where(can, np.minimum(error + missed / np.where(lost, missed, total), 1.0), 0.0)
        certain = can.sum(axis=1) == 1
        table[certain], error[certain] = can[certain], 0.0
        return states, Bounded(table, error)

    def _check(self, h, k):
        for name, number, least in (("h", h, 0), ("k", k, 1)):
            if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)) or number < least:
                raise ValueError(f"{name} is {number!r}; it must be an integer >= {least}")
        if h + k > self.horizon - 1:
            raise ValueError(f"h + k is {h + k}; with a horizon of {self.horizon} the last state of the trajectory is that of step {self.horizon - 1}" + (f": k up to {self.horizon - 1 - h} at h = {h}, or a longer horizon" if h < self.horizon - 1 else ": use a longer horizon"))

    def _onward(self, h, state, k, played):
        """P(S_{h+k} = y | S_h = state, A_h = a) for the actions at `played`, [n, S+1], which y can be, and (roundings, products in one step)."""
        mdp, policy = self._mdp, self._policy
        size = mdp.n_states + 1
        mass, reached = np.zeros((len(played), size)), np.zeros((len(played), size), dtype=np.bool_)
        after = successors(mdp)
        pairs = mdp.pair_ptr[state] + played
        for i, pair in enumerate(pairs):
            branches = slice(mdp.branch_ptr[pair], mdp.branch_ptr[pair + 1])
            np.add.at(mass[i], after[branches], mdp.probability[branches])
            reached[i, after[branches]] = True
        pair_rounding = int(mdp.pair_rounding.max())
        count, terms = pair_rounding + int(np.diff(mdp.branch_ptr)[pairs].max()), 1
        mark, listed, stamp = np.zeros(size, dtype=np.int64), np.empty(size, dtype=np.int64), 0
        for step in range(h + 1, h + k):
            chain, most = self._chain(step)
            now, widest = np.zeros_like(mass), 0
            for i in range(len(played)):
                stamp += 1
                front = np.flatnonzero(reached[i, :-1])
                n = kernels.occupancy.push(front, chain.ptr, chain.entry, chain.weight, mass[i], mark, stamp, now[i], listed)
                ended = reached[i, -1]
                now[i, -1] += mass[i, -1]
                reached[i] = False
                reached[i, listed[:n]] = True
                reached[i, -1] |= ended
                widest = max(widest, len(front))
            mass = now
            count += policy.rounding + pair_rounding + 2 + chain.most + min(most, widest) + 1
            terms = max(terms, len(chain.entry) * chain.most)
        return mass, reached, count, terms

    @cached_property
    def _chains(self):
        return {}

    def _chain(self, step):
        """The chain of one step over the states entered, the end being S, with the most entries of one of them; kept where it is the same at every step."""
        step = step if len(self._policy.table) > 1 else 0
        if step not in self._chains:
            chain = merged(self._mdp, self._policy.at(step), successors(self._mdp))
            self._chains.clear()
            self._chains[step] = chain, int(np.bincount(chain.entry).max())
        return self._chains[step]

    def summary(self):
        """One screen of text."""
        return "\n".join([f"State-conditional hindsight over {self.horizon} steps: .law(h, state, k)", self.footer()])


def state_hindsight(mdp, policy, *, horizon):
    """The laws of the action given the state and the state k steps later (C5), for every step and state: `.law(h, s, k)`, 0 < k, h + k <= horizon - 1.

    Each law is worked out when it is asked for, forward from the state: memory for two rows of S + 1 an action. Rewards and discount have no part in it.

    Raises PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.shortcut()
    >>> states, table = ic.state_hindsight(mdp, ic.policies.uniform(mdp), horizon=3).law(0, 0, 1)
    >>> states, table
    (array([1, 5]), Bounded([[0 1]
     [0.9090909090909 0.09090909090909]]))
    """
    horizon = check_horizon(horizon)
    read = policies.read(mdp, policy, horizon)
    return StateHindsight(horizon, provenance(mdp, "state-conditional hindsight, float64 with proven error"), mdp, read)
