"""The oracle against the closed forms of spec section 4, and against the spec's recursions on drawn models."""

from collections import defaultdict
from fractions import Fraction
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


def on_problems(test):
    for problem in SPECIAL:
        test = example(problem)(test)
    return drawn(given(models.problems())(test))


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
