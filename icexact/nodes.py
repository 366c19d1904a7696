"""Nodes: beliefs or messages that are told apart, pushed through the steps of a filter, merged where that loses nothing or little.

What merging loses. Let N be the finest node after a step and C the class it is merged into. All that is computed later, about the part X of the process on the other
side of the state S of that step, conditions on C where N would be right, so it comes out too large: by I(X; N | C) in all, summed over the steps (chain rule). Given S, X
and N are independent; so this is at most I(S; N | C), the mean Kullback-Leibler divergence of the law of S at a member from that at its class, which is worked out at the
merging. Hence, with loss_j of the merging at step j,

    0 <= H(Y_t | C_t) - H(Y_t | all that was seen) <= sum of loss_j over the mergings before t,   0 <= sum over t of the left side <= sum of all loss_j.

The single terms bound each step because I(S; seen | C) can only fall from step to step by what the step's own excess takes, and only grow by loss_j. Where the law of
S at a member and at its class lie within Hilbert distance D of one another, the divergence is at most D^2/8 (Hoeffding's lemma): so columns equal up to rounding
merge at no cost. The other bound of exactness.md section 4, from radii that add up along a node's way, is kept beside it.

Conditioning on more than was seen, here the state itself at some nodes, gives the other side: a lower bound.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from icexact import bounds, kernels
from icexact.errors import BudgetError
from icexact.results import bytes_text

SAME = 1e-11  #: columns this near in direction are one node
SKETCH = 32  #: coordinates by which it is judged which nodes are near
LEAST = 2.0**-900  #: nodes of a smaller probability are pruned
WORK = 1 << 27  #: multiply-adds in one kernel call: Ctrl-C waits for no more
LEAST_ROOM = 16  #: nodes that must fit, whatever the limit
ROUNDS = 8  #: tries to find a leader for a column before it stays alone


@dataclass(eq=False)
class Nodes:
    """n columns over the states of a step: that of node j is x[s * width + column[j]] * 2^shift[j]."""

    x: np.ndarray
    width: int
    column: np.ndarray  # where the nodes stand in x
    shift: np.ndarray
    weight: np.ndarray  # probabilities
    radius: np.ndarray  # Hilbert distance of the farthest member; infinite after a merging that does not keep to one
    count: int  # roundings of an entry

    @property
    def n(self):
        return len(self.shift)

    def some(self, which):
        """Those nodes."""
        return replace(self, column=self.column[which], shift=self.shift[which], weight=self.weight[which], radius=self.radius[which])

    def mass(self):
        """2^shift: what a column's own numbers are to be multiplied with."""
        return np.ldexp(1.0, self.shift)


@dataclass(eq=False)
class Account:
    """What one push through the steps found, by step h: the entropies as the nodes give them, and what they may be off by."""

    horizon: int
    group: np.ndarray = field(init=False)  # H(group | node); a group is an action where rewards are seen with it, else a label
    label: np.ndarray = field(init=False)  # H(label | group, node)
    rate: np.ndarray = field(init=False)  # relative rounding of both
    loss: np.ndarray = field(init=False)  # of the mergings made before the step is seen
    near: np.ndarray = field(init=False)  # sum of weight * radius^2 / 8 over the step's nodes
    pruned: np.ndarray = field(init=False)  # mass that is not among the step's nodes any more
    nodes: np.ndarray = field(init=False)

    def __post_init__(self):
        for name in ("group", "label", "rate", "loss", "near", "pruned"):
            setattr(self, name, np.zeros(self.horizon))
        self.nodes = np.zeros(self.horizon, dtype=np.int64)


def single(filter, h):
    """One node: nothing is seen before step h (forward), nothing from h on (backward)."""
    x = np.zeros(filter.n_rows * 16)
    if filter.backward:
        x[::16], count = 1.0, 0
    else:
        x[::16], count = filter.occupied.mass(h), int(filter.occupied.count[h])
    return Nodes(x, 16, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.ones(1), np.zeros(1), count)


def units(filter, h):
    """One node a state that can be occupied at h: the state is known."""
    states, (g, _) = filter.rows(h), filter.weights(h)
    if filter.backward:
        return _known(states, g, np.ones(filter.n_rows), 0)
    return _known(states, g, filter.occupied.mass(h), int(filter.occupied.count[h]))


def _known(states, g, amount, count):
    """A column for each state, holding `amount` [S+1] there and 0 elsewhere."""
    states = states[amount[states] * g[states] >= LEAST]
    weight = amount[states] * g[states]
    _, shift = np.frexp(weight)
    width, column = _padded(len(states)), np.arange(len(states))
    x = np.zeros(len(g) * width)
    x[states * width + column] = np.ldexp(amount[states], -shift)
    return Nodes(x, width, column, shift.astype(np.int64), weight, np.zeros(len(states)), count)


def _together(one, two):
    """The nodes of both."""
    n, rows = one.n + two.n, len(one.x) // one.width
    width = _padded(n)
    x = np.zeros((rows, width))
    x[:, : one.n] = one.x.reshape(rows, one.width)[:, : one.n]
    x[:, one.n : n] = two.x.reshape(rows, two.width)[:, : two.n]
    return Nodes(x.ravel(), width, np.arange(n), np.append(one.shift, two.shift), np.append(one.weight, two.weight), np.append(one.radius, two.radius), max(one.count, two.count))


def _padded(n):
    return (n + 15) & ~15


def room(budget, n_rows, n_labels):
    """Nodes whose tables fit into the budget, candidates of all labels included."""
    return int(budget // (8 * n_rows * (n_labels + 3)))


def no_room(budget, n_rows, n_labels):
    """What to say where there is not even LEAST_ROOM."""
    return f"tables of nodes over {n_rows} states (the end is one) and {n_labels} labels need {bytes_text(8 * n_rows * (n_labels + 3) * LEAST_ROOM)} at least, the budget is {bytes_text(budget)}"


class Push:
    """Pushes nodes through the steps of a filter.

    limit: nodes kept after a step; near: Hilbert distance within which they are merged even so; reveal: beyond the limit the state is revealed, not nodes merged; dust:
    nodes of a smaller probability are pruned.
    """

    def __init__(self, filter, limit, *, near=0.0, reveal=False, dust=0.0, budget=4 << 30, tick=lambda: None):
        self.filter, self.limit, self.near, self.reveal, self.dust, self.budget, self.tick = filter, limit, near, reveal, max(dust, LEAST), budget, tick
        self.labels = filter.labels
        self.n_rows = filter.n_rows
        rng = np.random.default_rng(20240229)
        self._hash = rng.random((2, self.n_rows)) + 1.0
        small = self.n_rows <= SKETCH
        self._bucket = np.arange(self.n_rows) if small else rng.integers(SKETCH, size=self.n_rows)
        self._sign = np.ones(self.n_rows) if small else rng.choice([-1.0, 1.0], size=self.n_rows)
        self._dim = self.n_rows if small else SKETCH
        self._part = np.empty(1024)
        self.reduced = False  #: whether nodes were given up that differ
        #: nodes whose tables fit into the budget, candidates of all labels included
        self.room = room(budget, self.n_rows, self.labels.count)
        if self.room < LEAST_ROOM:
            raise BudgetError(no_room(budget, self.n_rows, self.labels.count))
        self.limit = min(limit, self.room & ~15)

    def run(self, nodes, steps, account=None):
        """Push `nodes`, over the states in which the first of `steps` begins, through all of them; the `Account`."""
        account = account or Account(self.filter.horizon)
        pruned, steps = 0.0, list(steps)
        for i, h in enumerate(steps):
            step = self.filter.step(h)
            joint = self._see(nodes, step)
            self._entropies(nodes, step, joint, account, h)
            account.pruned[h], account.nodes[h] = pruned, nodes.n
            if i + 1 < len(steps):
                nodes, lost, dropped = self._next(nodes, step, joint)
                account.loss[steps[i + 1]] = lost
                pruned += dropped
            self.tick()
        return account

    def _chunks(self, states, width):
        size = max(1, WORK // max(1, width))
        return (states[i : i + size] for i in range(0, len(states), size))

    def _project(self, states, functional, x, width):
        count = len(functional) // self.n_rows
        out = np.zeros(count * width)
        for some in self._chunks(states, count * width):
            kernels.beliefs.project(some, functional, self.n_rows, count, x, width, self._part, out)
        return out

    def _depth(self, states, wide):
        """Additions on the deepest path of `_project`."""
        return 66 + len(states) // 64 + len(states) * wide // WORK

    def _see(self, nodes, step):
        """P(label, node) over 2^shift, [labels * width]."""
        return self._project(step.before, step.functional, nodes.x, nodes.width)

    def _entropies(self, nodes, step, joint, account, h):
        L, mass = self.labels.count, nodes.mass()
        out = np.empty(2)
        kernels.beliefs.node_entropies(joint, nodes.width, nodes.n, mass, self.labels.group_ptr, np.empty(L), np.empty(L), out)
        account.group[h], account.label[h] = out
        # a part over its node's sum: both are off by `count` roundings, and the logarithm of a ratio below 1/2 by no more than thrice that of itself
        count = nodes.count + step.functional_count + 1 + self._depth(step.before, L * nodes.width)
        account.rate[h] = bounds.pivot_rate(4 * count, L + 1) + float(bounds.gamma(count + L + 8))
        if nodes.radius.any():
            weight = joint.reshape(L, nodes.width)[:, : nodes.n].sum(axis=0) * mass
            account.near[h] = float((weight * nodes.radius**2).sum()) / 8 * (1 + 1e-6)

    def _next(self, nodes, step, joint):
        """(nodes after the step, what merging them has lost, mass pruned)."""
        L, n, width = self.labels.count, nodes.n, nodes.width
        chance = joint.reshape(L, width)[:, :n]
        probability = chance * nodes.mass()
        there = probability >= self.dust
        pruned = float(probability[~there].sum()) * (1 + 1e-9)
        if not there.any():
            there = probability == probability.max()  # everything is dust: one node goes on
        active = there.any(axis=1)
        block = np.where(active, np.cumsum(active) - 1, -1)
        wide = int(active.sum()) * width
        m = step.matrices
        y, at = np.empty(self.n_rows * wide), np.empty(m.longest, dtype=np.int64)
        for some in self._chunks(step.after, wide * 4):
            kernels.beliefs.expand(some, m.run_ptr, m.run_label, m.entry_ptr, m.source, m.weight, block, int(active.sum()), nodes.x, width, y, at)
        label, node = np.nonzero(there)
        count = nodes.count + m.entry_count + 1 + bounds.mixture_depth(m.longest)
        found = Nodes(y, wide, block[label] * width + node, nodes.shift[node], probability[label, node], nodes.radius[node], count)
        merged, lost = self._merge(found, step)
        if merged.n > self.limit:
            self.reduced = True
            merged, more = (self._reveal if self.reveal else self._reduce)(merged, step)
            lost += more
        return merged, lost, pruned

    def _merge(self, found, step):
        """Columns of (nearly) one direction become one; (nodes, loss)."""
        g, states, n = step.g, step.after, found.n
        sums = self._project(states, np.concatenate([g, self._hash[0] * g, self._hash[1] * g]), found.x, found.width).reshape(3, found.width)[:, found.column]
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = sums[1] / sums[0], sums[2] / sums[0]
        leader, distance = np.arange(n), np.zeros(n)
        noise = 4 * float(bounds.gamma(found.count + 8))
        within = max(self.near, SAME, 4 * noise)
        pending = leader.copy()
        for _ in range(ROUNDS):
            pending = pending[np.argsort(first[pending], kind="stable")]
            group = np.empty(n, dtype=np.int64)
            if len(pending) < 2 or kernels.beliefs.same_direction(pending, first, second, np.expm1(within), group) == len(pending):
                break
            followers = pending[group[pending] != pending]
            heads = group[followers]
            low, high = np.full(len(followers), np.inf), np.zeros(len(followers))
            for some in self._chunks(states, 8 * len(followers)):
                kernels.beliefs.ratios(some, g, found.x, found.width, found.column[followers], found.column[heads], low, high)
            # where one has a zero that the other has not, they are infinitely far apart
            apart = np.full(len(low), np.inf)
            alike = (low > 0) & (high > 0)
            apart[alike] = np.log(high[alike]) - np.log(low[alike]) + 1e-15
            good = apart <= within
            leader[followers[good]], distance[followers[good]] = heads[good], apart[good]
            if good.all():
                break
            # those that are not as near as they looked try again among themselves
            pending = followers[~good]
        heads = np.flatnonzero(leader == np.arange(n))
        if len(heads) == n:
            return self._collect(found, leader, n, step, 1), 0.0
        target = np.searchsorted(heads, leader)
        size = np.bincount(target)
        merged = self._collect(found, target, len(heads), step, int(size.max()))
        # the sum of a class lies within `reach` of its leader, for balls of this distance are convex
        reach = np.zeros(len(heads))
        np.maximum.at(reach, target, distance)
        moved = np.where(size[target] > 1, distance + reach[target] + noise, 0.0)
        lost = float((found.weight * moved**2).sum()) / 8 * (1 + 1e-6)
        merged.radius[:] = 0.0
        np.maximum.at(merged.radius, target, found.radius + moved)
        if self.near > 0:
            lost = min(lost, self._lost(found, target, size, merged, step))
        return merged, lost

    def _collect(self, found, target, n, step, most):
        """The columns of each target 0 .. n-1 summed; `most` is the largest number of them."""
        width, weight = _padded(n), np.bincount(target, found.weight, minlength=n)
        _, shift = np.frexp(weight)
        factor = np.ldexp(1.0, found.shift - shift[target])
        # forward a row is read by every state that can lead on, occupied or not
        x = np.empty(self.n_rows * width) if self.filter.backward or len(step.after) == self.n_rows else np.zeros(self.n_rows * width)
        for some in self._chunks(step.after, width + 4 * found.n):
            kernels.beliefs.collect(some, step.g, found.x, found.width, found.column, target, factor, x, width)
        radius = np.zeros(n)
        np.maximum.at(radius, target, found.radius)
        return Nodes(x, width, np.arange(n), shift.astype(np.int64), weight, radius, found.count + most - 1)

    def _lost(self, found, target, size, merged, step):
        """Upper bound of I(S; member | class) over the classes of several members."""
        some = np.flatnonzero(size[target] > 1)
        if not len(some):
            return 0.0
        target, column = target[some], found.column[some]
        share = found.weight[some] / merged.weight[target] * np.ldexp(1.0, merged.shift[target] - found.shift[some])
        out = np.zeros(len(some))
        for states in self._chunks(step.after, 16 * len(some)):
            kernels.beliefs.losses(states, step.g, found.x, found.width, column, target, share, merged.x, merged.width, out)
        value = float((out * np.ldexp(1.0, found.shift[some])).sum())
        count = merged.count + step.g_count + len(step.after) + 4
        return value + float(bounds.difference_error(value, 0.0, value, float(found.weight[some].sum()), count, 2 * count, 0.0, len(step.after) + len(some))) + bounds.dust(len(step.after) + 1)

    def _sketch(self, nodes, step):
        """float64 [n, dim]: Hellinger coordinates of the law of the state at each node."""
        out = np.zeros(self._dim * nodes.width)
        scale = np.ldexp(1.0 / nodes.weight, nodes.shift)
        for some in self._chunks(step.after, 4 * nodes.n):
            kernels.beliefs.sketch(some, step.g, self._bucket, self._sign, nodes.x, nodes.width, nodes.n, scale, out)
        return np.ascontiguousarray(out.reshape(self._dim, nodes.width)[:, : nodes.n].T).ravel()

    def _reduce(self, nodes, step):
        """At most `limit` nodes, near ones merged; (nodes, loss)."""
        limit, dim, order = self.limit, self._dim, np.arange(nodes.n)
        begin, end, axis, heap = (np.zeros(limit + 1, dtype=np.int64) for _ in range(4))
        score, cut, state = np.zeros(limit + 1), np.zeros(limit + 1), np.zeros(2, dtype=np.int64)
        points = self._sketch(nodes, step)
        while kernels.beliefs.quantise(points, dim, nodes.weight, order, limit, np.empty(dim), np.empty(dim), begin, end, score, axis, cut, heap, state):
            self.tick()
        clusters = int(state[0])
        size = end[:clusters] - begin[:clusters]
        target = np.empty(nodes.n, dtype=np.int64)
        for_each = np.repeat(np.arange(clusters), size)
        target[order[np.repeat(begin[:clusters] - np.append(0, np.cumsum(size)[:-1]), size) + np.arange(nodes.n)]] = for_each
        merged = self._collect(nodes, target, clusters, step, int(size.max()))
        merged.radius[size > 1] = np.inf
        return merged, self._lost(nodes, target, size, merged, step)

    def _reveal(self, nodes, step):
        """The nodes at which the state is least sure are kept, at the others it is revealed: (nodes, 0)."""
        out = np.zeros(nodes.n)
        for some in self._chunks(step.after, 4 * nodes.n):
            kernels.beliefs.spread(some, step.g, nodes.x, nodes.width, nodes.n, out)
        unsure = np.ldexp(out, nodes.shift) + nodes.weight * np.log(nodes.weight) - nodes.weight * (nodes.shift * np.log(2.0))
        keep = np.sort(np.argsort(-unsure, kind="stable")[: self.limit - len(step.after)])
        told = np.setdiff1d(np.arange(nodes.n), keep)
        rest = self._collect(nodes.some(told), np.zeros(len(told), dtype=np.int64), 1, step, len(told))
        amount = np.zeros(self.n_rows)
        amount[step.after] = np.ldexp(rest.x[step.after * rest.width], rest.shift[0])
        kept = self._collect(nodes.some(keep), np.arange(len(keep)), len(keep), step, 1)
        return _together(kept, _known(step.after, step.g, amount, rest.count)), 0.0
