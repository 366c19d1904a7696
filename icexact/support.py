"""Exact supports: the integers that stand for return values, and which of the two engines carries them.

A return of k steps is value(key) with an integer key. On the lattice (gamma = 1) the key is the lattice point z, the value (z step + k base): base is the smallest
reward where no episode ends early, else 0, and step the greatest common divisor of what rewards differ by. With keys (any rational gamma = a/b, rewards
integers over q) the value is K / (q b^{k-1}), and K_k = q r b^{k-1} + a K_{k-1} (exactness.md section 3).
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from icexact import kernels
from icexact.chain import merged, outcome_labels
from icexact.errors import BudgetError
from icexact.results import bytes_text

WIDE = 1 << 62  #: keys beyond are Python integers
SMALL = 16 << 20  #: bytes of two lattice tables side by side


@dataclass(frozen=True, eq=False)
class LatticePlan:
    """The lattice and how much of it a horizon takes: atoms[k] over all states, and the range [lowest[k], highest[k]], at k steps to go."""

    step: Fraction
    base: Fraction
    label_shift: np.ndarray  #: int64 [R]: each distinct reward on the lattice
    lowest: np.ndarray
    highest: np.ndarray
    atoms: np.ndarray
    widest: int
    reach: int  #: how far (in state numbers) a successor can be
    n_states: int

    @property
    def left(self):
        return max(0, int(self.label_shift.max()))

    def stride(self, k):
        """Doubles in a row that has room for every window up to k steps to go, read over one another's."""
        width = int(self.highest[: k + 1].max() - self.lowest[: k + 1].min()) + 1
        stride = width + self.left + max(0, -int(self.label_shift.min())) + 32
        return (stride + 7) // 16 * 16 + 8  # an odd multiple of 64 bytes: rows that follow one another do not share cache sets

    def slots(self):
        return self.n_states + self.reach + 1

    def apart(self):
        """The same plan with two tables, so that a step's laws stand beside those one step later."""
        return replace(self, reach=self.n_states - 1)

    def bytes(self, k):
        """Of the buffer for k steps."""
        return 8 * (self.slots() + 1) * self.stride(k)


def lattice_plan(mdp, possible, horizon):
    """The `LatticePlan`, None where the rewards do not fit int64 lattice points."""
    values = mdp.rewards.values
    # unplayed pairs have laws too, so every reward of the model is on the lattice
    scale = math.lcm(*(v.denominator for v in values))
    numbers = [int(v * scale) for v in values]
    base = 0 if mdp.ends.any() else min(numbers)
    step = math.gcd(*(n - base for n in numbers)) or 1
    points = [(n - base) // step for n in numbers]
    if max(abs(p) for p in points) * max(1, horizon) >= 1 << 40:
        return None
    label_shift = np.zeros(len(values) + 1, dtype=np.int64)
    label_shift[:-1] = points
    chain = merged(mdp, possible.astype(np.float64), outcome_labels(mdp, len(values) + 1))
    successor, label = np.divmod(chain.entry, len(values) + 1)
    shift = label_shift[label]
    low, high = np.zeros((2, mdp.n_states + 1), dtype=np.int64), np.zeros((2, mdp.n_states + 1), dtype=np.int64)
    lowest, highest, widest, atoms = np.zeros((4, horizon + 1), dtype=np.int64)
    widest[0], atoms[0] = 1, mdp.n_states
    for k in range(1, horizon + 1):
        now, before = k % 2, (k - 1) % 2
        lowest[k], highest[k], widest[k], atoms[k] = kernels.lattice.windows(chain.ptr, successor, shift, low[before], high[before], low[now], high[now])
    alive = successor < mdp.n_states
    distance = np.abs(successor - np.repeat(np.arange(mdp.n_states), np.diff(chain.ptr)))[alive]
    return LatticePlan(Fraction(step, scale), Fraction(base, scale), label_shift, lowest, highest, atoms, int(widest.max()), int(distance.max(initial=0)), mdp.n_states)


@dataclass(init=False, eq=False)
class KeyPlan:
    """gamma = a / b and the rewards as integers over q: key K at k steps to go stands for K / (q b^(k-1))."""

    scale: int  #: q
    rewards: list
    a: int
    b: int

    def __init__(self, values, gamma):
        self.scale = math.lcm(*(v.denominator for v in values)) if values else 1
        self.rewards = [int(v * self.scale) for v in values]
        self.a, self.b = gamma.numerator, gamma.denominator

    def denominator(self, k):
        return self.scale * self.b ** max(0, k - 1)

    def bits(self, k):
        """Bits of the largest key at k steps to go, at most."""
        most = max((abs(r) for r in self.rewards), default=0)
        return (most * k * max(self.a, self.b) ** max(0, k - 1)).bit_length()

    def room(self, k):
        """Bytes that a key at k steps to go takes beside the laws: codes, map, sorted table, and as a Python integer an object."""
        bits = self.bits(k)
        return 96 if bits < 62 else 160 + bits // 4

    def advance(self, keys, reward_index, k):
        """Keys at k-1 steps to go as keys at k, one reward earlier; reward_index one for all or one a key."""
        power = self.b ** (k - 1)
        # K_1 = q r whatever came after: at 0 steps to go the only key is 0
        most = max((abs(r) for r in self.rewards), default=0) * power + self.a * (max(abs(int(keys[0])), abs(int(keys[-1]))) if len(keys) else 0)
        if keys.dtype != object and max(most, self.a) < WIDE and (len(keys) < 2 or int(np.abs(keys).max()) * self.a + most < WIDE):
            return np.array([r * power for r in self.rewards] + [0], dtype=np.int64)[reward_index] + self.a * keys
        return np.array([r * power for r in self.rewards] + [0], dtype=object)[reward_index] + self.a * keys.astype(object)


def check_growth(mdp, possible, horizon, gamma, budget, occupied=False):
    """Refuse before the work what cannot fit: BudgetError where even a lower bound of the atoms is beyond the budget.

    If gamma = a / b has a or b above the largest difference of two rewards (in steps of their lattice), different reward sequences have different
    returns (exactness.md section 3), and counting sequences from below is counting atoms. Elsewhere the walk itself stops at the budget.
    `possible` are the pairs played at every step. occupied: only states that can be occupied at a step have laws then.
    """
    values = mdp.rewards.values
    played = mdp.rewards.index[np.repeat(possible, np.diff(mdp.branch_ptr))]
    used = [values[i] for i in np.unique(played)] + ([0] if mdp.ends.any() else [])
    scale = math.lcm(*(Fraction(v).denominator for v in used)) if used else 1
    numbers = [int(v * scale) for v in used]
    step = math.gcd(*(n - numbers[0] for n in numbers)) if numbers else 0
    if not step or gamma == 1 or max(gamma.numerator, gamma.denominator) <= (max(numbers) - min(numbers)) // step:
        return
    n_labels = len(values) + 1
    chain = merged(mdp, possible.astype(np.float64), outcome_labels(mdp, n_labels))
    successor, reward = np.divmod(chain.entry, n_labels)
    limit, fits, least = budget // 48, 0, 0.0
    low, high = np.ones((2, mdp.n_states + 1)), np.ones((2, mdp.n_states + 1))
    fronts = _fronts(mdp, possible, horizon) if occupied else None
    best, keys = np.zeros(n_labels), KeyPlan(values, gamma)
    for k in range(1, horizon + 1):
        now, before = k % 2, (k - 1) % 2
        kernels.keys.growth(chain.ptr, successor, reward, low[before], high[before], best, low[now], high[now])
        # k steps to go are step h = horizon - k; a shorter horizon has its laws of k steps at an earlier step, so `fits` counts all states
        if (high[now][:-1].sum() + 2) * (48 + keys.room(k)) <= budget:
            fits = k
        here = low[now][:-1] if fronts is None else low[now][fronts[horizon - k]]
        least = max(least, here.sum())
        if least > 1e300:
            break
    if least > limit:
        short = f"a horizon of {fits} would fit, or " if fits else ""
        raise BudgetError(f"return laws at discount {gamma} over {horizon} steps have at least {least:.3g} atoms, for no two reward sequences have one return; the budget of {bytes_text(budget)} has room for {limit}: {short}discount 1, or a larger budget= (bytes)")


def _fronts(mdp, possible, horizon):
    """The states that can be occupied at h = 0 .. horizon-1."""
    front, mark, out = np.flatnonzero(mdp.initial > 0), np.zeros(mdp.n_states, dtype=np.int64), np.empty(mdp.n_states, dtype=np.int64)
    fronts = []
    for h in range(horizon):
        fronts.append(front)
        n = kernels.chain.push_reachable(front, mdp.pair_ptr, mdp.branch_ptr, mdp.next_state, mdp.ends, possible, h + 1, mark, out)
        front = out[:n].copy()
    return fronts


def choose(mdp, possible, horizon, gamma, engine, budget, more=lambda plan, k: 0, what="lattice rows", policy=None, occupied=False):
    """The `LatticePlan` to work on, or None for the keys; BudgetError where the lattice, with `more(plan, k)` bytes beside it, would not fit."""
    if 128 * horizon > budget:
        raise BudgetError(f"a horizon of {horizon} steps takes more than the budget of {bytes_text(budget)} for its books alone: a horizon of {budget // 1024} may fit, or budget={1024 * horizon} (bytes)")
    plan = _choose(mdp, possible, horizon, gamma, engine, budget, more, what)
    if plan is None:
        # what one step plays another may not: then nothing is known from below
        if policy is None or len(policy.table) == 1:
            check_growth(mdp, possible if policy is None else policy.table[0] > 0, horizon, gamma, budget, occupied)
    return plan


def _choose(mdp, possible, horizon, gamma, engine, budget, more, what):
    if engine not in (None, "lattice", "keys"):
        raise ValueError(f"engine is {engine!r}; it must be 'lattice', 'keys' or None for the better one")
    if engine == "keys":
        return None
    if gamma != 1:
        if engine == "lattice":
            raise ValueError(f"the lattice engine needs discount 1, not {gamma}: leave engine out")
        return None
    plan = lattice_plan(mdp, possible, horizon)
    if plan is None:
        if engine == "lattice":
            raise ValueError("the rewards are too far apart for the lattice engine: leave engine out")
        return None
    if engine is None:
        # few reward values far apart: at most that many multisets of them, against the points of the lattice
        n = int((np.bincount(mdp.rewards.index[np.repeat(possible, np.diff(mdp.branch_ptr))]) > 0).sum()) + bool(mdp.ends.any())
        if math.comb(horizon + max(n, 1) - 1, max(n, 1) - 1) * 32 < plan.widest:
            return None
    def size(k, plan=plan):
        return plan.bytes(k) + more(plan, k)

    if size(horizon) > budget:
        if engine is None and plan.bytes(horizon) > 8 * budget:
            return None
        raise over_budget(what, size, horizon, budget, f", {int(plan.atoms[horizon])} atoms")
    # small tables are quicker side by side: a row that has not changed then need not move
    apart = plan.apart()
    return apart if apart.bytes(horizon) <= SMALL and size(horizon, apart) <= budget else plan


def over_budget(what, size, horizon, budget, more=""):
    """The BudgetError that says what would fit."""
    low, high = 0, horizon
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= budget else (low, middle)
    fits = f"a horizon of {low} would fit, or " if low else ""
    return BudgetError(f"{what} for a horizon of {horizon} need {bytes_text(size(horizon))}{more}; the budget is {bytes_text(budget)}: {fits}budget={size(horizon)} (bytes)")


def values_of(numerators, denominator):
    """The rationals numerators / denominator as float64, correctly rounded."""
    if numerators.dtype != object and denominator < 1 << 53 and (not len(numerators) or max(abs(int(numerators[0])), abs(int(numerators[-1]))) < 1 << 53):
        return numerators / float(denominator)
    try:
        return np.array([int(n) / denominator for n in numerators], dtype=np.float64)
    except OverflowError as error:
        raise ValueError("a return value is beyond the range of float64") from error
