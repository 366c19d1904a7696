"""The episode's return seen from inside (R3): what was gained before a step, the law of Z given the state and the action, and what the action tells of Z."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from icexact import bounds, kernels, policies
from icexact.chain import merged, outcome_labels, successors
from icexact.errors import BudgetError
from icexact.laws import Laws
from icexact.mdp import chunks
from icexact.progress import Progress
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, bytes_text, check_budget, check_horizon, in_base, log_base, provenance, unit
from icexact.returns import Law, ReturnLaw, return_law
from icexact.support import WIDE, choose, over_budget

WORK = 1 << 27  #: multiply-adds of one kernel call, between two the interpreter can be interrupted


@dataclass(frozen=True, eq=False, repr=False)
class EpisodeReturn(Result):
    """`information` [H]: I(A_h; Z | S_h), and the laws behind it, h = 0 .. H-1; see `episode_return`."""

    information: Bounded
    laws: ReturnLaw
    horizon: int
    discount: Fraction
    base: float | None
    source: dict = field(default_factory=dict)
    _mdp: object = None
    _policy: object = None
    _past: dict = None  # h -> Laws, joint with the state
    _count: np.ndarray = None  # their roundings
    _underflow: float = 0.0

    def law(self):
        """The law of Z (R2), as `Law`."""
        return self.laws.law()

    def past_law(self, h, state):
        """The law of sum_{k<h} gamma^k R_k given S_h = state: `Law`. ValueError where the state cannot be occupied at h."""
        keys, p, relative, lost = self._before(h, state)
        return Law(self._past[h].values(keys), Bounded(p, np.minimum(p * relative + lost, 1.0)))

    def state_law(self, h, state):
        """The law of Z given S_h = state (R3): `Law`. ValueError where the state cannot be occupied at h."""
        before = self._before(h, state)
        keys, p = self.laws._step(h).row(self._mdp.check_state(state))
        return self._whole(h, before, keys, p, int(self.laws._count[h]), self.laws._underflow)

    def pair_law(self, h, state, action):
        """The law of Z given S_h = state, A_h = action (R3), under the policy after that, also for an action that the policy never takes: `Law`."""
        before = self._before(h, state)
        _, keys, p, count, lost = self.laws._pair(h, state, action)
        return self._whole(h, before, keys, p, count, lost + self.laws._underflow)

    def _before(self, h, state):
        """(keys, probabilities, relative error, absolute error) of the past given the state."""
        self.laws._check_step(h, self.horizon - 1)
        state = self._mdp.check_state(state)
        past = self._past[int(h)]
        if past.count[state] == 0:
            raise ValueError(f"{self._mdp.name_state(state)} cannot be occupied at step {h} under this policy, so there is no law given that it is: occupancy(..., horizon={self.horizon}).state lists those that can be; return_law(..., keep='all').state_law({h}, {state}) has what would be gained from there on")
        keys, p = past.row(state)
        if len(keys) == 1:
            return keys, np.ones(1), 0.0, 0.0
        mass = math.fsum(p)
        if mass == 0.0:
            return keys, np.zeros(len(p)), 0.0, 1.0
        # an atom and the sum of all are off by `_underflow` each and by one for every atom
        return keys, p / mass, float(bounds.gamma(2 * int(self._count[h]) + 2)), min(1.0, 2 * (len(p) + 1) * self._underflow / mass)

    def _whole(self, h, before, later_keys, later, later_count, later_lost):
        """The law of past and future, independent given the state, together."""
        keys, p, relative, lost = before
        frame = self._past[int(h)]
        if frame.low is not None:
            dense = []
            for k, x in ((keys, p), (later_keys, later)):
                row = np.zeros((2, int(k[-1] - k[0]) + 1))
                row[0, k - k[0]], row[1, k - k[0]] = x, 1.0
                dense.append(row)
            law, there = np.zeros((2, dense[0].shape[1] + dense[1].shape[1] - 1))
            kernels.episode.convolve(dense[0][0], dense[1][0], law)
            kernels.episode.convolve(dense[0][1], dense[1][1], there)
            at = np.flatnonzero(there)
            whole, law = at + (keys[0] + later_keys[0]), law[at]
        else:
            whole, law = _joined(*_brought(frame.plan, h, self.horizon, keys, later_keys), p, later)
        if len(whole) == 1:
            probabilities = Bounded(np.ones(1), 0.0)
        else:
            terms = min(len(keys), len(later_keys))
            error = law * (relative * (1 + bounds.gamma(later_count + terms)) + bounds.gamma(later_count + terms))
            missed = lost + later_lost + terms * (lost * later_lost + 2.0**-1073) if lost or later_lost else 0.0
            probabilities = Bounded(law, np.minimum(error * (1 + 1e-9) + 2 * missed, 1.0))
        frame = Laws(frame.start, frame.count, frame.data, low=frame.low, rank=frame.rank, table=frame.table, plan=frame.plan, k=self.horizon)
        return Law(frame.values(whole), probabilities)

    def summary(self):
        """One screen of text."""
        lines = [f"Return of the episode seen from inside, {self.horizon} steps, discount {self.discount}, in {unit(self.base)}"]
        lines += [f"  step {h}: I(A_h; Z | S_h) = {self.information[h]}" for h in range(min(self.horizon, 8))]
        if self.horizon > 8:
            lines.append(f"  .. and {self.horizon - 8} later steps")
        return "\n".join([*lines, self.footer()])


def episode_return(mdp, policy, *, horizon, discount=1, base=None, budget=4 << 30, engine=None, progress=None):
    """The return Z of the whole episode, seen from a step inside it (R3): Z = (what was gained before h) + gamma^h G_h, the two independent given S_h.

    `.past_law(h, s)`: the law of sum_{k<h} gamma^k R_k given S_h = s; `.state_law(h, s)`, `.pair_law(h, s, a)`: the law of Z given S_h = s (and A_h = a), each a
    `Law` with exact distinct values, for every state that can be occupied at h = 0 .. H-1. `.information` Bounded [H]: I(A_h; Z | S_h), in nats or in the unit of
    `base`. It is never more than `credit.skill`, which is I(A_h; G_h | S_h): whoever sees Z alone does not know what part of it came before.

    All laws of the past and of the future are kept, their memory predicted first (`budget`, bytes); engine, progress: as in `return_law`.

    Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.shortcut()
    >>> episode = ic.episode_return(mdp, ic.policies.uniform(mdp), horizon=3, base=2)
    >>> episode.information
    Bounded([0.7582766571932 0.3412244957369 0.1535510230816])
    >>> episode.pair_law(1, 1, 0)
    Law(values=array([0.]), probabilities=Bounded([1]))
    """
    horizon, gamma, budget = check_horizon(horizon), read_discount(discount), check_budget(budget)
    scale = log_base(base)
    read = policies.read(mdp, policy, horizon)
    possible = (read.table > 0).any(axis=0)

    def kept(plan, k):
        return 8 * int(plan.atoms[1 : k + 1].sum()) + 24 * (k + 1) * plan.n_states

    plan = choose(mdp, possible, horizon, gamma, engine, budget, kept, "return laws of every step", read)
    least = float(mdp.probability.min()) * float(read.table[read.table > 0].min(initial=1.0))
    risk = bounds.may_underflow(float(mdp.initial[mdp.initial > 0].min()), least, horizon)
    if plan is not None:
        windows, atoms = _windows(mdp, read, plan, horizon)
        rows = np.append(0, np.cumsum(atoms))
        if plan.bytes(horizon) + kept(plan, horizon) + int(rows[-1]) * (9 if risk else 8) > budget:
            raise over_budget("return laws of every step, and what was gained before each,", lambda k: plan.bytes(k) + kept(plan, k) + int(rows[k]) * (9 if risk else 8), horizon, budget)
    laws = return_law(mdp, policy, horizon=horizon, discount=discount, keep="all", budget=budget, engine="lattice" if plan is not None else "keys", progress=progress)
    with Progress(progress, 2 * horizon, "return of the episode") as bar:
        if plan is not None:
            past, count, terms = _lattice_past(mdp, read, plan, horizon, windows, risk, bar)
        else:
            past, count, terms = _keys_past(mdp, read, laws._first.plan, horizon, budget - sum(step.nbytes for step in laws._steps.values()), bar)
        extra = bounds.underflow_count(2 * horizon, terms) if risk else 0
        step = _lattice_information if plan is not None else _keys_information
        value, error = np.zeros(horizon), np.zeros(horizon)
        for h in range(horizon):
            sums, p_count, width = step(mdp, read, h, past[h], laws, budget)
            branches, actions = int(np.diff(mdp.branch_ptr).max()), int(np.diff(mdp.pair_ptr).max())
            p_count += int(count[h]) + int(laws._count[h + 1]) + int(mdp.pair_rounding.max()) + branches + 3 + extra
            value[h] = sums[0]
            error[h] = bounds.difference_error(sums[0], 0.0, sums[0], sums[1], p_count, p_count + read.rounding + 1 + actions, 0.0, width) + sums[0] * float(bounds.gamma(read.rounding + 8))
            if risk:
                error[h] += 4 * bounds.dust(width) * mdp.n_states
            bar.advance()
    method = f"return of the episode, {'integer lattice' if plan is not None else 'exact keys'}, float64 with proven error"
    return EpisodeReturn(in_base(value, error * (1 + 1e-9), scale), laws, horizon, gamma, base, provenance(mdp, method), mdp, read, past, count, bounds.underflow(horizon, terms) if risk else 0.0)


def _chains(mdp, read, horizon):
    """(h, the merged chain of step h, successor and reward of its entries), h = 0 .. horizon-2: one for each step that leads on."""
    n_labels = len(mdp.rewards.values) + 1
    label = outcome_labels(mdp, n_labels)
    chain = None
    for h in range(horizon - 1):
        if chain is None or len(read.table) > 1:
            chain = merged(mdp, read.at(h), label)
            successor, reward = np.divmod(chain.entry, n_labels)
        yield h, chain, successor, reward


def _windows(mdp, read, plan, horizon):
    """([(low, high)] [S] each for h = 0 .. H-1, high below low where a state cannot be occupied; the doubles that the rows of each step take)."""
    far = np.int64(1) << 60
    low, high = np.full(mdp.n_states, far), np.full(mdp.n_states, -far)
    low[mdp.initial > 0] = high[mdp.initial > 0] = 0
    windows = [(low, high)] if horizon else []
    for _, chain, successor, reward in _chains(mdp, read, horizon):
        low, high = windows[-1]
        after = np.full(mdp.n_states, far), np.full(mdp.n_states, -far)
        kernels.episode.past_windows(np.flatnonzero(low <= high), mdp.n_states, chain.ptr, successor, plan.label_shift[reward], low, high, *after)
        windows.append(after)
    return windows, [int(_widths(*window).sum()) + 3 * mdp.n_states for window in windows]


def _widths(low, high):
    return np.where(low <= high, high - low + 1, 0)


def _room(window):
    """(start, count, low) of the packed rows of a step."""
    low, high = window
    count = _widths(low, high)
    return np.cumsum(count) - count, count, np.where(count > 0, low, 0)


def _count_step(read, mdp, chain, successor, states):
    """Roundings that one step adds, entries of one state at most."""
    listed = np.zeros(mdp.n_states, dtype=np.bool_)
    listed[states] = True
    inward = successor[np.repeat(listed, np.diff(chain.ptr)) & (successor < mdp.n_states)]
    return read.rounding + int(mdp.pair_rounding.max()) + 2 + chain.most + int(np.bincount(inward).max(initial=1))


def _lattice_past(mdp, read, plan, horizon, windows, risk, bar):
    """({h: Laws}, roundings [H], products that may add up in one step)."""
    past, count, terms = {}, np.zeros(horizon, dtype=np.int64), 1
    if horizon == 0:
        return past, count, terms
    start, n, low = _room(windows[0])
    past[0] = Laws(start, n, mdp.initial[n > 0].copy(), low=low, plan=plan, k=0)
    count[0] = mdp.initial_rounding
    for h, chain, successor, reward in _chains(mdp, read, horizon):
        now = past[h]
        start, n, low = _room(windows[h + 1])
        data, states, shift = np.zeros(int(n.sum())), np.flatnonzero(now.count > 0), plan.label_shift[reward]
        work = np.append(0, np.cumsum(now.count[states] * np.diff(chain.ptr)[states]))
        for begin, end in chunks(work, WORK):
            kernels.episode.past_step(begin, end, states, mdp.n_states, chain.ptr, successor, shift, chain.weight, now.start, now.count, now.low, now.data, start, low, data)
        past[h + 1] = Laws(start, n, data, low=low, plan=plan, k=h + 1)
        count[h + 1] = count[h] + _count_step(read, mdp, chain, successor, states)
        terms = max(terms, len(chain.entry) * chain.most * int(now.count.max()))
        bar.advance()
    return (_with_supports(mdp, read, plan, horizon, past) if risk else past), count, terms


def _with_supports(mdp, read, plan, horizon, past):
    """The same told which atoms there are, since float64 may have lost some."""
    floor = min(int(laws.low.min()) for laws in past.values())
    width = max(int((laws.low + laws.count).max()) for laws in past.values()) - floor
    flags = np.zeros((mdp.n_states, width), dtype=np.uint8)
    flags[past[0].count > 0, -floor] = 1
    told = {0: _told(past[0], flags, floor)}
    for h, chain, successor, reward in _chains(mdp, read, horizon):
        state = np.repeat(np.arange(mdp.n_states), np.diff(chain.ptr))
        order = np.argsort(successor, kind="stable")
        order = order[successor[order] < mdp.n_states]
        ptr = np.append(0, np.cumsum(np.bincount(successor[order], minlength=mdp.n_states)))
        new = np.zeros_like(flags)
        kernels.lattice.support_step(0, mdp.n_states, ptr, state[order], plan.label_shift[reward[order]], width, flags.reshape(-1), new.reshape(-1))
        flags = new
        told[h + 1] = _told(past[h + 1], flags, floor)
    return told


def _told(laws, flags, floor):
    # as narrow as the step's rows: all steps are kept
    first = int(laws.low.min()) - floor
    last = int((laws.low + laws.count).max()) - floor
    return Laws(laws.start, laws.count, laws.data, low=laws.low, plan=laws.plan, k=laws.k, possible=flags[:, first:last].astype(np.bool_), floor=floor + first)


def _lattice_information(mdp, read, h, past, laws, budget):
    """((sum over states, their weight), roundings of the convolution, widest row) at step h."""
    now, later = laws._steps[h], laws._steps[h + 1]
    states = np.flatnonzero(past.count > 0)
    if not len(states):
        return np.zeros(2), 1, 1
    lengths = past.count[states] + now.count[states] + 16
    width, actions = int(lengths.max()), int(np.diff(mdp.pair_ptr).max())
    if 8 * width * (actions + 2) > budget:
        raise BudgetError(f"one state's laws of the whole return need {bytes_text(8 * width * (actions + 2))}; the budget is {bytes_text(budget)}: use a shorter horizon, or a larger budget=")
    terms, sums = np.zeros((2, mdp.n_states)), np.empty(2)
    room = np.empty(int(now.count.max())), np.empty(actions * width), np.empty(width)
    work = np.append(0, np.cumsum(past.count[states] * now.count[states] * np.diff(mdp.pair_ptr)[states] + 1))
    after, shift = successors(mdp), laws._first.plan.label_shift[mdp.rewards.index]
    for begin, end in chunks(work, WORK):
        kernels.episode.information_step(
            begin, end, states, mdp.n_states, mdp.pair_ptr, read.at(h), mdp.branch_ptr, after, mdp.probability, shift, past.start, past.count, past.data, now.low, now.count,
            later.start, later.low, later.count, later.data, *room, terms,
        )  # fmt: skip
    kernels.entropy.weighted_sums(np.ones(mdp.n_states), terms, states, sums)
    return sums, int(np.minimum(past.count[states], now.count[states]).max()), width


def _keys_past(mdp, read, plan, horizon, budget, bar):
    """The same on exact keys: key K before step h stands for K / (q b^(h-1)), and K_{h+1} = b K_h + a^h q r."""
    past, count, terms = {}, np.zeros(horizon, dtype=np.int64), 1
    if horizon == 0:
        return past, count, terms
    states = np.flatnonzero(mdp.initial > 0)
    n = (mdp.initial > 0).astype(np.int64)
    past[0] = Laws(np.cumsum(n) - n, n, mdp.initial[states].copy(), rank=np.zeros(len(states), dtype=np.int64), table=np.zeros(1, dtype=np.int64), plan=plan, k=0)
    count[0] = mdp.initial_rounding
    held = 0
    for h, chain, successor, reward in _chains(mdp, read, horizon):
        now = past[h]
        entry = np.flatnonzero((successor < mdp.n_states) & np.repeat(now.count > 0, np.diff(chain.ptr)))
        state = np.repeat(np.arange(mdp.n_states), np.diff(chain.ptr))[entry]
        brought = now.count[state]
        total = int(brought.sum())
        if held + 64 * total + len(now.table) * plan.room(h + 1) > budget:
            raise BudgetError(f"what was gained before each step, on exact keys, takes more than the budget from step {h + 1} of {horizon} on ({total} atoms there): a horizon of {h + 1} may fit, or a larger budget= (bytes), a discount or rewards with smaller denominators")
        at = np.repeat(now.start[state] - np.append(0, np.cumsum(brought)[:-1]), brought) + np.arange(total)
        n_ranks = len(now.table)
        code, inverse = np.unique(np.repeat(reward[entry], brought) * n_ranks + now.rank[at], return_inverse=True)
        pays, rank = np.divmod(code, n_ranks)
        keys = _combined(plan.b, now.table[rank], plan.a**h, np.array([*plan.rewards, 0], dtype=object)[pays])
        table, target = np.unique(keys, return_inverse=True)
        place, law = np.unique(np.repeat(successor[entry], brought) * len(table) + target[inverse], return_inverse=True)
        data = np.bincount(law, np.repeat(chain.weight[entry], brought) * now.data[at], minlength=len(place))
        to, rank = np.divmod(place, len(table))
        n = np.bincount(to, minlength=mdp.n_states)
        past[h + 1] = Laws(np.cumsum(n) - n, n, data, rank=rank, table=table, plan=plan, k=h + 1)
        held += past[h + 1].nbytes
        count[h + 1] = count[h] + _count_step(read, mdp, chain, successor, np.flatnonzero(now.count > 0))
        terms = max(terms, len(chain.entry) * chain.most * int(now.count.max()))
        bar.advance()
    return past, count, terms


def _combined(c, x, d, y):
    """c x + d y of integers, as int64 where it fits."""
    most = sum(f * max(abs(int(v.min(initial=0))), abs(int(v.max(initial=0)))) for f, v in ((c, x), (d, y)))
    kind = np.int64 if max(most, c, d) < WIDE else object
    return c * x.astype(kind) + d * y.astype(kind)


def _brought(plan, h, horizon, before, later):
    """Keys of the past at h and of the future as keys of Z, over one denominator q b^(H-1)."""
    most = [max(abs(int(keys[0])), abs(int(keys[-1]))) for keys in (before, later)]
    factor = plan.b ** (horizon - h), plan.a**h
    kind = np.int64 if max(factor) < WIDE and factor[0] * most[0] + factor[1] * most[1] < WIDE else object
    return factor[0] * before.astype(kind), factor[1] * later.astype(kind)


def _joined(before, later, p, q):
    """(keys, law) of the sum of two independent numbers."""
    keys, inverse = np.unique(np.add.outer(before, later).ravel(), return_inverse=True)
    return keys, np.bincount(inverse, np.outer(p, q).ravel(), minlength=len(keys))


def _keys_information(mdp, read, h, past, laws, budget):
    weights, terms, widest, depth = read.at(h), [], 1, 1
    for s in np.flatnonzero(past.count > 0):
        pairs = np.arange(mdp.pair_ptr[s], mdp.pair_ptr[s + 1])
        pairs = pairs[weights[pairs] > 0]
        if len(pairs) == 1 or laws._steps[h].count[s] == 1:
            continue
        before, p = past.row(s)
        need = len(before) * int(laws._steps[h].count[s]) * (len(pairs) + 1) * (64 + past.plan.room(laws.horizon))
        if need > budget:
            raise BudgetError(f"the laws of Z given {mdp.name_state(s)} at step {h} may need {bytes_text(need)}; the budget is {bytes_text(budget)}: use a shorter horizon, or budget={need} (bytes)")
        rows = []
        for k in pairs:
            _, keys, q, _, _ = laws._pair(h, s, int(mdp.pair_action[k]))
            rows.append(_joined(*_brought(past.plan, h, laws.horizon, before, keys), p, q))
            depth = max(depth, min(len(before), len(keys)))
        wide = any(keys.dtype == object for keys, _ in rows)
        every, inverse = np.unique(np.concatenate([keys.astype(object) if wide else keys for keys, _ in rows]), return_inverse=True)
        n = (len(every) + 15) // 16 * 16
        table, first = np.zeros((len(rows), n)), 0
        for i, (keys, law) in enumerate(rows):
            table[i, inverse[first : first + len(keys)]] = law
            first += len(keys)
        widest = max(widest, n)
        mixed = weights[pairs] @ table
        value = 0.0 if (table == table[0]).all() else math.fsum(w * kernels.entropy.divergence_sum(row, 0, mixed, 0, n) for w, row in zip(weights[pairs].tolist(), table))
        terms.append((value, math.fsum(p)))
    return np.array([math.fsum(x) for x in zip(*terms)] or [0.0, 0.0]), depth, widest
