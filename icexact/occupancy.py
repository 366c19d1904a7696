"""Occupancy measures: (O1) step by step, (O2) discounted and (O3) expected visits without horizon."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from icexact import bounds, kernels, policies
from icexact.chain import merged_states, transposed
from icexact.errors import BudgetError
from icexact.progress import Progress
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, bytes_text, check_budget, check_horizon, provenance


@dataclass(frozen=True, eq=False, repr=False)
class Occupancy(Result):
    """Laws of the state and of the pair; see `occupancy`.

    With a horizon `state` [H, S], `pair` [H, K], `alive` [H], row h for step h = 0 .. H-1. Without, `state` [S], `pair` [K] and `alive` (), the
    mass that `state` sums to: at most 1 for a discount below 1, the expected number of steps for discount 1.
    """

    state: Bounded
    alive: Bounded
    horizon: int | None
    discount: Fraction
    source: dict = field(default_factory=dict)
    _policy: object = None
    _pair_state: np.ndarray = None

    @cached_property
    def pair(self):
        """The law of (S_h, A_h): state times policy, made when it is first asked for."""
        state, table = self.state, self._policy.table
        value = state.value[..., self._pair_state] * (table if self.horizon is not None else table[0])
        relative = bounds.gamma(self._policy.rounding + 1)
        if state.factor is not None:
            return Bounded.relative(value, state.factor + relative * (1 + state.factor), state.absolute)
        return Bounded(value, state.error[..., self._pair_state] * (table if self.horizon is not None else table[0]) * (1 + 1e-9) + value * relative * (1 + 1e-9))

    def summary(self):
        """One screen of text."""
        what = f"Occupancy over {self.horizon} steps" if self.horizon is not None else ("Discounted occupancy" if self.discount < 1 else "Expected visits")
        lines = [f"{what}: S = {self.state.shape[-1]}", f"mass {self.alive}" if self.horizon is None else f"alive at the last step {self.alive[-1] if self.horizon else 1}"]
        return "\n".join([*lines, self.footer()])


def occupancy(mdp, policy, *, horizon=None, discount=1, tolerance=1e-6, budget=4 << 30, progress=None):
    """How often each state and pair is occupied, exactly.

    With `horizon` H: (O1), d_h(s) for h = 0 .. H-1; `.state` [H, S], `.pair` [H, K], `.alive` [H]: the rows of `.state` sum to `.alive`, the
    mass that has not ended before step h; a discount has no part in the law of one step. Without: `discount` < 1 gives (O2), (1 - g) sum_h g^h d_h, which sums to at most 1; `discount` = 1 gives
    (O3), expected visits, if every episode ends with certainty; `.state` [S], `.pair` [K], `.alive` (). Their error is proven, from the residual or the mass that a series
    has left; where it stays above `tolerance` (of the mass) the call raises.

    Raises EndingError (naming states) where (O3) does not exist, AccuracyError, BudgetError, PolicyError.

    >>> import icexact as ic
    >>> mdp = ic.examples.shortcut()
    >>> occ = ic.occupancy(mdp, ic.policies.uniform(mdp), horizon=3)
    >>> occ.alive
    Bounded([1 0.4500000000000 0.2025000000000])
    """
    read_discount(discount)
    read = policies.read(mdp, policy, horizon)
    if horizon is None:
        from icexact.stationary import without_horizon

        state, alive = without_horizon(mdp, read, read_discount(discount), tolerance, progress)
    else:
        horizon = check_horizon(horizon)
        forward = propagate(mdp, read, horizon, check_budget(budget), progress)
        state, alive = forward.bounded(), forward.alive()
    return Occupancy(state, alive, horizon, Fraction(1) if horizon is not None else read_discount(discount), provenance(mdp, "occupancy"), read, mdp.pair_state)


@dataclass(frozen=True, eq=False)
class Forward:
    """d_h [H, S] with the roundings of each step and what underflow may have cost; support[h] lists the states that can be occupied at h."""

    state: np.ndarray
    count: np.ndarray
    underflow: float
    support: list

    def factor(self):
        """Relative error of each step, [H, 1]."""
        return bounds.gamma(self.count)[:, None]

    def bounded(self):
        return Bounded.relative(self.state, self.factor(), self.underflow)

    def alive(self):
        if not len(self.state):
            return Bounded(np.zeros(0), 0.0)
        lanes = np.empty(8), np.empty(8)
        # where few states are occupied, only those: the rest of the row has not even been written
        rows = (row[self.support[h]] if h < len(self.support) and 3 * len(self.support[h]) < len(row) else row for h, row in enumerate(self.state))
        mass = np.array([kernels.occupancy.total(row, *lanes) for row in rows])
        error = mass * bounds.gamma(self.count + 3) + self.underflow * self.state.shape[1]
        mass[0], error[0] = 1.0, 0.0
        return Bounded(mass, error)


def propagate(mdp, policy, horizon, budget=4 << 30, progress=None, want_support=False, alone=True):
    """(O1) forward in time. Few occupied states push their mass; many gather it over the chain turned round."""
    need = 8 * horizon * mdp.n_states
    if need > budget:
        fits = budget // (8 * mdp.n_states)
        raise BudgetError(f"occupancy of {horizon} steps and {mdp.n_states} states needs {bytes_text(need)}, the budget is {bytes_text(budget)}: "
                          + (f"a horizon of {fits} would fit, or budget={need} (bytes)" if alone else f"with the laws beside it the horizon must be below {fits + 1}, or budget= above {need} (bytes)"))
    n_states = mdp.n_states
    state = np.zeros((horizon, n_states))
    count = np.zeros(horizon, dtype=np.int64)
    if horizon == 0:
        return Forward(state, count, 0.0, [])
    state[0] = mdp.initial
    count[0] = mdp.initial_rounding
    support = [np.flatnonzero(mdp.initial > 0)]
    everything = np.arange(n_states)
    mark = np.zeros(n_states, dtype=np.int64)
    listed = np.empty(n_states, dtype=np.int64)
    pair_rounding = int(mdp.pair_rounding.max())
    turned = chain = None
    least = mdp.initial[support[0]].min()
    risk, terms, pushing, least_weight = False, 0, True, 1.0
    with Progress(progress, horizon, "occupancy") as bar:
        for h in range(1, horizon):
            if chain is None or len(policy.table) > 1:
                chain, turned = merged_states(mdp, policy.at(h - 1)), None
                degree = np.bincount(chain.entry, minlength=n_states)
                most = int(degree.max()) if len(chain.entry) else 0
                # mass that underflows is covered by an absolute term; whether it can happen is decided before
                least_weight = min(least_weight, float(chain.weight.min()) if len(chain.weight) else 1.0)
                # lost mass of all states may gather in one: every product counts
                terms = max(terms, len(chain.entry) * chain.most)
                depth = most if most <= kernels.occupancy.LONG else 4
            risk = risk or bounds.may_underflow(least, least_weight, h)
            count[h] = count[h - 1] + policy.rounding + pair_rounding + 1 + chain.most + depth
            front = support[-1] if pushing else None
            pushing = pushing and len(front) < 0.3 * n_states and most <= kernels.occupancy.LONG
            if pushing:
                n = kernels.occupancy.push(front, chain.ptr, chain.entry, chain.weight, state[h - 1], mark, h, state[h], listed)
                support.append(np.sort(listed[:n]))
            else:
                if turned is None:
                    turned = transposed(chain, degree, n_states)
                kernels.occupancy.gather(0, n_states, *turned, state[h - 1], state[h])
                if want_support:
                    support.append(_support(state[h], support[-1], mdp, policy.at(h - 1), mark, h, listed, risk, everything))
            bar.advance()
    if risk:
        count += bounds.underflow_count(horizon, terms)
    return Forward(state, count, bounds.underflow(horizon, terms) if risk else 0.0, support)


def _support(mass, before, mdp, weights, mark, stamp, listed, risk, everything):
    if risk:
        n = kernels.chain.push_reachable(before, mdp.pair_ptr, mdp.branch_ptr, mdp.next_state, mdp.ends, weights > 0, stamp, mark, listed)
        now = np.sort(listed[:n])
    else:
        now = np.flatnonzero(mass > 0)
    if len(now) == len(everything):
        return everything
    return before if len(now) == len(before) and (now == before).all() else now
