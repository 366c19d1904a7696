"""The naive twin: every quantity from its definition, over the list of all trajectories.

It shares nothing with the package, and uses none of the spec's recursions: those are what it is there to judge.
Probabilities are integers over one common denominator, returns integers over another, so everything rational is exact.
Only logarithms round: in a context of our own, so that mpmath's global precision stays as it is, and with 80 digits, so that
40 of an information as small as 1e-40 are sure although its terms cancel.
Tags such as (C1) are those of the spec. Information is in nats.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from math import gcd, inf, isfinite, isinf, lcm

from mpmath.ctx_mp import MPContext

MP = MPContext()
MP.dps = 80

END = "END"  # the state a process sits in after a branch that ends
NULL_STEP = (END, None, 0)

# What an observer sees of a step (s, a, r). That the episode is over shows in the state and the null action, not in the reward of 0.
PARTS = {
    "state": lambda step: step[0],
    "action": lambda step: step[1],
    "reward": lambda step: step[2],
    "pair": lambda step: step[:2],
    "action+reward": lambda step: step[1:],
    "trajectory": lambda step: step,
}


@dataclass(frozen=True)
class Model:
    """branches: (state, action, probability, next_state, reward, ends), in any order; initial: law of the first state."""

    n_states: int
    branches: tuple
    initial: tuple

    @cached_property
    def pairs(self):
        """Every available (s, a), ascending."""
        return sorted({(s, a) for s, a, *_ in self.branches})

    @cached_property
    def outcomes(self):
        """(s, a) -> list of (probability > 0, next state or END, reward), equal outcomes not merged."""
        rows = {pair: [] for pair in self.pairs}
        for s, a, p, s_next, r, ends in self.branches:
            if p > 0:
                rows[s, a].append((Fraction(p), END if ends else s_next, Fraction(r)))
        return rows

    @cached_property
    def actions(self):
        """s -> its actions, ascending; empty for a state that only ending branches enter."""
        table = {s: [] for s in range(self.n_states)}
        for s, a in self.pairs:
            table[s].append(a)
        return table


# ---- logarithms and sums over joint tables {key: integer weight}


@lru_cache(maxsize=1 << 18)
def _log_reduced(n, d):
    return MP.log(MP.mpf(n) / MP.mpf(d))


def log_ratio(n, d):
    """log(n / d) of positive integers; exactly 0 when they are equal."""
    if n == d:
        return MP.zero
    g = gcd(n, d)
    return _log_reduced(n // g, d // g)


def tally(keys_and_weights):
    """Adds up the weights of equal keys."""
    table = defaultdict(int)
    for key, weight in keys_and_weights:
        table[key] += weight
    return table


def _mean_of_logs(terms, total):
    """sum of weight * log(n / d) / total, one log for each distinct ratio. No ratio but 1 means exactly 0."""
    by_ratio = defaultdict(int)
    for weight, n, d in terms:
        if n != d:
            g = gcd(n, d)
            by_ratio[n // g, d // g] += weight
    return sum((MP.mpf(w) * _log_reduced(n, d) for (n, d), w in by_ratio.items()), MP.zero) / total


def entropy(weights):
    """-sum p log p, p = weight / sum of weights."""
    weights = list(weights)
    total = sum(weights)
    return _mean_of_logs(((w, total, w) for w in weights if w), total)


def conditional_entropy(joint):
    """H(X | C) from {(x, c): weight}."""
    given = tally((c, w) for (_, c), w in joint.items())
    return _mean_of_logs(((w, given[c], w) for (_, c), w in joint.items()), sum(given.values()))


def conditional_information(joint):
    """I(X; Y | C) = sum p log( p(x,y,c) p(c) / (p(x,c) p(y,c)) ) from {(x, y, c): weight}."""
    xc = tally(((x, c), w) for (x, _, c), w in joint.items())
    yc = tally(((y, c), w) for (_, y, c), w in joint.items())
    given = tally((c, w) for (_, _, c), w in joint.items())
    return _mean_of_logs(
        ((w, w * given[c], xc[x, c] * yc[y, c]) for (x, y, c), w in joint.items()),
        sum(given.values()),
    )


def divergence(p, q):
    """KL(p || q) of two laws {value: Fraction}; inf where q misses a value of p."""
    if any(z not in q for z in p):
        return MP.inf
    unit = lcm(*(x.denominator for x in p.values()), *(x.denominator for x in q.values()))
    terms = [(int(p[z] * unit), int(p[z] * unit), int(q[z] * unit)) for z in p]
    return _mean_of_logs(terms, unit)


def within(value, error, exact):
    """Whether |value - exact| <= error, decided on the numbers as they are: no rounding on the rational side."""
    value, error = float(value), float(error)
    if isinstance(exact, int | Fraction):
        return isfinite(value) and (isinf(error) or abs(Fraction(value) - exact) <= Fraction(error))
    if MP.isinf(exact):
        return value == inf
    return bool(abs(MP.mpf(value) - exact) <= MP.mpf(error))


# ---- trajectories


def as_function(policy):
    """A policy is policy(h, s, a), or a list over h of {(s, a): probability}; a pair not named has probability 0."""
    if callable(policy):
        return policy
    return lambda h, s, a: policy[h].get((s, a), Fraction(0))


def trajectories(model, policy, H):
    """Every trajectory of positive probability: list of (probability, steps), steps = ((s, a, r), ..) for h = 0 .. H-1."""
    return Oracle(model, policy, H).trajectories()


class Oracle:
    """All quantities of one model, policy, horizon and discount."""

    def __init__(self, model, policy, H, discount=1):
        self.model, self.H, self.discount = model, H, Fraction(discount)
        chance = as_function(policy)
        self.policy = [{(s, a): Fraction(chance(h, s, a)) for s, a in model.pairs} for h in range(H)]
        for h in range(H):
            for s, actions in model.actions.items():
                assert not actions or sum(self.policy[h][s, a] for a in actions) == 1, ("policy", h, s)
        for pair, rows in model.outcomes.items():
            assert sum(p for p, _, _ in rows) == 1, ("branches", pair)
        assert sum(model.initial) == 1
        entered = {s for s, p in enumerate(model.initial) if p > 0}
        entered |= {s_next for rows in model.outcomes.values() for _, s_next, _ in rows if s_next != END}
        assert all(model.actions[s] for s in entered), "a state without actions is entered by a branch that does not end"

        # One unit of probability for each kind of choice, so that weights are integers.
        self._p_unit = lcm(*(p.denominator for rows in model.outcomes.values() for p, _, _ in rows))
        self._pi_unit = lcm(*(p.denominator for table in self.policy for p in table.values()))
        self._start_unit = lcm(*(Fraction(p).denominator for p in model.initial))
        # G_h is an integer over reward unit * (denominator of the discount)^(H-1), for every h.
        reward_unit = lcm(*(r.denominator for rows in model.outcomes.values() for _, _, r in rows))
        top, bottom = self.discount.numerator, self.discount.denominator
        self._g_unit = reward_unit * bottom ** max(H - 1, 0)
        self._power = [top**k * bottom ** (H - 1 - k) for k in range(H)]
        self._reward_unit = reward_unit
        self._rows = {
            pair: [(int(p * self._p_unit), s_next, int(r * reward_unit)) for p, s_next, r in rows]
            for pair, rows in model.outcomes.items()
        }
        self._choices = [
            {
                s: [(a, int(table[s, a] * self._pi_unit)) for a in actions if table[s, a] > 0]
                for s, actions in model.actions.items()
            }
            for table in self.policy
        ]

        # Remembered on the object, so that the answers die with it.
        remembered = ("state_law", "pair_law", "pair_information", "hindsight", "_action_and_gain")
        remembered += ("sequence", "_symbols", "_span", "sequence_entropy", "causal_entropy", "directed", "mutual", "window")
        for name in remembered:
            setattr(self, name, cache(getattr(self, name)))

    # Steps inside hold the reward as an integer; _reward turns it back.

    def _reward(self, r):
        return Fraction(r, self._reward_unit)

    def _return(self, g):
        return Fraction(g, self._g_unit)

    def _walk(self, h, start, first_action=None):
        """{steps from h to the horizon: weight} from {state: weight}, the first action given or drawn from the policy."""
        layer = {((), s): w for s, w in start.items() if w}
        for k in range(h, self.H):
            following = defaultdict(int)
            for (steps, s), w in layer.items():
                if s == END:
                    following[steps + (NULL_STEP,), END] += w * self._pi_unit * self._p_unit
                    continue
                forced = k == h and first_action is not None
                for a, w_a in [(first_action, self._pi_unit)] if forced else self._choices[k][s]:
                    for w_b, s_next, r in self._rows[s, a]:
                        following[steps + ((s, a, r),), s_next] += w * w_a * w_b
            layer = following
        # The state after the last step is not part of the trajectory.
        table = tally((steps, w) for (steps, _), w in layer.items())
        shared = gcd(*table.values())
        return {steps: w // shared for steps, w in table.items()}

    def _gain(self, steps):
        """The return of these steps, seen from the first of them, as an integer."""
        return sum(c * r for c, (_, _, r) in zip(self._power, steps))

    @cached_property
    def _paths(self):
        return self._walk(0, {s: int(p * self._start_unit) for s, p in enumerate(self.model.initial)})

    @cached_property
    def _total(self):
        return sum(self._paths.values())

    @cached_property
    def _rows_by_time(self):
        """For each h, list of (prefix, step, G_h, Z, weight): tau^{h-1} as a number, since only equality counts."""
        numbers, table = {}, []
        for h in range(self.H):
            rows = []
            for steps, w in self._paths.items():
                prefix = numbers.setdefault(steps[:h], len(numbers))
                rows.append((prefix, steps[h], self._gain(steps[h:]), self._gain(steps), w))
            table.append(rows)
        return table

    def _law(self, weights):
        total = sum(weights.values())
        return {self._return(g): Fraction(w, total) for g, w in sorted(weights.items())}

    def trajectories(self):
        return [
            (Fraction(w, self._total), tuple((s, a, self._reward(r)) for s, a, r in steps))
            for steps, w in self._paths.items()
        ]

    # ---- (O1)

    @cached_property
    def occupancy(self):
        """(state, pair, alive), each a list over h: {s: d_h(s)}, {(s, a): d_h(s, a)}, the mass alive; all states and pairs."""
        state, pair, alive = [], [], []
        for rows in self._rows_by_time:
            seen_s = tally((step[0], w) for _, step, _, _, w in rows)
            seen_sa = tally((step[:2], w) for _, step, _, _, w in rows)
            state.append({s: Fraction(seen_s.get(s, 0), self._total) for s in range(self.model.n_states)})
            pair.append({sa: Fraction(seen_sa.get(sa, 0), self._total) for sa in self.model.pairs})
            alive.append(sum(state[-1].values()))
        return state, pair, alive

    # ---- laws of the return, of every state and pair whether occupied or not

    @cached_property
    def return_law(self):
        """{z: probability}, ascending."""
        return self._law(tally((self._gain(steps), w) for steps, w in self._paths.items()))

    def _action_and_gain(self, h, s):
        """{(A_h, G_h): weight} for a process that stands in s at h."""
        return tally(((steps[0][1], self._gain(steps)), w) for steps, w in self._walk(h, {s: 1}).items())

    def state_law(self, h, s):
        """Law of G_h given S_h = s, h = 0 .. H. A state without actions is never acted in: nothing is gained from it."""
        if h == self.H or s == END or not self.model.actions[s]:
            return {Fraction(0): Fraction(1)}
        return self._law(tally((g, w) for (_, g), w in self._action_and_gain(h, s).items()))

    def pair_law(self, h, s, a):
        """Law of G_h given S_h = s, A_h = a, h = 0 .. H-1; also for an action the policy never takes."""
        return self._law(tally((self._gain(steps), w) for steps, w in self._walk(h, {s: 1}, a).items()))

    @cached_property
    def expected_return(self):
        return self._return(1) * sum(w * self._gain(steps) for steps, w in self._paths.items()) / self._total

    @cached_property
    def return_entropy(self):
        """H(Z)."""
        return entropy(tally((self._gain(steps), w) for steps, w in self._paths.items()).values())

    # ---- Definition 1 of the paper

    def pair_information(self, h, s, a):
        """(S1). It is inf where the policy never takes a and a can gain what the others cannot."""
        return divergence(self.pair_law(h, s, a), self.state_law(h, s))

    @cached_property
    def action_information(self):
        """(S2) for each h, from the joint of (S_h, A_h, G_h). END has one action and adds exactly 0."""
        return [
            conditional_information(tally(((step[1], g, step[0]), w) for _, step, g, _, w in rows))
            for rows in self._rows_by_time
        ]

    @cached_property
    def information_sparsity(self):
        """The paper's I(A; Z | S): sum of (S2) over the expected length of the episode; 0 for H = 0."""
        length = sum(self.occupancy[2])
        return sum(self.action_information, MP.zero) * length.denominator / length.numerator if length else MP.zero

    @cached_property
    def policy_entropy(self):
        """H(A_h | S_h) for each h."""
        return [
            conditional_entropy(tally(((step[1], step[0]), w) for _, step, _, _, w in rows))
            for rows in self._rows_by_time
        ]

    # ---- credit of a step

    @cached_property
    def credit(self):
        """(C1): "skill", "luck", "noise", "total", each a list over h, with the whole prefix tau^{h-1} as the condition."""
        table = {"skill": [], "luck": [], "noise": [], "total": []}
        for rows in self._rows_by_time:
            joint = {name: defaultdict(int) for name in table}
            for prefix, (s, a, r), _, z, w in rows:
                joint["skill"][z, a, (prefix, s)] += w
                joint["luck"][z, s, prefix] += w
                joint["noise"][z, r, (prefix, s, a)] += w
                joint["total"][z, (s, a, r), prefix] += w
            for name, values in table.items():
                values.append(conditional_information(joint[name]))
        return table

    def hindsight(self, h, s):
        """(C3) {z: {a: P(A_h = a | S_h = s, G_h = z)}}, z ascending, over all actions of s."""
        joint = self._action_and_gain(h, s)
        given = tally((g, w) for (_, g), w in joint.items())
        return {
            self._return(g): {a: Fraction(joint.get((a, g), 0), w) for a in self.model.actions[s]}
            for g, w in sorted(given.items())
        }

    @cached_property
    def proposition_2(self):
        """(C3): "left" I(Z; tau_h | tau^{h-1}), "right" E[log h_h / pi_h], "gap" left - right.

        The gap is the mean of the log of the exact quotient of the two, so a true zero is exactly 0."""
        table = {"left": self.credit["total"], "right": [], "gap": []}
        for h, rows in enumerate(self._rows_by_time):
            sag = tally(((step[:2], g), w) for _, step, g, _, w in rows)
            sg = tally(((step[0], g), w) for _, step, g, _, w in rows)
            whole = tally(((prefix, step, g, z), w) for prefix, step, g, z, w in rows)
            prefix_step_z = tally(((prefix, step, z), w) for prefix, step, _, z, w in rows)
            prefix_step = tally(((prefix, step), w) for prefix, step, _, _, w in rows)
            prefix_z = tally(((prefix, z), w) for prefix, _, _, z, w in rows)
            prefixes = tally((prefix, w) for prefix, _, _, _, w in rows)
            right, gap = [], []
            for (prefix, step, g, z), w in whole.items():
                pi = Fraction(1) if step[0] == END else self.policy[h][step[:2]]
                n = sag[step[:2], g] * pi.denominator
                d = sg[step[0], g] * pi.numerator
                right.append((w, n, d))
                left_n = prefix_step_z[prefix, step, z] * prefixes[prefix]
                left_d = prefix_step[prefix, step] * prefix_z[prefix, z]
                gap.append((w, left_n * d, left_d * n))
            table["right"].append(_mean_of_logs(right, self._total))
            table["gap"].append(_mean_of_logs(gap, self._total))
        return table

    @cached_property
    def proposition_1(self):
        """(C4): "left" I(Z; tau_h | tau^{-h}), "right" H(R_h | tau^{h-1}), "gap" right - left, a true zero exactly 0."""
        table = {"left": [], "right": [], "gap": []}
        for h, rows in enumerate(self._rows_by_time):
            others = [steps[:h] + steps[h + 1 :] for steps in self._paths]
            numbers = {rest: i for i, rest in enumerate(set(others))}
            others = [numbers[rest] for rest in others]
            joint = tally(((z, step, rest), w) for (_, step, _, z, w), rest in zip(rows, others))
            table["left"].append(conditional_information(joint))
            reward = tally(((step[2], prefix), w) for prefix, step, _, _, w in rows)
            table["right"].append(conditional_entropy(reward))

            z_rest = tally(((z, rest), w) for (z, _, rest), w in joint.items())
            step_rest = tally(((step, rest), w) for (_, step, rest), w in joint.items())
            rests = tally((rest, w) for (_, _, rest), w in joint.items())
            prefixes = tally((prefix, w) for prefix, _, _, _, w in rows)
            gap = []
            for (prefix, step, _, z, w), rest in zip(rows, others):
                left_n = joint[z, step, rest] * rests[rest]
                left_d = z_rest[z, rest] * step_rest[step, rest]
                gap.append((w, prefixes[prefix] * left_d, reward[step[2], prefix] * left_n))
            table["gap"].append(_mean_of_logs(gap, self._total))
        return table

    # ---- (C6)

    @cached_property
    def variance(self):
        """(C6), Fractions: "skill", "luck", "noise" lists over h, weighted by gamma^{2h}, and "total" = Var(Z) by itself."""
        law = self.return_law
        mean = sum(p * z for z, p in law.items())
        table = {"skill": [], "luck": [], "noise": [], "total": sum(p * (z - mean) ** 2 for z, p in law.items())}
        for h, rows in enumerate(self._rows_by_time):
            before = [steps[h - 1] if h else None for steps in self._paths]  # tau_{h-1}
            V, _ = self._means((step[0], g, w) for _, step, g, _, w in rows)
            Q, p_sa = self._means((step[:2], g, w) for _, step, g, _, w in rows)
            after, p_sar = self._means((step, g, w) for _, step, g, _, w in rows)
            p_before = tally(zip(before, (row[4] for row in rows)))
            p_move = tally(((past, row[1][0]), row[4]) for past, row in zip(before, rows))
            mean_v = defaultdict(Fraction)
            for (past, s), w in p_move.items():
                mean_v[past] += Fraction(w, p_before[past]) * V[s]
            weight = self.discount ** (2 * h) / self._total
            table["skill"].append(weight * sum(w * (Q[sa] - V[sa[0]]) ** 2 for sa, w in p_sa.items()))
            table["luck"].append(weight * sum(w * (V[s] - mean_v[past]) ** 2 for (past, s), w in p_move.items()))
            table["noise"].append(weight * sum(w * (after[x] - Q[x[:2]]) ** 2 for x, w in p_sar.items()))
        return table

    def _means(self, rows):
        """E[G | key] as Fractions, and the weight of each key, from (key, g, weight)."""
        weight, moment = defaultdict(int), defaultdict(int)
        for key, g, w in rows:
            weight[key] += w
            moment[key] += w * g
        return {key: Fraction(moment[key], w * self._g_unit) for key, w in weight.items()}, weight

    def state_value(self, h, s):
        """V_h(s), also of states that are never occupied."""
        return sum(p * z for z, p in self.state_law(h, s).items())

    def pair_value(self, h, s, a):
        """Q_h(s, a), also of pairs that are never taken."""
        return sum(p * z for z, p in self.pair_law(h, s, a).items())

    # ---- directed information: of is a name in PARTS, or "return" for the discounted returns-to-go G_h

    def sequence(self, of):
        """For each trajectory, in the order of trajectories(), the tuple of its symbols over h."""
        if of == "return":
            return [tuple(self._return(g) for g in row) for row in self._symbols(of)]
        return [tuple(PARTS[of](step) for step in steps) for _, steps in self.trajectories()]

    def _symbols(self, of):
        """As sequence, rewards and returns left as integers."""
        if of == "return":
            return [tuple(self._gain(steps[h:]) for h in range(self.H)) for steps in self._paths]
        return [tuple(map(PARTS[of], steps)) for steps in self._paths]

    def _span(self, of, first, stop):
        """For each trajectory a number for its symbols at first .. stop - 1, since only equality counts.

        Grown by a symbol from a shorter span: to the left where the span reaches the horizon, else to the right."""
        if first >= stop:
            return [0] * len(self._paths)
        left = stop == self.H
        shorter = self._span(of, first + 1, stop) if left else self._span(of, first, stop - 1)
        edge = first if left else stop - 1
        numbers = {}
        return [numbers.setdefault((n, row[edge]), len(numbers)) for n, row in zip(shorter, self._symbols(of))]

    def _at(self, of, h):
        return self._span(of, h, h + 1)

    def _joint(self, *columns):
        """{(x, c): weight} or {(x, y, c): weight} from a column over the trajectories for each."""
        return tally(zip(zip(*columns), self._paths.values()))

    def sequence_entropy(self, of, backward=False):
        """H(X_h | X_0 .. X_{h-1}) for each h, or backward H(X_h | X_{h+1} .. X_{H-1})."""
        given = [self._span(of, h + 1, self.H) if backward else self._span(of, 0, h) for h in range(self.H)]
        return [conditional_entropy(self._joint(self._at(of, h), given[h])) for h in range(self.H)]

    def causal_entropy(self, source, target, delayed=False):
        """(D2) H(Y_h | Y^{h-1}, X^h) for each h, where X^h includes X_h; delayed: H(Y_h | Y^{h-1}, X^{h-1})."""
        values = []
        for h in range(self.H):
            given = zip(self._span(target, 0, h), self._span(source, 0, h if delayed else h + 1))
            values.append(conditional_entropy(self._joint(self._at(target, h), given)))
        return values

    def directed(self, source, target, delayed=False):
        """(D2) I(X^h; Y_h | Y^{h-1}), h = 0 .. H-1; delayed, as in (D3): I(X^h; Y_{h+1} | Y^h), h = 0 .. H-2.

        From the joint law and not as a difference of entropies, so that a true zero is exactly 0."""
        return [
            conditional_information(self._joint(self._span(source, 0, h if delayed else h + 1), self._at(target, h), self._span(target, 0, h)))
            for h in range(1 if delayed else 0, self.H)
        ]

    def mutual(self, source, target):
        """I(X^H; Y^H) of the whole sequences; 0 for H = 0."""
        nothing = self._span(source, 0, 0)
        return conditional_information(self._joint(self._span(source, 0, self.H), self._span(target, 0, self.H), nothing))

    def return_sequence_information(self):
        """(D1), its left end: I(tau; G_0, .., G_{H-1})."""
        return self.mutual("trajectory", "return")

    def directed_return(self):
        """(D1): H(G_h | G_{h+1}, .., G_{H-1}) for each h."""
        return self.sequence_entropy("return", backward=True)

    def window(self, h, k, of="reward", side="upper", backward=True):
        """(D5): H(X_h | the k symbols next to it), after it or (not backward) before it; for side "lower" given also the state
        where the window stops, S_{h+k+1} or S_{h-k}. Beyond the ends of time there is nothing to see: no symbols, no state."""
        assert 0 <= h < self.H and k >= 0 and side in ("upper", "lower")
        if backward:
            given, border = self._span(of, h + 1, min(h + k + 1, self.H)), h + k + 1
        else:
            given, border = self._span(of, max(h - k, 0), h), h - k
        if side == "lower" and 0 <= border < self.H:
            given = zip(given, self._at("state", border))
        return conditional_entropy(self._joint(self._at(of, h), given))

    # ---- the rest of the spec: what is seen without a clock, from inside the episode, and in hindsight of a state

    def state_hindsight(self, h, s, k):
        """(C5) {S_{h+k}: {a: P(A_h = a | S_h = s, S_{h+k})}}, the states ascending and END last, over all actions of s."""
        joint = tally(((steps[0][1], steps[k][0]), w) for steps, w in self._walk(h, {s: 1}).items())
        given = tally((y, w) for (_, y), w in joint.items())
        return {
            y: {a: Fraction(joint.get((a, y), 0), given[y]) for a in self.model.actions[s]}
            for y in sorted(given, key=lambda y: (y == END, y if y != END else 0))
        }

    @cached_property
    def pooled_information(self):
        """(S3) I(A; G | S) of (S_h, A_h, G_h) at a step drawn uniformly, END with its one action among them; 0 for H = 0."""
        joint = tally(((step[1], g, step[0]), w) for rows in self._rows_by_time for _, step, g, _, w in rows)
        return conditional_information(joint) if joint else MP.zero

    def past_law(self, h, s):
        """(R3) law of sum_{k<h} gamma^k R_k given S_h = s."""
        return self._law(tally((self._gain(steps[:h]), w) for steps, w in self._paths.items() if steps[h][0] == s))

    def episode_state_law(self, h, s):
        """(R3) law of Z given S_h = s."""
        return self._law(tally((self._gain(steps), w) for steps, w in self._paths.items() if steps[h][0] == s))

    def episode_pair_law(self, h, s, a):
        """(R3) law of Z given S_h = s, A_h = a, also for an action the policy never takes: the past does not know of it."""
        pasts = tally((self._gain(steps[:h]), w) for steps, w in self._paths.items() if steps[h][0] == s)
        futures = self._walk(h, {s: 1}, a)
        later = [self.discount**h * self._gain(steps) for steps in futures]
        return self._law(tally((past + future, w * v) for past, w in pasts.items() for future, v in zip(later, futures.values())))

    @cached_property
    def episode_information(self):
        """(R3) I(A_h; Z | S_h) for each h."""
        return [
            conditional_information(tally(((step[1], z, step[0]), w) for _, step, _, z, w in rows))
            for rows in self._rows_by_time
        ]


# ---- without horizon, for one table {(s, a): probability}


def _moves(model, policy):
    """P_pi over the model's own states, as rows of Fractions."""
    table = [[Fraction(0)] * model.n_states for _ in range(model.n_states)]
    for (s, a), rows in model.outcomes.items():
        for p, s_next, _ in rows:
            if s_next != END:
                table[s][s_next] += policy.get((s, a), Fraction(0)) * p
    return table


def _solve(matrix, right):
    """Gaussian elimination, exact."""
    n = len(right)
    rows = [list(row) + [b] for row, b in zip(matrix, right)]
    for i in range(n):
        pivot = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(n):
            if j != i and rows[j][i]:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i])]
    return [row[-1] for row in rows]


def _stationary(model, policy, discount, start):
    """x = start + discount P_pi^T x, by states and by pairs."""
    moves, n = _moves(model, policy), model.n_states
    matrix = [[(s == s_next) - discount * moves[s][s_next] for s in range(n)] for s_next in range(n)]
    state = dict(enumerate(_solve(matrix, start)))
    return state, {(s, a): state[s] * policy.get((s, a), Fraction(0)) for s, a in model.pairs}


def discounted_occupancy(model, policy, discount):
    """(O2): {s: d(s)}, {(s, a): d(s, a)}, discount < 1."""
    discount = Fraction(discount)
    assert 0 < discount < 1
    return _stationary(model, policy, discount, [(1 - discount) * p for p in model.initial])


class NeverEnds(ValueError):
    """states: those that can be entered and from which the end cannot be reached."""

    def __init__(self, states):
        super().__init__(f"the end cannot be reached from states {states}")
        self.states = states


def expected_visits(model, policy):
    """(O3): {s: visits}, {(s, a): visits}, or NeverEnds. A state that cannot be entered has 0, whether it ends or not."""
    arrows = {
        s: {s_next for a in actions if policy.get((s, a), 0) > 0 for _, s_next, _ in model.outcomes[s, a]}
        for s, actions in model.actions.items()
    }

    def reach(frontier):
        seen = set(frontier)
        while frontier:
            frontier = {t for s in frontier if s != END for t in arrows[s]} - seen
            seen |= frontier
        return seen

    entered = reach({s for s, p in enumerate(model.initial) if p > 0}) - {END}
    stuck = sorted(s for s in entered if END not in reach({s}))
    if stuck:
        raise NeverEnds(stuck)
    # The states left out may have a singular system of their own: keep them apart.
    kept = {pair: p if pair[0] in entered else Fraction(0) for pair, p in policy.items()}
    return _stationary(model, kept, Fraction(1), list(model.initial))


def stationary_sparsity(model, policy, discount, steps):
    """(S4) for a model in which nothing is earned after `steps` steps, whatever the first state: the exact value, from the list of all episodes."""
    discount = Fraction(discount)
    state, _ = discounted_occupancy(model, policy, discount) if discount < 1 else expected_visits(model, policy)
    total = MP.zero
    for s, weight in state.items():
        if weight and len(model.actions[s]) > 1:
            joint = Oracle(model, [policy] * steps, steps, discount)._action_and_gain(0, s)
            information = conditional_information({(a, g, None): w for (a, g), w in joint.items()})
            total += information * weight.numerator / weight.denominator
    mass = sum(state.values())
    return total * mass.denominator / mass.numerator
