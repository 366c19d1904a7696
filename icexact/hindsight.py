"""Hindsight laws (C3): which action it was, given the state and the return that came of it."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from icexact import bounds
from icexact.results import Bounded, Result, provenance
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
