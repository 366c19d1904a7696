"""Models for the tests: those of spec section 4, and small awkward ones drawn at random with a policy and a horizon.

One set of builders takes `pick`, which chooses one of a sequence, and so serves two drivers: the hypothesis strategies,
which shrink a failure to its core but lean to simple cases, and `problem(seed)`, which spreads evenly and is the one for
numbers in bulk."""

import random
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from oracle import Model

HALF = Fraction(1, 2)


def F(*args):
    return Fraction(*args)


# ---- faces of a model for the package


def n_actions(model):
    return 1 + max(a for _, a in model.pairs)


def columns(model):
    """(args, kwargs) of MDP.from_branches: float probabilities, correctly rounded, and exact rewards (int or Fraction)."""
    state, action, probability, next_state, reward, ends = (list(column) for column in zip(*model.branches))
    reward = [int(r) if r == int(r) else Fraction(r) for r in reward]
    probability = [float(p) for p in probability]
    initial = [float(p) for p in model.initial]
    return (state, action, probability, next_state, reward, ends), {"n_states": model.n_states, "initial": initial}


def policy_table(model, policy, H):
    """float64 (H, S, A), zero rows for states without actions."""
    table = np.zeros((H, model.n_states, n_actions(model)))
    for h in range(H):
        for (s, a), p in policy[h].items():
            table[h, s, a] = float(p)
    return table


def _as_read(law):
    """What a law of Fractions is once it went through floats: their exact values over their exact sum."""
    floats = [Fraction(float(p)) for p in law]
    return [p / sum(floats) for p in floats]


def rounded(model):
    """The model that the float columns hold, each row normalised exactly. Differs from the drawn one by rounding only."""
    branches = list(model.branches)
    for pair in model.pairs:
        at = [i for i, branch in enumerate(branches) if branch[:2] == pair]
        for i, p in zip(at, _as_read([branches[i][2] for i in at])):
            branches[i] = branches[i][:2] + (p,) + branches[i][3:]
    return Model(model.n_states, tuple(branches), tuple(_as_read(model.initial)))


def rounded_policy(model, policy):
    """The policy that the float table holds, each row normalised exactly."""
    return [
        {
            (s, a): p
            for s, actions in model.actions.items()
            if actions
            for a, p in zip(actions, _as_read([table.get((s, a), 0) for a in actions]))
        }
        for table in policy
    ]


def uniform(model, H):
    table = {(s, a): Fraction(1, len(model.actions[s])) for s, a in model.pairs}
    return [dict(table) for _ in range(H)]


# ---- spec, section 4


def umbrella(L):
    """State 2 t + flag. The flag is the need at t = 0, afterwards whether action 0 matched it; the last step pays for that.
    The need stands in the state, so the agent sees it: an action that nobody could judge by S_0 would carry nothing."""
    branches = []
    for t in range(L):
        for flag in (0, 1):
            for a in (0, 1):
                met = int(a == flag) if t == 0 else flag
                s_next, last = (0, True) if t == L - 1 else (2 * t + 2 + met, False)
                if last:
                    branches.append((2 * t + flag, a, F(1), s_next, F(1 if met else -1), True))
                else:
                    branches += [(2 * t + flag, a, HALF, s_next, F(r), False) for r in (1, -1)]
    return Model(2 * L, tuple(branches), (HALF, HALF) + (F(0),) * (2 * L - 2))


def shortcut():
    branches = []
    for s in range(4):
        for a, target in ((0, 4), (1, s + 1)):
            for p, s_next in ((F(9, 10), target), (F(1, 10), 4)):
                branches.append((s, a, p, s_next, F(1 if s_next == 4 else -1), s_next == 4))
    return Model(5, tuple(branches), (F(1), F(0), F(0), F(0), F(0)))


def delayed_effect(m):
    """m >= 2 steps: the first action, one of two, decides the reward +1 or -1 of the last."""
    branches = [(0, a, F(1), 1 + a, F(0), False) for a in (0, 1)]
    for t in range(1, m):
        for side in (0, 1):
            s, last = 2 * t - 1 + side, t == m - 1
            reward = F(1 - 2 * side if last else 0)
            branches += [(s, a, F(1), 0 if last else s + 2, reward, last) for a in (0, 1)]
    return Model(2 * m - 1, tuple(branches), (F(1),) + (F(0),) * (2 * m - 2))


def two_arms():
    arms = ((0, F(1, 4), -6), (0, F(3, 4), 2), (1, HALF, 1), (1, HALF, -1))
    return Model(1, tuple((0, a, p, 0, F(r), True) for a, p, r in arms), (F(1),))


def coin():
    """One state that never ends, reward Bernoulli(1/2)."""
    return Model(1, ((0, 0, HALF, 0, F(0), False), (0, 0, HALF, 0, F(1), False)), (F(1),))


# ---- drawn models

DENOMINATORS = (2, 4, 2**20, 3, 7, 10, 13, 997, 10**6 + 3)
TINY = (F(1, 10**9), F(1, 10**12), F(1, 2**30))
REWARDS = (
    (F(0),),
    (F(0), F(1)),
    (F(-1), F(0), F(2)),
    (F(1, 10), F(2, 10), F(3, 10)),
    (F(1, 3), F(-1, 2)),
    (F(0), F(10**6)),
)
DISCOUNTS = (F(1), HALF, F(9, 10))


def _law(pick, n, denominators=DENOMINATORS):
    """n probabilities, zeros among them now and then, that sum to exactly 1."""
    unit = pick(denominators)
    floor = pick((0, 1, 1)) if unit >= n else 0
    rest = unit - n * floor
    cuts = sorted(pick(range(rest + 1)) for _ in range(n - 1))
    return [Fraction(b - a + floor, unit) for a, b in zip([0, *cuts], [*cuts, rest])]


def _model(pick):
    n_states, top_action = pick((1, 2, 3, 3, 4, 4)), pick((1, 2, 2, 3, 3))
    widest = pick((1, 2, 2, 3, 3))
    denominators = (pick(DENOMINATORS), pick(DENOMINATORS))
    rewards = pick(REWARDS)
    ends = pick(((False,), (False,) * 4 + (True,), (False,) * 9 + (True,), (False, True)))
    reward_by_pair = pick((False, True))  # the paper's case: no reward noise
    # How an action differs from the one before it; without "own" no state has much to choose.
    kinds = pick((("own", "own", "same", "nearly"),) * 4 + (("same", "nearly", "nearly"),))
    # A sink is entered by ending branches only and has no actions.
    sink = pick(range(n_states)) if n_states > 1 and pick((False, True)) else None
    alive = [s for s in range(n_states) if s != sink]

    def outcome(reward):
        s_next = pick(range(n_states))
        return (s_next, pick(rewards) if reward is None else reward, s_next == sink or pick(ends))

    def pair():
        """list of (probability, next state, reward, ends)"""
        reward = pick(rewards) if reward_by_pair else None
        kind = pick(("own", "own", "own", "split", "two rewards", "zero"))
        table = [(p, *outcome(reward)) for p in _law(pick, pick(range(1, widest + 1)), denominators)]
        p, s_next, r, end = table[0]
        if kind == "split":
            share = _law(pick, 2)
            table[0] = (p * share[0], s_next, r, end)
            table.append((p * share[1], s_next, r, end))
        elif kind == "two rewards":
            share = _law(pick, 2, denominators)
            table[0] = (p * share[0], s_next, r, end)
            table.append((p * share[1], s_next, pick(rewards) if reward is None else reward, end))
        elif kind == "zero":
            table.append((F(0), *outcome(reward)))
        return table

    def nearly(table):
        """The same but for a tiny probability: what it tells about the return is tiny too."""
        tiny = pick(TINY)
        big = max(range(len(table)), key=lambda i: table[i][0])
        changed = [*table, (F(0), *outcome(table[0][2] if reward_by_pair else None))]
        to = pick([i for i in range(len(changed)) if i != big])
        changed[big] = (changed[big][0] - tiny, *changed[big][1:])
        changed[to] = (changed[to][0] + tiny, *changed[to][1:])
        return changed

    rows = []
    for s in alive:
        left_out = pick((None, None, *range(top_action))) if top_action > 1 else None
        previous = None
        for a in range(top_action):
            if a == left_out:
                continue
            kind = "own" if previous is None else pick(kinds)
            previous = pair() if kind == "own" else nearly(previous) if kind == "nearly" else list(previous)
            rows += [(s, a, *branch) for branch in previous]
    if sink is not None and not any(row[2] > 0 and row[3] == sink for row in rows):
        i = pick([i for i, row in enumerate(rows) if row[2] > 0])
        rows[i] = (*rows[i][:3], sink, rows[i][4], True)
    random.Random(pick(range(10))).shuffle(rows)

    initial = [F(0)] * n_states
    for s, p in zip(alive, _law(pick, len(alive), denominators)):
        initial[s] = p
    return Model(n_states, tuple(rows), tuple(initial))


def _policy_table(pick, model):
    """{(s, a): probability}, every pair named."""
    kind = pick(("uniform", "deterministic", "drawn", "drawn", "drawn"))
    table = {}
    for s, actions in model.actions.items():
        if not actions:
            continue
        n = len(actions)
        if kind == "uniform":
            law = [Fraction(1, n)] * n
        elif kind == "deterministic":
            taken = pick(range(n))
            law = [F(int(i == taken)) for i in range(n)]
        else:
            law = _law(pick, n)
        table.update({(s, a): p for a, p in zip(actions, law)})
    return table


def horizon_within(model, H, limit):
    """The largest horizon up to H with at most `limit` trajectories over all first states, whatever the policy."""
    arrows = {
        s: [outcome for a in actions for outcome in {(a, s_next, r) for _, s_next, r in model.outcomes[s, a]}]
        for s, actions in model.actions.items()
    }
    count = dict.fromkeys(range(model.n_states), 1)
    for h in range(H):
        count = {s: max(1, sum(count.get(s_next, 1) for _, s_next, _ in arrows[s])) for s in arrows}
        if sum(count.values()) > limit:
            return h
    return H


def _problem(pick, limit):
    model = _model(pick)
    H = horizon_within(model, pick((0, 1, 2, 3, 3, 4, 4, 5, 5, 5)), limit)
    if pick((False, True)):
        policy = [_policy_table(pick, model) for _ in range(H)]
    else:
        policy = [_policy_table(pick, model)] * H
    return model, policy, H, pick(DISCOUNTS)


def _stationary_problem(pick):
    model = _model(pick)
    return model, _policy_table(pick, model), pick(DISCOUNTS)


def problem(seed, limit=20000):
    """(model, policy, H, discount), policy a list over h of {(s, a): Fraction}."""
    return _problem(random.Random(seed).choice, limit)


def stationary_problem(seed):
    """(model, {(s, a): Fraction}, discount), for what has no horizon."""
    return _stationary_problem(random.Random(seed).choice)


@st.composite
def problems(draw, limit=20000):
    """As problem(seed), from hypothesis."""
    return _problem(lambda options: draw(st.sampled_from(options)), limit)


@st.composite
def stationary_problems(draw):
    """As stationary_problem(seed), from hypothesis."""
    return _stationary_problem(lambda options: draw(st.sampled_from(options)))
