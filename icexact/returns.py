"""Return laws: (R1) for every state and pair, (R2) for the episode."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from icexact import bounds, policies
from icexact.chain import least_path, merged, outcome_labels
from icexact.errors import BudgetError
from icexact.keys import Keys
from icexact.lattice import Lattice, supports
from icexact.laws import Laws
from icexact.progress import Progress
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, bytes_text, check_budget, check_horizon, provenance
from icexact.support import KeyPlan, choose


class Law(NamedTuple):
    """A law on the reals: `values` float64 [N], ascending, each the exact value correctly rounded; `probabilities` Bounded [N].

    Atoms are distinct as exact numbers; two that are nearer than float64 can tell have equal entries in `values`.

    >>> import icexact as ic
    >>> mdp = ic.examples.shortcut()
    >>> values, probabilities = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=4).law()
    >>> values, probabilities
    (array([-2., -1.,  0.,  1.]), Bounded([0.09112500000000 0.1113750000000 0.2475000000000 0.5500000000000]))
    """

    values: np.ndarray
    probabilities: Bounded


@dataclass(frozen=True, eq=False, repr=False)
class ReturnLaw(Result):
    """The laws of the return-to-go; see `return_law`."""

    horizon: int
    discount: Fraction
    source: dict = field(default_factory=dict)
    _mdp: object = None
    _policy: object = None
    _first: Laws = None  # the law of Z
    _steps: dict = None  # h -> Laws
    _count: np.ndarray = None  # roundings of v_h, h = 0 .. H
    _underflow: float = 0.0
    _budget: int = 0

    def law(self):
        """The law of Z (R2), as `Law`."""
        keys, p = self._first.row(0)
        return Law(self._first.values(keys), self._bounded(p, self._first_count))

    def exact_values(self):
        """The values of Z as exact `Fraction`s."""
        return self._first.fractions(self._first.row(0)[0])

    @property
    def _first_count(self):
        starts = int((self._mdp.initial > 0).sum())
        return int(self._count[0]) + self._mdp.initial_rounding + 1 + bounds.mixture_depth(starts)

    def state_law(self, h, state):
        """The law of G_h given S_h = state, whether it can be occupied then or not: `Law`. h = 0 .. H; other steps than 0 need keep="all"."""
        state = self._mdp.check_state(state)
        laws = self._step(h)
        if self._mdp.pair_ptr[state] == self._mdp.pair_ptr[state + 1]:
            return Law(np.zeros(1), Bounded(np.ones(1), 0.0))  # terminal: nothing is gained after it
        keys, p = laws.row(state)
        return Law(laws.values(keys), self._bounded(p, self._count[h]))

    def pair_law(self, h, state, action):
        """The law of G_h given S_h = state, A_h = action (R1), under the policy after that: `Law`."""
        laws, keys, p, count, lost = self._pair(h, state, action)
        return Law(laws.values(keys), self._bounded(p, count, lost))

    def _pair(self, h, state, action):
        self._check_step(h, self.horizon - 1)
        k = self._mdp.pair(state, action)
        later = self._step(h + 1, pair=True)
        pieces, masses, least = [], [], 1.0
        mdp = self._mdp
        for b in range(mdp.branch_ptr[k], mdp.branch_ptr[k + 1]):
            keys, p = (np.zeros(1, dtype=np.int64), np.ones(1)) if mdp.ends[b] else later.row(mdp.next_state[b])
            pieces.append(_advance(later, keys, int(mdp.rewards.index[b])))
            masses.append(mdp.probability[b] * p)
            least = min(least, float(masses[-1].min()))
        wide = any(x.dtype == object for x in pieces)
        keys, inverse = np.unique(np.concatenate([x.astype(object) if wide else x for x in pieces]), return_inverse=True)
        law = np.zeros(len(keys))
        np.add.at(law, inverse, np.concatenate(masses))
        frame = Laws(later.start, later.count, later.data, low=later.low, rank=later.rank, table=later.table, plan=later.plan, k=later.k + 1)
        return frame, keys, law, int(self._count[h + 1]) + int(mdp.pair_rounding[k]) + 1 + len(pieces), (len(pieces) * 2.0**-1074 if least < 2.0**-1000 else 0.0)

    def _bounded(self, p, count, lost=0.0):
        lost += self._underflow
        if lost == 0.0 and count == 0:
            return Bounded(p, 0.0)
        return Bounded(p, p * bounds.gamma(count) + lost)

    def _check_step(self, h, last):
        if isinstance(h, bool) or not isinstance(h, (int, np.integer)) or not 0 <= h <= last:
            raise ValueError(f"step {h!r} is not in 0..{last}")

    def _step(self, h, pair=False):
        self._check_step(h, self.horizon)
        if pair and h == 1 and 1 not in self._steps:
            # the laws of pairs at step 0 need those of states at step 1: worked out when they are first asked for
            plan = self._first.plan if self._first.low is not None else None
            walk = _walk(self._mdp, self._policy, self.horizon, self.discount, plan, self._budget)
            for _ in range(self.horizon - 1):
                next(walk)
            laws = next(walk)[1].laws()
            if plan is not None and self._underflow:
                flags = next(flags for h, flags in supports(self._mdp, self._policy, plan, self.horizon) if h == 1)
                laws = replace(laws, possible=flags[:-1].copy(), floor=int(plan.lowest.min()))
            self._steps[1] = laws
        if int(h) not in self._steps:
            raise ValueError(f"the laws of step {h} were not kept: only {'pairs and states at step 0 are' if self.horizon else 'step 0 is'}; call return_law(..., keep='all')")
        return self._steps[int(h)]

    @property
    def n_atoms(self):
        """Atoms of the law of Z."""
        return len(self._first.row(0)[0])

    def mean(self):
        """E[Z] by the law, `Bounded`."""
        values, p = self.law()
        total = float(np.dot(values, p.value))
        size = float(np.dot(np.abs(values), p.value))
        return Bounded(total, float(np.dot(np.abs(values), p.error)) + size * float(bounds.gamma(len(values) + 3)) + (2 * len(values) * 2.0**-1074 if np.abs(values[values != 0] * p.value[values != 0]).min(initial=1.0) < 2.0**-1000 else 0.0))

    def summary(self):
        """One screen of text."""
        values, p = self.law()
        lines = [f"Return over {self.horizon} steps, discount {self.discount}: {len(values)} atoms from {values[0]:.12g} to {values[-1]:.12g}, mean {self.mean()}"]
        top = np.argsort(-p.value, kind="stable")[:8]
        lines += [f"  P(Z = {values[i]:.12g}) = {p[i]}" for i in np.sort(top)]
        if len(values) > 8:
            lines.append(f"  .. and {len(values) - 8} smaller ones")
        return "\n".join([*lines, self.footer()])


def _advance(laws, keys, reward_index):
    if laws.low is not None:
        return keys + laws.plan.label_shift[reward_index]
    return laws.plan.advance(keys, reward_index, laws.k + 1)


def return_law(mdp, policy, *, horizon, discount=1, keep="first", budget=4 << 30, engine=None, progress=None):
    """The exact laws of the return-to-go G_h of every state and pair, and that of the return Z.

    keep: "first" holds step 0 only, "all" every step. budget: bytes that laws may take, predicted before the work; engine: "lattice", "keys"
    or None for the better one; progress: callback(done, total), None for a line on a terminal, False for silence.

    Values are exact rationals: rewards and discount are read as such, atoms are told apart by integers, and what is handed out is the
    exact value correctly rounded.

    Raises BudgetError (which says what would fit), PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.coin()
    >>> law = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=2, discount=0.5)
    >>> law.law()
    Law(values=array([0. , 0.5, 1. , 1.5]), probabilities=Bounded([0.2500000000000 0.2500000000000 0.2500000000000 0.2500000000000]))
    """
    horizon, gamma, budget = check_horizon(horizon), read_discount(discount), check_budget(budget)
    if keep not in ("first", "all"):
        raise ValueError(f"keep is {keep!r}; it must be 'first' or 'all'")
    read = policies.read(mdp, policy, horizon)
    possible = (read.table > 0).any(axis=0)
    plan = choose(mdp, possible, horizon, gamma, engine, budget, lambda plan, k: 8 * int(plan.atoms[1 : k + 1].sum()) + 24 * (k + 1) * plan.n_states if keep == "all" else 0, f"return laws (keep={keep!r})", read)
    method = f"return law, {'integer lattice' if plan is not None else 'exact keys'}, float64 with proven error"

    count = np.zeros(horizon + 1, dtype=np.int64)
    pair_rounding = int(mdp.pair_rounding.max())
    steps, held, least, longest = {}, 0, 1.0, 1
    with Progress(progress, horizon, "return laws") as bar:
        for h, walk, chain in _walk(mdp, read, horizon, gamma, plan, budget):
            if chain is not None:
                least, longest = min(least, float(chain.weight.min())), max(longest, chain.longest * chain.most)
                count[h] = count[h + 1] + read.rounding + pair_rounding + 1 + chain.most + bounds.mixture_depth(chain.longest)
                bar.advance()
            if h == 0 or keep == "all":
                steps[h] = walk.packed() if h else walk.laws()
                held += steps[h].nbytes if h else 0
                if held > budget:
                    raise BudgetError(f"keeping every step takes more than the budget of {bytes_text(budget)} at step {h} of {horizon}: use keep='first', a shorter horizon, or a larger budget=")
            if h == 0:
                starts = np.flatnonzero(mdp.initial > 0)
                # below the rows of the laws, which stay as they are
                first = walk.mixture(starts, mdp.initial[starts])
    lost = 0.0
    if bounds.may_underflow(float(mdp.initial[starts].min()), least, horizon) and least_path(mdp, read, horizon) < 2.0**bounds.TINY_EXPONENT:
        lost = bounds.underflow(horizon, longest)
        if plan is not None:
            steps, first = _with_supports(mdp, read, plan, horizon, steps, first, starts)
    return ReturnLaw(horizon, gamma, provenance(mdp, method), mdp, read, first, steps, count, lost, budget)


def _with_supports(mdp, read, plan, horizon, steps, first, starts):
    """Laws that may have lost atoms to underflow, told which atoms there are."""
    floor = int(plan.lowest.min())
    told = {}
    for h, flags in supports(mdp, read, plan, horizon):
        if h in steps:
            told[h] = replace(steps[h], possible=flags[:-1].copy(), floor=floor)
    return told, replace(first, possible=told[0].possible[starts].any(axis=0)[None, :], floor=floor)


def _walk(mdp, read, horizon, gamma, plan, budget):
    """Laws step by step: (h, the walk just after it worked out v_h, the merged chain of that step), from h = H (no chain) to 0."""
    walk = Lattice(plan, horizon) if plan is not None else Keys(KeyPlan(mdp.rewards.values, gamma), mdp.n_states, horizon, budget)
    states = np.flatnonzero(np.diff(mdp.pair_ptr) > 0)
    n_labels = len(mdp.rewards.values) + 1
    label = outcome_labels(mdp, n_labels)
    chain = None
    yield horizon, walk, None
    for h in range(horizon - 1, -1, -1):
        if chain is None or len(read.table) > 1:
            chain = merged(mdp, read.at(h), label)
        walk.step(states, chain, n_labels)
        yield h, walk, chain
