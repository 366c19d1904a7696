"""Entropies of what is seen step by step: H(X_h | X_0 .. X_{h-1}), forward over beliefs or backward over messages, as a number or a proven bracket (D1), (D4), (D5)."""

from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property

import numpy as np

from icexact import bounds, kernels, policies
from icexact.chain import restrict
from icexact.errors import BudgetError
from icexact.filters import Filter, Occupied, labels
from icexact.intervals import Bracket
from icexact.local import Local
from icexact.nodes import LEAST_ROOM, Push, no_room, room, single, units
from icexact.progress import Progress
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, check_budget, check_horizon, log_base, provenance, unit

MAX_NODES = 4096  #: nodes a step if the caller says nothing
ROUND = 4  #: each round of closing a bracket has so many times the nodes of the one before
DUST = 2.0**-800  #: what events below the range of float64 can add to an entropy, with all room to spare


@dataclass(frozen=True)
class Options:
    """How far brackets are closed: see `sequence_entropy`."""

    tolerance: float | None = None
    max_nodes: int = MAX_NODES
    merge: float = 0.0
    dust: float = 0.0
    window: int | None = None
    budget: int = 4 << 30

    def __post_init__(self):
        if self.tolerance is not None and not self.tolerance > 0:
            raise ValueError(f"tolerance is {self.tolerance!r}; it must be a width > 0 (in the unit of base), or None")
        if isinstance(self.max_nodes, bool) or not isinstance(self.max_nodes, (int, np.integer)) or self.max_nodes < 1:
            raise ValueError(f"max_nodes is {self.max_nodes!r}; it must be a number of nodes, an integer >= 1")
        for name in ("merge", "dust"):
            x = getattr(self, name)
            if isinstance(x, bool) or not isinstance(x, (int, float, np.floating, np.integer)) or not 0 <= x < (np.inf if name == "merge" else 1):
                raise ValueError(f"{name} is {x!r}; it must be {'a Hilbert distance >= 0' if name == 'merge' else 'a probability, 0 <= dust < 1'}")
        if self.window is not None and (isinstance(self.window, bool) or not isinstance(self.window, (int, np.integer)) or self.window < 0):
            raise ValueError(f"window is {self.window!r}; it must be a number of steps, an integer >= 0, or None")


class Sequences:
    """The entropies of one model, policy and horizon, in nats; each is worked out when it is first asked for."""

    def __init__(self, mdp, policy, horizon, options, progress=None):
        part = restrict(mdp, policy, horizon)
        self.model, self.policy, self.horizon, self.options, self.progress = part.mdp, part.policy, horizon, options, progress
        self.occupied = Occupied(part.mdp, part.policy, horizon, options.budget) if horizon else None

    # over beliefs and messages: (H(group | ..), H(label | group, ..))

    @cached_property
    def actions(self):
        """H(A_h | A^{h-1})."""
        return self._filtered("action")[0]

    @cached_property
    def rewards(self):
        """H(R_h | R^{h-1})."""
        return self._filtered("reward")[0]

    @cached_property
    def rewards_backward(self):
        """H(R_h | R_{h+1}, .., R_{H-1})."""
        return self._filtered("reward", True)[0]

    @cached_property
    def joint(self):
        """(H(A_h | A^{h-1}, R^{h-1}), H(R_h | A^h, R^{h-1}))."""
        return self._filtered("action+reward")

    def _filtered(self, of, backward=False):
        if not self.horizon:
            nothing = Bracket.of(np.zeros(0), np.zeros(0), "exact merging")
            nothing.nodes = np.zeros(0, dtype=np.int64)
            return nothing, nothing
        filter = Filter(self.model, self.policy, self.horizon, of, backward=backward, occupied=self.occupied)
        what = f"{'messages' if backward else 'beliefs'} ({of})"
        return _windowed(filter, self.options, self.progress, what) if self.options.window is not None else _closed(filter, self.options, self.progress, what)

    @cached_property
    def local(self):
        """What one step alone decides."""
        return Local(self.model, self.policy, self.occupied, self.horizon)

    def entropy(self, of):
        """H(X_h | X^{h-1}) of any kind."""
        if of == "action":
            return self.actions
        if of == "reward":
            return self.rewards
        if of == "action+reward":
            return self.joint[0].plus(self.joint[1])
        states = self.local.next_states({"state": "state", "pair": "pair", "trajectory": "step"}[of])
        if of == "state":
            return states
        pairs = states.plus(self.local.actions)
        return pairs if of == "pair" else pairs.plus(self.local.rewards_of_pairs)


def _beside(filter):
    """Lower bounds of both entropies by step [2, H]: the state next to the step is revealed, (D5) with k = 0."""
    n, L, H = filter.n_rows, filter.labels.count, filter.horizon
    found, rate, out = np.zeros((2, H)), np.zeros(H), np.empty(2)
    for h in range(H):
        step = filter.step(h)
        # backward the functional holds the occupancy already
        mass = np.ones(n) if filter.backward else filter.occupied.mass(h)
        kernels.beliefs.node_entropies(step.functional, n, n, mass, filter.labels.group_ptr, np.empty(L), np.empty(L), out)
        found[:, h] = out
        rate[h] = _rate(step.functional_count + (0 if filter.backward else int(filter.occupied.count[h])), L)
    return found * (1 - rate)


def _rate(count, n_labels):
    return bounds.pivot_rate(4 * count, n_labels + 1) + float(bounds.gamma(count + n_labels + 8))


@dataclass(eq=False)
class _Ends:
    """Lower and upper ends of both entropies [2, H], and of their sums over the steps [2]."""

    lower: np.ndarray
    upper: np.ndarray
    total_lower: np.ndarray
    total_upper: np.ndarray

    def meet(self, other):
        self.lower, self.upper = np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper)
        self.total_lower, self.total_upper = np.maximum(self.total_lower, other.total_lower), np.minimum(self.total_upper, other.total_upper)

    def width(self):
        return float((self.total_upper - self.total_lower).sum())

    def brackets(self, method, nodes):
        slack = float(bounds.gamma(self.lower.shape[1] + 4))
        lower, upper = np.maximum(self.lower, 0.0), np.maximum(self.upper, self.lower)
        low = np.maximum(self.total_lower, lower.sum(axis=1) * (1 - slack))
        high = np.minimum(self.total_upper, upper.sum(axis=1) * (1 + slack))
        return tuple(Bracket(lower[i], upper[i], max(float(low[i]), 0.0), max(float(high[i]), 0.0), method, nodes) for i in range(2))


def _ends(filter, account, merged=True):
    """What an account proves; of one that reveals states (merged=False) the lower ends only."""
    steps = list(filter.order())
    carried = np.zeros(filter.horizon)
    carried[steps] = np.cumsum(account.loss[steps])
    excess = np.minimum(carried, account.near) * (1 + 1e-9)
    slack = float(bounds.gamma(filter.horizon + 4))
    value = np.stack([account.group, account.label])
    least = value * (1 - account.rate)
    lost = DUST if filter.occupied.lost or filter.tiny else 0.0
    lower = np.maximum(least - excess - lost, 0.0)
    total_lower = np.maximum(least.sum(axis=1) * (1 - slack) - min(account.loss.sum() * (1 + slack), excess.sum() * (1 + slack)) - lost * filter.horizon, 0.0)
    if not merged:
        return _Ends(lower, np.full_like(lower, np.inf), total_lower, np.full(2, np.inf))
    sizes = np.diff(filter.labels.group_ptr)
    most = np.array([[np.log(len(sizes))], [np.log(sizes.max())]]) * (1 + 1e-15)
    upper = value * (1 + account.rate) + account.pruned * most + lost
    return _Ends(lower, upper, total_lower, upper.sum(axis=1) * (1 + slack))


def _closed(filter, options, progress, what):
    """The two entropies as `Bracket`: exact where the nodes can all be told apart, else closed from both sides, round by round.

    Each round has ROUND times the nodes of the one before, and what it proves is met with what the others did: a larger max_nodes adds rounds, and so can only narrow.
    """
    H = filter.horizon
    limits = [1]
    while limits[-1] * ROUND <= options.max_nodes:
        limits.append(limits[-1] * ROUND)
    found = _Ends(_beside(filter), np.full((2, H), np.inf), np.zeros(2), np.full(2, np.inf))
    first = None
    if options.tolerance is None:
        # the largest first: where it gives nothing up there is nothing to close
        first = _push(filter, options, limits[-1], progress, what)
        if not first[0].reduced:
            limits = [limits[-1]]
    reveal = True
    for limit in limits:
        push, account = first if first is not None and limit == limits[-1] else _push(filter, options, limit, progress, what)
        ends = _ends(filter, account)
        found.meet(ends)
        if not push.reduced:
            method = f"nodes below {push.dust:g} pruned" if account.pruned.any() else f"merging within {options.merge:g}" if options.merge > 0 else "exact merging"
            break
        method = f"bracket, {limit} nodes"
        if reveal and push.limit > filter.n_rows + 15:
            told = _ends(filter, _push(filter, options, limit, progress, what, reveal=True)[1], merged=False)
            # where this side is the worse one, it stays so: merging gains more by more nodes
            reveal = bool((told.total_lower > ends.total_lower).any())
            found.meet(told)
        if options.tolerance is not None and found.width() <= options.tolerance:
            break
    return found.brackets(method, account.nodes)


def _push(filter, options, limit, progress, what, reveal=False):
    with Progress(progress, filter.horizon, f"{what}, {limit} nodes") as bar:
        push = Push(filter, limit, near=0.0 if reveal else options.merge, reveal=reveal, dust=options.dust, budget=options.budget, tick=bar.advance)
        return push, push.run(single(filter, filter.horizon if filter.backward else 0), filter.order())


def _windowed(filter, options, progress, what):
    """(D5) as it stands: at each step the `window` labels next to it are seen, and nothing (upper side) or the state (lower side) beyond them."""
    H, k = filter.horizon, options.window
    found = _Ends(np.zeros((2, H)), np.full((2, H), np.inf), np.zeros(2), np.full(2, np.inf))
    nodes = np.zeros(H, dtype=np.int64)
    with Progress(progress, H, what) as bar:
        for h in range(H):
            # where the window begins; beyond the first or the last step there is nothing to reveal
            far = min(h + k + 1, H) if filter.backward else max(h - k, 0)
            whole = far == H if filter.backward else h - k < 0
            steps = range(far - 1, h - 1, -1) if filter.backward else range(far, h + 1)
            push = Push(filter, options.max_nodes, budget=options.budget)
            account = push.run(single(filter, far), steps)
            one = _ends(filter, account)
            nodes[h] = account.nodes[h]
            if not whole:
                if len(filter.rows(far)) > push.room:
                    raise BudgetError(f"to reveal the state takes {len(filter.rows(far))} nodes, and {push.room} fit into the budget: a larger budget= is needed")
                account = push.run(units(filter, far), steps)
                one.lower = _ends(filter, account, merged=False).lower
                nodes[h] += account.nodes[h]
            found.lower[:, h], found.upper[:, h] = one.lower[:, h], one.upper[:, h]
            bar.advance()
    slack = float(bounds.gamma(H + 4))
    found.total_lower, found.total_upper = found.lower.sum(axis=1) * (1 - slack), found.upper.sum(axis=1) * (1 + slack)
    return found.brackets(f"window of {k}", nodes)


KINDS = ("action", "state", "pair", "reward", "action+reward", "trajectory")


@dataclass(frozen=True, eq=False, repr=False)
class SequenceEntropy(Result):
    """See `sequence_entropy`: `value` () = H(X^H), `per_step` [H]; `method` says how it was had, `nodes` [H] how many each step had (None for a closed form), `width` what `value` leaves open."""

    value: Bounded
    per_step: Bounded
    of: str
    backward: bool
    method: str
    nodes: np.ndarray | None
    horizon: int
    base: float | None
    source: dict = field(default_factory=dict)

    @property
    def width(self):
        """Of the interval that `value` is proven to lie in."""
        return 2 * float(self.value.error)

    def summary(self):
        """One screen of text."""
        given = "what comes later" if self.backward else "what came before"
        lines = [f"Entropy of the {self.of}s over {self.horizon} steps, in {unit(self.base)}: {shown(self.value)}"]
        lines += [f"  step {h}: {self.per_step[h]}" for h in range(min(self.horizon, 8))]
        if self.horizon > 8:
            lines.append(f"  .. and {self.horizon - 8} later steps, each given {given}")
        if self.nodes is not None and self.horizon:
            lines.append(f"  {self.method}; at most {int(self.nodes.max())} nodes a step")
        return "\n".join([*lines, self.footer()])


def shown(x, digits=6):
    """A number for a screen: its sure digits, or where few are sure the interval it is proven to lie in.

    >>> shown(Bounded(0.5, 1e-9)), shown(Bounded(0.0392, 0.0036))
    ('0.50000000', 'in [0.03559, 0.04281]')
    """
    if float(x.error) <= max(10.0**-digits * abs(float(x.value)), 1e-12):
        return str(x)
    low, high = Decimal(float(x.lower)), Decimal(float(x.upper))
    step = Decimal((0, (1,), max(high.adjusted() - digits + 1, (high - low).adjusted() - 2)))
    return f"in [{low.quantize(step, ROUND_FLOOR).normalize():f}, {high.quantize(step, ROUND_CEILING).normalize():f}]"


def affordable(mdp, horizon, work=1 << 30, most=256):
    """The largest power of ROUND of nodes for which a push over `horizon` steps takes about `work` multiply-adds, at most `most`."""
    one = horizon * (mdp.n_branches + 2 * (mdp.n_states + 1) * _labels_at_most(mdp))
    nodes = 1
    while nodes * ROUND <= min(most, work // max(1, one)):
        nodes *= ROUND
    return nodes


def check_room(mdp, budget):
    """BudgetError where the tables of the most labels have no room in the budget."""
    labels = _labels_at_most(mdp)
    if room(budget, mdp.n_states + 1, labels) < LEAST_ROOM:
        raise BudgetError(f"directed information: {no_room(budget, mdp.n_states + 1, labels)}; directed=False (--no-directed) leaves it out")


def _labels_at_most(mdp):
    return labels(mdp, "action+reward").count


def read_options(tolerance, max_nodes, merge, dust, window, budget, scale):
    """`Options` from a caller's arguments, the tolerance in nats."""
    options = Options(tolerance, max_nodes, merge, dust, window, check_budget(budget))
    return options if tolerance is None else replace(options, tolerance=float(tolerance) * scale)


def sequence_entropy(mdp, policy, *, horizon, of, backward=False, discount=1, base=None, tolerance=None, max_nodes=MAX_NODES, merge=0.0, dust=0.0, window=None, budget=4 << 30, progress=None):
    """Entropy of what is seen over the horizon: H(X^H) = sum_h H(X_h | X_0, .., X_{h-1}).

    of: "action", "state", "pair", "reward", "action+reward" or "trajectory"; after the end of an episode the state is the end, the action a null action and the reward 0.
    backward=True, for rewards: H(R_h | R_{h+1}, .., R_{H-1}) for each h, whose sum is the same (D1). A discount changes none of it and is only checked.

    States, pairs and trajectories are closed forms of one step. The others are entropies of functions of a Markov chain (D4): nodes, the laws of the state given what was
    seen, are counted, equal ones once. Where there are more than `max_nodes` at a step the answer is a bracket: `value` the middle, `error` half its width, both proven;
    `per_step` likewise, and the sum is known better than its parts. `tolerance`: stop at a width of `value` below it (in the unit of base); max_nodes counts in powers
    of 4, and more only narrows the bracket. merge: nodes within this Hilbert distance are one, at a proven loss. dust: nodes of a smaller probability are pruned, at a
    proven cost. window: (D5) with so many steps in place of all that.

    Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.gridworld(4)
    >>> entropy = ic.sequence_entropy(mdp, ic.policies.uniform(mdp), horizon=10, of="reward")
    >>> entropy.value, entropy.method, int(entropy.nodes.max())
    (0.2496444255288, 'exact merging', 2)
    """
    horizon = check_horizon(horizon)
    read_discount(discount)
    scale = log_base(base)
    if of not in KINDS:
        raise ValueError(f"of is {of!r}; it must be one of {', '.join(map(repr, KINDS))}")
    if backward and of != "reward":
        raise ValueError(f"backward entropies are those of rewards (D1), not of {of}s: drop backward=True, or ask of='reward'")
    options = read_options(tolerance, max_nodes, merge, dust, window, budget, scale)
    read = policies.read(mdp, policy, horizon)
    found = Sequences(mdp, read, horizon, options, progress)
    bracket = found.rewards_backward if backward else found.entropy(of)
    return SequenceEntropy(bracket.total(scale), bracket.per_step(scale), of, bool(backward), bracket.method, bracket.nodes, horizon, base, provenance(mdp, f"entropy of {of}s, {bracket.method}"))
