"""The oracle against the closed forms of spec section 4, and against the spec's recursions on drawn models."""

from collections import defaultdict
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from math import comb

import models
import oracle
import pytest
from hypothesis import HealthCheck, example, given, settings
from oracle import END, MP, Oracle, divergence, entropy, tally

F = Fraction
drawn = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def same(x, y):
    """Equal but for the oracle's own rounding, of 80 digits; two routes to one number need not round alike."""
    if MP.isinf(x) or MP.isinf(y):
        return x == y
    return abs(x - y) <= MP.mpf(10) ** -75 * (1 + abs(x))


def solve(model, H, discount=1):
    return Oracle(model, models.uniform(model, H), H, discount)


def bits(x):
    return x / MP.log(2)


# ---- closed forms


@pytest.mark.parametrize("L, printed", [(1, "1"), (2, "0.5"), (3, "0.3112781245"), (5, "0.1675533488")])
def test_umbrella(L, printed):
    o = solve(models.umbrella(L), L)

    def binomial(n):
        return entropy(comb(n, k) for k in range(n + 1))

    assert same(o.action_information[0], binomial(L) - binomial(L - 1))
    assert abs(bits(o.action_information[0]) - MP.mpf(printed)) < MP.mpf(10) ** -10 / 2
    assert o.action_information[1:] == [0] * (L - 1)


def test_shortcut():
    o = solve(models.shortcut(), 5)
    assert o.return_law == {F(1): F("0.55"), F(0): F("0.2475"), F(-1): F("0.111375"), F(-2): F("0.091125")}
    v = o.variance
    assert v["total"] == F(61449399, 64000000)
    assert v["skill"] == [F("0.552978140625"), F("0.1915903125"), F("0.04100625"), 0, 0]
    assert v["noise"] == [F("0.12288403125"), F("0.042575625"), F("0.0091125"), 0, 0]
    assert v["luck"] == [0] * 5


@pytest.mark.parametrize("m", [2, 4])
def test_delayed_effect(m):
    o = solve(models.delayed_effect(m), m)
    assert same(bits(o.action_information[0]), MP.one)
    assert o.action_information[1:] == [0] * (m - 1)
    assert same(o.information_sparsity * m, o.action_information[0])


def test_two_arms_of_equal_mean():
    o = solve(models.two_arms(), 1)
    assert same(bits(o.action_information[0]), MP.one)
    assert o.pair_value(0, 0, 0) == o.pair_value(0, 0, 1) == o.variance["skill"][0] == 0


def test_coin_under_a_discount_of_one_half():
    for H in range(6):
        expected = {F(k) * 2 / 2**H: F(1, 2**H) for k in range(2**H)}
        assert solve(models.coin(), H, F(1, 2)).return_law == expected


def test_a_duplicated_action_carries_exactly_nothing():
    o = solve(models.coin(), 3)
    twice = oracle.Model(1, models.coin().branches + tuple((0, 1) + b[2:] for b in models.coin().branches), (F(1),))
    d = solve(twice, 3)
    assert d.action_information == d.credit["skill"] == [0, 0, 0] and d.return_law == o.return_law


def test_no_horizon_at_all():
    o = solve(models.coin(), 0)
    assert o.trajectories() == [(1, ())] and o.return_law == {0: 1}
    assert o.return_entropy == o.expected_return == o.information_sparsity == o.variance["total"] == 0
    for of in ("state", "reward", "return"):
        assert o.sequence(of) == [()] and o.sequence_entropy(of) == o.sequence_entropy(of, backward=True) == []
        assert o.directed(of, "action") == o.directed(of, "action", delayed=True) == o.causal_entropy(of, "action") == []
    assert o.mutual("action", "reward") == o.return_sequence_information() == 0 and o.directed_return() == []


def test_states_that_never_end_are_named():
    with pytest.raises(oracle.NeverEnds) as caught:
        oracle.expected_visits(models.coin(), {(0, 0): F(1)})
    assert caught.value.states == [0]


def test_within_judges_by_the_numbers_as_they_are():
    assert not oracle.within(0.1, 0, F(1, 10)) and oracle.within(0.1, 1e-17, F(1, 10))
    assert oracle.within(0.5, 0, F(1, 2)) and not oracle.within(float("nan"), 1, F(1, 2))
    assert oracle.within(float("inf"), 0, MP.inf) and not oracle.within(1e300, 1, MP.inf)


# ---- definitions against recursions


def law_by_recursion(o, model, policy, H, gamma):
    """(R1): {(h, s): law}, {(h, s, a): law}."""
    v, q = {(H, s): {F(0): F(1)} for s in range(model.n_states)}, {}
    for h in reversed(range(H)):
        v[h + 1, END] = {F(0): F(1)}
        for s, actions in model.actions.items():
            for a in actions:
                q[h, s, a] = tally(
                    (r + gamma * z, p * x)
                    for p, s_next, r in model.outcomes[s, a]
                    for z, x in v[h + 1, s_next].items()
                )
            mixed = tally((z, policy[h][s, a] * x) for a in actions for z, x in q[h, s, a].items())
            v[h, s] = {z: x for z, x in mixed.items() if x} if actions else {F(0): F(1)}
    return v, q


def mixture(weighted_laws):
    return tally((z, w * x) for w, law in weighted_laws for z, x in law.items())


SPECIAL = [
    (models.umbrella(3), models.uniform(models.umbrella(3), 3), 3, F(1)),
    (models.shortcut(), models.uniform(models.shortcut(), 4), 4, F(9, 10)),
    (models.delayed_effect(3), models.uniform(models.delayed_effect(3), 3), 3, F(1, 2)),
]


def on_problems(test, limit=20000):
    for problem in SPECIAL:
        test = example(problem)(test)
    return drawn(given(models.problems(limit))(test))


def check(problem):
    model, policy, H, gamma = problem
    o = Oracle(model, policy, H, gamma)
    v, q = law_by_recursion(o, model, policy, H, gamma)
    state, pair, alive = o.occupancy

    # trajectories, (O1), laws
    listed = o.trajectories()
    assert sum(p for p, _ in listed) == 1 and all(p > 0 and len(steps) == H for p, steps in listed)
    assert len({steps for _, steps in listed}) == len(listed)
    forward = dict(enumerate(model.initial))
    for h in range(H):
        ended = sum(p for p, steps in listed if steps[h] == (END, None, 0))
        assert alive[h] + ended == 1 and sum(pair[h].values()) == alive[h]
        assert state[h] == {s: forward[s] for s in range(model.n_states)}
        assert all(pair[h][s, a] == forward[s] * policy[h][s, a] for s, a in model.pairs)
        forward = defaultdict(
            Fraction,
            tally(
                (s_next, pair[h][sa] * p) for sa in model.pairs for p, s_next, _ in model.outcomes[sa] if s_next != END
            ),
        )
    assert all(o.state_law(h, s) == v[h, s] for h in range(H + 1) for s in range(model.n_states))
    assert all(o.pair_law(h, s, a) == q[h, s, a] for h in range(H) for s, a in model.pairs)
    z_law = mixture((p, v[0, s]) for s, p in enumerate(model.initial) if p) if H else {F(0): F(1)}
    assert o.return_law == z_law
    assert o.return_law == tally((sum(gamma**h * r for h, (_, _, r) in enumerate(steps)), p) for p, steps in listed)
    assert o.expected_return == sum(p * z for z, p in z_law.items())
    mean_reward = {sa: sum(p * r for p, _, r in model.outcomes[sa]) for sa in model.pairs}
    assert o.expected_return == sum(gamma**h * pair[h][sa] * mean_reward[sa] for h in range(H) for sa in model.pairs)
    # A law from (h, s) is the conditional law inside whole trajectories: the process is Markov.
    for h in range(H):
        inside = tally(
            ((steps[h][0], sum(gamma ** (k - h) * steps[k][2] for k in range(h, H))), p) for p, steps in listed
        )
        for (s, z), p in inside.items():
            assert s == END or p == state[h][s] * v[h, s][z]

    # (S1), (S2), (C1)
    credit = o.credit
    for h in range(H):
        taken = [sa for sa in model.pairs if pair[h][sa]]
        local_skill = sum((pair[h][sa] * divergence(q[h, *sa], v[h, sa[0]]) for sa in taken), MP.zero)
        assert same(local_skill, o.action_information[h]) and same(local_skill, credit["skill"][h])
        assert (local_skill == 0) == (credit["skill"][h] == 0) == (o.action_information[h] == 0)
        assert all(same(o.pair_information(h, *sa), divergence(q[h, *sa], v[h, sa[0]])) for sa in taken)
        assert o.action_information[h] <= o.policy_entropy[h] + MP.mpf(10) ** -75

        if h == 0:
            moves = {None: (F(1), {s: p for s, p in enumerate(model.initial) if p})}
        else:
            reward_next = tally(
                ((sa, r, s_next), pair[h - 1][sa] * p) for sa in model.pairs for p, s_next, r in model.outcomes[sa]
            )
            moves = {}
            for (sa, r, s_next), p in reward_next.items():
                if p:
                    moves.setdefault((sa, r), {})[s_next] = p
            moves = {k: (sum(m.values()), {s: p / sum(m.values()) for s, p in m.items()}) for k, m in moves.items()}
        local_luck = MP.zero
        for p, law in moves.values():
            mixed = mixture((w, v[h, s]) for s, w in law.items())
            local_luck += sum((p * w * divergence(v[h, s], mixed) for s, w in law.items()), MP.zero)
        assert same(local_luck, credit["luck"][h]) and (local_luck == 0) == (credit["luck"][h] == 0)

        local_noise = MP.zero
        for sa in taken:
            by_reward = defaultdict(list)
            for p, s_next, r in model.outcomes[sa]:
                by_reward[r].append((p, s_next))
            for r, moved in by_reward.items():
                p_r = sum(p for p, _ in moved)
                law = mixture(
                    (p / p_r, {r + gamma * z: x for z, x in v[h + 1, s_next].items()}) for p, s_next in moved
                )
                local_noise += pair[h][sa] * p_r * divergence(law, q[h, *sa])
        assert same(local_noise, credit["noise"][h]) and (local_noise == 0) == (credit["noise"][h] == 0)
        assert same(credit["total"][h], credit["skill"][h] + credit["luck"][h] + credit["noise"][h])
        assert all(credit[name][h] >= 0 for name in credit)
    # (C2)
    assert same(sum(credit["total"], MP.zero), o.return_entropy)
    assert same(entropy(int(p * o._total) for p in z_law.values()), o.return_entropy)

    # (C3)
    p2 = o.proposition_2
    for h in range(H):
        assert same(p2["right"][h], credit["skill"][h])
        assert same(p2["gap"][h], p2["left"][h] - p2["right"][h])
        assert same(p2["gap"][h], credit["luck"][h] + credit["noise"][h])
        assert (p2["gap"][h] == 0) == (credit["luck"][h] == credit["noise"][h] == 0)
        for s, actions in model.actions.items():
            table = o.hindsight(h, s) if actions else {}
            for z, row in table.items():
                assert all(x * v[h, s][z] == policy[h][s, a] * q[h, s, a].get(z, 0) for a, x in row.items())
            assert all(sum(v[h, s][z] * row[a] for z, row in table.items()) == policy[h][s, a] for a in actions)

    # (C4)
    p1 = o.proposition_1
    for h in range(H):
        before = [steps[h - 1] if h else None for _, steps in listed]
        after = [steps[h + 1][0] if h < H - 1 else None for _, steps in listed]
        left = tally(((steps[h][2], (x, y)), p) for (p, steps), x, y in zip(listed, before, after))
        right = tally(((steps[h][2], x), p) for (p, steps), x in zip(listed, before))
        assert same(p1["left"][h], conditional(left)) and same(p1["right"][h], conditional(right))
        assert same(p1["gap"][h], p1["right"][h] - p1["left"][h]) and p1["gap"][h] >= 0
    assert not H or p1["gap"][-1] == 0

    # (C6), from the values of the recursion
    var = o.variance
    assert var["total"] == sum(var["skill"]) + sum(var["luck"]) + sum(var["noise"])
    V = {key: sum(p * z for z, p in law.items()) for key, law in v.items()}
    for h in range(H):
        spread = {sa: sum(p * z for z, p in q[h, *sa].items()) - V[h, sa[0]] for sa in model.pairs}
        assert var["skill"][h] == gamma ** (2 * h) * sum(pair[h][sa] * spread[sa] ** 2 for sa in model.pairs)
        assert all(var[name][h] >= 0 for name in ("skill", "luck", "noise"))
        for name in ("luck", "noise"):
            assert credit[name][h] or not var[name][h]  # no information, no variance


def conditional(joint):
    """H(X | C) from Fractions."""
    unit = oracle.lcm(*(p.denominator for p in joint.values()))
    return oracle.conditional_entropy({key: int(p * unit) for key, p in joint.items()})


@on_problems
def test_definitions_agree_with_the_recursions(problem):
    check(problem)


@pytest.mark.parametrize("block", range(4))
def test_definitions_agree_with_the_recursions_in_bulk(block):
    for seed in range(40 * block, 40 * block + 40):
        check(models.problem(seed, limit=3000))


@drawn
@given(models.stationary_problems())
def test_without_horizon(problem):
    model, policy, gamma = problem
    H = 4
    try:
        visits, _ = oracle.expected_visits(model, policy)
    except oracle.NeverEnds as error:
        assert error.states and all(model.actions[s] for s in error.states)
        visits = None
    if models.horizon_within(model, H, 3000) < H:
        return
    state, _, alive = Oracle(model, [policy] * H, H).occupancy
    if visits:
        # The visits of H steps are a lower sum, exact once nobody is left.
        seen = {s: sum(d[s] for d in state) for s in visits}
        assert all(seen[s] <= visits[s] for s in visits)
        assert alive[-1] or seen == visits
    if gamma < 1:
        d, pairs = oracle.discounted_occupancy(model, policy, gamma)
        assert sum(pairs.values()) == sum(d.values()) <= 1
        for s in d:
            seen = (1 - gamma) * sum(gamma**h * state[h][s] for h in range(H))
            assert seen <= d[s] <= seen + gamma**H


# ---- directed information: by hand


def near(values, expected):
    """Equal up to rounding; an expected int 0 must be met exactly."""
    values, expected = list(values), list(expected)
    return len(values) == len(expected) and all(x == 0 if type(y) is int and y == 0 else same(x, y) for x, y in zip(values, expected))


def h2(p):
    """Entropy of one that happens with probability p, in bits."""
    return bits(entropy([p.numerator, p.denominator - p.numerator]))


def in_bits(values):
    return [bits(x) for x in values]


def test_sequences_run_along_the_trajectories():
    o = solve(models.shortcut(), 3, F(1, 2))
    listed = [steps for _, steps in o.trajectories()]
    assert o.sequence("trajectory") == listed and any(steps[2] == (END, None, 0) for steps in listed)
    jumped = listed.index(((0, 0, 1), (END, None, 0), (END, None, 0)))
    walked = listed.index(((0, 1, -1), (1, 1, -1), (2, 1, -1)))
    expected = {
        "state": [(0, END, END), (0, 1, 2)],
        "action": [(0, None, None), (1, 1, 1)],
        "reward": [(1, 0, 0), (-1, -1, -1)],
        "pair": [((0, 0), (END, None), (END, None)), ((0, 1), (1, 1), (2, 1))],
        "action+reward": [((0, 1), (None, 0), (None, 0)), ((1, -1), (1, -1), (1, -1))],
        "return": [(1, 0, 0), (F(-7, 4), F(-3, 2), -1)],
    }
    for of, rows in expected.items():
        assert [o.sequence(of)[jumped], o.sequence(of)[walked]] == rows and len(o.sequence(of)) == len(listed)


@pytest.mark.parametrize("m", [2, 4])
def test_delayed_effect_as_directed_information(m):
    o = solve(models.delayed_effect(m), m)
    one, none = MP.one, [0] * (m - 1)
    for source in ("action", "state", "pair"):
        assert near(in_bits(o.directed(source, "reward")), none + [one])
        seen_before = m > 2 or source != "state"  # for m = 2 the state that shows the first action is that of the last step
        assert near(in_bits(o.directed(source, "reward", delayed=True)), none[1:] + [one if seen_before else 0])
    assert near(in_bits(o.directed("action", "state", delayed=True)), [one] + none[1:])
    assert near(in_bits(o.directed("action", "state")), [0, one] + none[1:])
    assert o.directed("state", "action") == [0] * m and o.directed("reward", "action", delayed=True) == none
    # The reward comes too late to say anything of an action but the first, which is known by then.
    assert near(in_bits(o.causal_entropy("reward", "action")), [one] * m)
    assert o.causal_entropy("action", "reward") == o.causal_entropy("action", "reward", delayed=True) == [0] * m
    # Backwards the reward tells of the second state at once: it holds all that is to be known.
    assert near(in_bits(o.sequence_entropy("state", backward=True)), none + [one])
    assert near(in_bits(o.sequence_entropy("state")), [0, one] + none[1:])
    assert near(in_bits(o.sequence_entropy("reward")), none + [one])
    assert near(in_bits([o.mutual("action", "reward"), o.mutual("state", "action")]), [one, one])


def test_an_action_shows_in_a_reward_only_where_the_noise_lets_it():
    """Action 0 pays 0 or 1 by a fair coin, action 1 pays 1: H(R) = h(1/4), H(R | A) = 1/2 bit."""
    branches = ((0, 0, F(1, 2), 0, F(0), False), (0, 0, F(1, 2), 0, F(1), False), (0, 1, F(1), 0, F(1), False))
    o = solve(oracle.Model(1, branches, (F(1),)), 3)
    quarter = h2(F(1, 4))
    assert near(in_bits(o.directed("action", "reward")), [quarter - MP.one / 2] * 3)
    assert near(in_bits(o.causal_entropy("action", "reward")), [MP.one / 2] * 3)
    assert near(in_bits(o.causal_entropy("action", "reward", delayed=True)), [quarter] * 3)
    assert near(in_bits(o.sequence_entropy("action+reward")), [MP.mpf(3) / 2] * 3)
    assert near(in_bits([o.mutual("reward", "action")]), [3 * (quarter - MP.one / 2)])
    assert o.directed("action", "reward", delayed=True) == o.directed("reward", "action", delayed=True) == [0, 0]


@pytest.mark.parametrize("discount", [F(1), F(1, 2)])
def test_coin_as_directed_information(discount):
    H = 4
    o = solve(models.coin(), H, discount)
    for values in (o.sequence_entropy("reward"), o.sequence_entropy("reward", backward=True), o.directed_return()):
        assert near(in_bits(values), [MP.one] * H)
    assert near(in_bits([o.return_sequence_information()]), [MP.mpf(H)])
    assert o.sequence_entropy("state") == o.sequence_entropy("action") == [0] * H
    assert o.directed("action", "reward") == o.directed("state", "reward") == [0] * H and o.mutual("pair", "reward") == 0


@pytest.mark.parametrize("discount, by_step", [(F(1), (F(1, 2), F(1, 2))), (F(1, 2), (F(1), F(0)))])
def test_directed_information_to_the_returns_runs_backwards(discount, by_step):
    """Massey's forward sum from trajectory to returns misses what a return says of steps to come: of two coins, a whole one.
    So the arrow in (D1) points from the last step to the first: I(tau_h ..; G_h | G_{h+1}, ..) = H(G_h | G_{h+1}, ..)."""
    o = solve(models.coin(), 2, discount)
    assert near(in_bits(o.directed("trajectory", "return")), [MP.mpf(x.numerator) / x.denominator if x else 0 for x in by_step])
    assert near(in_bits(o.directed_return()), [MP.one] * 2)


def test_the_end_shows_as_a_state_and_as_an_action_but_not_as_a_reward():
    """One state, one action, reward 0, ends with probability 1/2 a step."""
    o = solve(oracle.Model(1, ((0, 0, F(1, 2), 0, F(0), False), (0, 0, F(1, 2), 0, F(0), True)), (F(1),)), 4)
    fading = [0, MP.one, MP.one / 2, MP.one / 4]
    for of in ("state", "action", "pair", "trajectory"):
        assert near(in_bits(o.sequence_entropy(of)), fading)
        assert near(in_bits(o.directed(of, "state")), fading)
        assert o.causal_entropy(of, "action") == [0] * 4 and o.directed(of, "state", delayed=True) == [0] * 3
    assert near(in_bits([o.mutual("action", "state")]), [MP.mpf(7) / 4])
    # Of those that are at their end at h = 2 a third, at h = 3 a seventh, were alive a step before.
    assert near(in_bits(o.sequence_entropy("state", backward=True)), [0, h2(F(1, 3)) * 3 / 4, h2(F(1, 7)) * 7 / 8, h2(F(1, 8))])
    assert o.sequence_entropy("reward") == [0] * 4 and o.mutual("trajectory", "reward") == 0


def noisy_chain(flip, error):
    """Two states that change places with probability `flip`, from a fair start; the reward names the state, wrongly with `error`."""
    branches = [
        (s, 0, p * q, s_next, F(r), False)
        for s in (0, 1)
        for p, s_next in ((1 - flip, s), (flip, 1 - s))
        for q, r in ((1 - error, s), (error, 1 - s))
    ]
    return oracle.Model(2, tuple(branches), (F(1, 2), F(1, 2)))


def test_noisy_chain():
    flip, error = F(1, 5), F(1, 10)
    o = solve(noisy_chain(flip, error), 3)

    def either(p, q):
        """One of two independent changes, not both."""
        return p * (1 - q) + q * (1 - p)

    reading = h2(either(flip, error))  # H(R_1 | S_0) and, the chain being reversible, H(R_0 | S_1)
    beside = h2(either(flip, either(error, error)))  # H(R_1 | R_0)
    assert near(in_bits(o.sequence_entropy("state")), [MP.one, h2(flip), h2(flip)])
    assert near(in_bits(o.sequence_entropy("state", backward=True)), [h2(flip), h2(flip), MP.one])
    assert near(in_bits(o.causal_entropy("state", "reward")), [h2(error)] * 3)
    assert near(in_bits(o.causal_entropy("state", "reward", delayed=True)), [MP.one, reading, reading])
    assert o.directed("reward", "state", delayed=True) == [0, 0]  # the state before tells more of the next than a reading of it
    reward = in_bits(o.sequence_entropy("reward"))
    assert near(reward[:2], [MP.one, beside]) and reading < reward[2] < beside
    assert near(reward[::-1], in_bits(o.sequence_entropy("reward", backward=True)))

    full = reward[2]
    for backward, h in ((True, 0), (False, 2)):
        upper, lower = (in_bits(o.window(h, k, side=side, backward=backward) for k in range(5)) for side in ("upper", "lower"))
        assert near(upper, [MP.one, beside, full, full, full])
        # No state is seen after the last step, but S_0 is seen until k passes h.
        assert near(lower[:2], [reading, lower[1]] if backward else [h2(error), reading])
        meet = 2 if backward else 3
        assert near(lower[meet:], [full] * (5 - meet)) and lower[:meet] == sorted(set(lower[:meet])) and lower[meet - 1] < full
    inner = [o.window(1, 0, "reward", "lower"), o.window(1, 0, "reward", "lower", backward=False), o.window(1, 1, "reward", "lower", backward=False)]
    assert near(in_bits(inner), [reading, h2(error), reading])
    states = [o.window(2, 1, "state", "upper", backward=False), o.window(2, 1, "state", "lower", backward=False), o.window(1, 0, "state")]
    assert near(in_bits(states), [h2(flip), h2(flip), MP.one])
    assert o.window(2, 0, "state", "lower", backward=False) == 0


# ---- directed information: on drawn models

PARTS = ("action", "state", "pair", "reward", "trajectory", "action+reward")
MASSEY = [(x, y) for x in PARTS[:4] for y in PARTS[:4]]


def joint_entropy(o, *views):
    """H of what the views show, each a slice (of, first, stop) or (of, first) of the sequence `of`, cut as it stands."""
    cut = [(o.sequence(of), slice(*bounds) if len(bounds) == 2 else slice(bounds[0], None)) for of, *bounds in views]
    shown = (tuple(rows[i][window] for rows, window in cut) for i in range(len(o._paths)))
    return entropy(tally(zip(shown, o._paths.values())).values())


def check_directed(problem):
    """Every entry from entropies of slices of the sequences, and what the entries are to one another."""
    o, H = Oracle(*problem), problem[2]
    S = cache(partial(joint_entropy, o))

    for of in (*PARTS, "return"):
        for h in range(H):
            assert same(o.sequence_entropy(of)[h], S((of, 0, h + 1)) - S((of, 0, h)))
            assert same(o.sequence_entropy(of, backward=True)[h], S((of, h)) - S((of, h + 1)))
        for values in (o.sequence_entropy(of), o.sequence_entropy(of, backward=True)):
            assert len(values) == H and all(x >= 0 for x in values) and same(sum(values, MP.zero), S((of, 0)))

    # (D1)
    whole = o.return_sequence_information()
    for values in (o.directed_return(), *(o.sequence_entropy("reward", backward) for backward in (False, True))):
        assert len(values) == H and same(sum(values, MP.zero), whole)
    assert all(map(same, o.directed_return(), o.sequence_entropy("reward", backward=True)))
    for h in range(H):  # the arrow of (D1), from the last step to the first
        late, known = ("trajectory", h), ("return", h + 1)
        assert same(S(late, known) + S(("return", h)) - S(late, ("return", h)) - S(known), o.directed_return()[h])

    # (D2)
    for x, y in [*MASSEY, ("trajectory", "reward"), ("state", "action+reward")]:
        for delayed in (False, True):
            directed, causal = o.directed(x, y, delayed), o.causal_entropy(x, y, delayed)
            assert len(causal) == H and len(directed) == (max(H - 1, 0) if delayed else H)
            for h in range(H):
                cause, past, now = (x, 0, h if delayed else h + 1), (y, 0, h), (y, 0, h + 1)
                assert same(causal[h], S(cause, now) - S(cause, past))
            for value, h in zip(directed, range(delayed, H)):
                assert value >= 0 and same(value, o.sequence_entropy(y)[h] - causal[h])
                assert (value == 0) == (abs(value) < MP.mpf(10) ** -70)  # a true zero is exactly 0
        assert same(o.mutual(x, y), S((x, 0)) + S((y, 0)) - S((x, 0), (y, 0))) and same(o.mutual(x, y), o.mutual(y, x))
        # conservation
        assert same(sum(o.directed(x, y), MP.zero) + sum(o.directed(y, x, delayed=True), MP.zero), o.mutual(x, y))

    # (D3)
    listed = o.trajectories()
    for h, value in enumerate(o.directed("action", "state", delayed=True)):
        step = tally(((steps[h][1], steps[h + 1][0], steps[h][0]), w) for (_, steps), w in zip(listed, o._paths.values()))
        local = oracle.conditional_information(step)
        assert same(value, local) and (value == 0) == (local == 0)

    # (D5)
    for of in ("reward", "action+reward", "state"):
        for backward in (True, False):
            full = o.sequence_entropy(of, backward)
            for h in range(H):
                upper, lower = ([o.window(h, k, of, side, backward) for k in range(H + 2)] for side in ("upper", "lower"))
                for k in range(H + 2):
                    first, stop = (h + 1, h + k + 1) if backward else (max(h - k, 0), h)
                    seen, border = (of, first, stop), h + k + 1 if backward else h - k
                    assert same(upper[k], S((of, h, h + 1), seen) - S(seen))
                    edge = ("state", border, border + 1) if border >= 0 else ("state", 0, 0)
                    assert same(lower[k], S((of, h, h + 1), seen, edge) - S(seen, edge))
                    assert near_order(lower[k], full[h], upper[k])
                    # Backwards the window holds all that follows at k = H - 1 - h; forwards S_0 is seen until k = h + 1.
                    if k >= (H - 1 - h if backward else h + 1):
                        assert same(lower[k], full[h]) and same(upper[k], full[h])
                assert near_order(*lower) and near_order(*upper[::-1])


def near_order(*values):
    """Nowhere smaller than before but for rounding."""
    return all(x <= y or same(x, y) for x, y in pairwise(values))


@partial(on_problems, limit=200)
def test_directed_information_from_slices(problem):
    check_directed(problem)


@pytest.mark.parametrize("block", range(2))
def test_directed_information_from_slices_in_bulk(block):
    for seed in range(25 * block, 25 * block + 25):
        check_directed(models.problem(seed, limit=200))


def test_drawn_models_tell_the_variants_apart():
    """A tie everywhere would judge nothing: late and early, forward and backward, both sides of a window, must differ now and then."""
    seen = defaultdict(int)
    for seed in range(60):
        model, policy, H, gamma = models.problem(seed, limit=100)
        o = Oracle(model, policy, H, gamma)
        differ = {
            "backward": (o.sequence_entropy("reward"), o.sequence_entropy("reward", backward=True)),
            "delayed": (o.directed("action", "reward")[1:], o.directed("action", "reward", delayed=True)),
            "causal": (o.causal_entropy("action", "reward"), o.causal_entropy("action", "reward", delayed=True)),
            "feedback": (o.directed("reward", "action", delayed=True), [0] * (H - 1)),
            "state or pair": (o.directed("state", "reward"), o.directed("pair", "reward")),
        }
        for backward in (True, False):
            sides = [[o.window(h, 1, side=side, backward=backward) for h in range(H)] for side in ("upper", "lower")]
            full = o.sequence_entropy("reward", backward)
            differ |= {("upper", backward): (sides[0], full), ("lower", backward): (sides[1], full)}
        for name, (x, y) in differ.items():
            seen[name] += not all(map(same, x, y))
    assert len(seen) == 9 and min(seen.values()) >= 5, dict(seen)


# ---- drawn models are what they claim to be


@drawn
@given(models.problems())
def test_drawn_problems_are_sound(problem):
    model, policy, H, gamma = problem
    assert 0 <= H <= 5 and len(policy) == H and gamma in models.DISCOUNTS
    args, kwargs = models.columns(model)
    assert {len(column) for column in args} == {len(model.branches)} and len(kwargs["initial"]) == model.n_states
    sinks = [s for s, actions in model.actions.items() if not actions]
    for s in sinks:
        into = [b for b in model.branches if b[3] == s]
        assert all(b[5] for b in into) and any(b[2] > 0 for b in into) and model.initial[s] == 0
    table = models.policy_table(model, policy, H)
    assert table.shape == (H, model.n_states, models.n_actions(model)) and not table[:, sinks].any()
    read, read_policy = models.rounded(model), models.rounded_policy(model, policy)
    Oracle(read, read_policy, min(H, 1), gamma)  # checks that every row sums to exactly 1
    assert all(abs(x[2] - y[2]) < 1e-15 for x, y in zip(model.branches, read.branches))


def test_the_bulk_holds_every_kind():
    seen = defaultdict(int)
    for seed in range(400):
        model, policy, H, gamma = models.problem(seed, limit=3000)
        keys = [(b[0], b[1], b[3], b[4], b[5]) for b in model.branches]
        seen["zero branch"] += any(b[2] == 0 for b in model.branches)
        seen["split"] += len(set(keys)) < len(keys)
        seen["two rewards"] += len({k[:3] + k[4:] for k in keys}) < len(set(keys))
        seen["ends"] += any(b[5] for b in model.branches)
        seen["sink"] += any(not actions for actions in model.actions.values())
        seen["unavailable"] += len(model.pairs) < models.n_actions(model) * model.n_states
        seen["time-dependent"] += any(table != policy[0] for table in policy)
        seen["never taken"] += any(p == 0 for table in policy for p in table.values())
        seen["H", H] += 1
        seen["discount", gamma] += 1
        o = Oracle(model, policy, H, gamma)
        seen["never occupied"] += any(p == 0 for d in o.occupancy[0] for p in d.values())
        seen["tiny information"] += any(0 < x < 1e-16 for x in o.action_information)
        seen["infinite divergence"] += any(o.pair_information(h, *sa) == MP.inf for h in range(H) for sa in model.pairs)
        seen["hundreds of trajectories"] += len(o.trajectories()) >= 100
    assert len(seen) == 12 + 6 + 3 and min(seen.values()) >= 8, dict(seen)
