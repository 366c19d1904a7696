"""Section 3 of the spec: what every model obeys. Two answers that should agree are compared within the sum of their stated errors."""

import random
from fractions import Fraction

import models
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import Model

import icexact as ic

PARTS = ("skill", "luck", "noise")
SIDES = ("left", "right", "gap")
modest = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
small = models.problems(limit=3000)


def load(model, policy, H):
    args, kwargs = models.columns(model)
    return ic.MDP.from_branches(*args, **kwargs), models.policy_table(model, policy, H)


def agree(a, b, scale=1, note=""):
    """a and scale * b are the same numbers as far as their errors tell."""
    room = a.error + abs(scale) * b.error + 4 * 2.0**-53 * (np.abs(a.value) + np.abs(scale * b.value))
    assert a.shape == b.shape and (np.abs(a.value - scale * b.value) <= room).all(), (note, a.value, scale * b.value, room)


def agree_on_credit(one, two, scale=1, proposition_1_left=True):
    """Everything in units of information; rewards of `one` are scale times those of `two`."""
    for part in (*PARTS, "total", "return_entropy", "policy_entropy"):
        agree(getattr(one, part), getattr(two, part), note=part)
    for name in ("proposition_1", "proposition_2"):
        for side in SIDES:
            if proposition_1_left or (name, side) not in (("proposition_1", "left"), ("proposition_1", "gap")):
                agree(getattr(getattr(one, name), side), getattr(getattr(two, name), side), note=(name, side))
    for part in PARTS:
        agree(getattr(one.variance, part), getattr(two.variance, part), scale**2, ("variance", part))
    agree(one.variance.total, two.variance.total, scale**2, "variance")


def agree_on_law(one, two):
    assert one.values.tolist() == two.values.tolist()
    agree(one.probabilities, two.probabilities, note="law")


def chain(mdp, table):
    """(weights over branches of the table [K], P_pi dense, rewards by state, ending mass by state), plain numpy."""
    weight = table[np.repeat(np.arange(mdp.n_pairs), np.diff(mdp.branch_ptr))] * mdp.probability
    state = mdp.pair_state[np.repeat(np.arange(mdp.n_pairs), np.diff(mdp.branch_ptr))]
    moves = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(moves, (state[~mdp.ends], mdp.next_state[~mdp.ends]), weight[~mdp.ends])
    reward = np.bincount(state, weight * mdp.reward, mdp.n_states)
    size = np.bincount(state, weight * np.abs(mdp.reward), mdp.n_states)
    ending = np.bincount(state, weight * mdp.ends, mdp.n_states)
    return moves, reward, size, ending


def over_pairs(mdp, table):
    """(H, S, A) as [H, K]."""
    return table[:, mdp.pair_state, mdp.pair_action]


def check_laws_of_all_models(mdp, table, H, gamma):
    """The identities that need no second model. table: [H, K]."""
    gamma_ = float(gamma)
    occ = ic.occupancy(mdp, table, horizon=H)
    c = ic.credit(mdp, table, horizon=H, discount=gamma)
    law = ic.return_law(mdp, table, horizon=H, discount=gamma)
    sparsity = ic.information_sparsity(mdp, table, horizon=H, discount=gamma)
    values, p = law.law()

    # alive and ended mass; E[Z] by value iteration, by the occupancy and by the law
    ended, by_occupancy, size = 0.0, 0.0, 0.0
    for h in range(H):
        moves, reward, magnitude, ending = chain(mdp, table[h])
        d = occ.state.value[h]
        slack = occ.state.error[: h + 1].sum() + occ.alive.error[h] + 1e-15 * (h + 1) * mdp.n_states
        assert abs(occ.alive.value[h] + ended - 1) <= slack
        assert abs(d.sum() - occ.alive.value[h]) <= slack
        ended += d @ ending
        by_occupancy += gamma_**h * (d @ reward)
        size += gamma_**h * (d @ magnitude)
        assert np.allclose(d * 1.0, np.bincount(mdp.pair_state, occ.pair.value[h], mdp.n_states), rtol=1e-13, atol=1e-300)
    v = np.zeros(mdp.n_states)
    for h in range(H - 1, -1, -1):
        moves, reward, *_ = chain(mdp, table[h])
        v = reward + gamma_ * (moves @ v)
    room = float(c.mean.error + law.mean().error) + 1e-14 * (H + mdp.n_states) * (size + 1e-300)
    for found in (by_occupancy, mdp.initial @ v, float(law.mean()), float(np.dot(values, p.value))):
        assert abs(found - float(c.mean)) <= room

    assert abs(p.value.sum() - 1) <= p.error.sum() + 1e-15 * len(values)
    assert (np.diff(values) > 0).all() and (p.value > 0).all()
    # (C2)
    parts = sum(getattr(c, part).value.sum() for part in PARTS)
    allowed = sum(getattr(c, part).error.sum() for part in PARTS) + c.return_entropy.error + 1e-15 * H * parts
    assert abs(parts - float(c.return_entropy)) <= allowed
    # (C1) and (S2) are one and the same skill
    agree(c.skill, sparsity.per_step)
    assert (c.skill.value >= 0).all() and (c.luck.value >= 0).all() and (c.noise.value >= 0).all()
    # I <= H(A|S)
    assert (sparsity.per_step.lower <= sparsity.policy_entropy.upper).all()
    # (C4), (C3)
    for proposition, more, less in ((c.proposition_1, "right", "left"), (c.proposition_2, "left", "right")):
        more, less = getattr(proposition, more), getattr(proposition, less)
        assert (less.lower <= more.upper).all() and (proposition.gap.value >= 0).all()
        difference = np.abs(more.value - less.value - proposition.gap.value)
        assert (difference <= more.error + less.error + proposition.gap.error + 1e-15 * more.value).all()
    if H:
        agree(c.proposition_1.left[H - 1], c.proposition_1.right[H - 1])
        assert c.proposition_1.gap.value[H - 1] == 0.0
    # (C6)
    variance = sum(getattr(c.variance, part).value.sum() for part in PARTS)
    assert abs(variance - float(c.variance.total)) <= float(c.variance.total.error) + 1e-15 * H * variance
    assert abs(np.dot((values - float(c.mean)) ** 2, p.value) - variance) <= 1e-12 * (1e-300 + np.abs(values).max() ** 2)
    # where credit arises
    assert np.isclose(c.by_state.skill.value.sum(), c.skill.value.sum(), rtol=1e-9, atol=c.by_state.skill.error.sum() + c.skill.error.sum())
    assert np.isclose(c.by_state.noise.value.sum(), c.noise.value.sum(), rtol=1e-9, atol=c.by_state.noise.error.sum() + c.noise.error.sum())
    assert np.isclose(c.by_state.luck.value.sum(), c.luck.value[1:].sum(), rtol=1e-9, atol=c.by_state.luck.error.sum() + c.luck.error.sum())


@modest
@given(small)
def test_identities_of_drawn_models(problem):
    model, policy, H, gamma = problem
    mdp, table = load(model, policy, H)
    check_laws_of_all_models(mdp, over_pairs(mdp, table), H, gamma)


LARGER = [
    ("gridworld", lambda: ic.examples.gridworld(8), 60, 1),
    ("gridworld that pays", lambda: ic.examples.gridworld(5, cell_rewards=np.arange(25).reshape(5, 5) % 7 - 3, absorbing=False, start="uniform"), 20, 1),
    ("garnet", lambda: ic.examples.garnet(60, 3, 4, rewards=(-1, 0, 2), seed=1), 20, 1),
    ("noisy garnet", lambda: ic.examples.garnet(40, 2, 7, rewards=("1/10", 0, 1), seed=2, reward_on="branch"), 15, 1),
    ("discounted garnet", lambda: ic.examples.garnet(20, 2, 3, rewards=(0, 1), seed=3), 9, Fraction(1, 2)),
    ("discounted noisy garnet", lambda: ic.examples.garnet(6, 2, 3, rewards=(0, 1), seed=4, reward_on="branch"), 8, "0.9"),
    ("FrozenLake-v1", lambda: ic.from_gymnasium("FrozenLake-v1"), 60, 1),
]


@pytest.mark.parametrize("name, build, H, gamma", LARGER, ids=[x[0] for x in LARGER])
@pytest.mark.parametrize("time_dependent", [False, True])
def test_identities_of_larger_models(name, build, H, gamma, time_dependent):
    if "Lake" in name:
        pytest.importorskip("gymnasium")
    mdp = build()
    rng = np.random.default_rng(0)
    table = rng.random((H, mdp.n_pairs)) + 0.01 if time_dependent else np.ones((H, mdp.n_pairs))
    table[:, ::7] *= rng.random(len(table[0, ::7])) if time_dependent else 1.0
    for row in table:
        row /= np.bincount(mdp.pair_state, row, mdp.n_states)[mdp.pair_state]
    check_laws_of_all_models(mdp, table, H, Fraction(gamma))


@modest
@given(small)
def test_hindsight_averages_back_and_gives_the_skill(problem):
    """sum_z v(z|s) h(a|s,z) = pi(a|s), and E[log h / pi] = skill (C3)."""
    model, policy, H, gamma = problem
    mdp, table = load(model, policy, H)
    hindsight = ic.hindsight(mdp, table, horizon=H, discount=gamma)
    occ = ic.occupancy(mdp, table, horizon=H)
    c = ic.credit(mdp, table, horizon=H, discount=gamma)
    for h in range(H):
        skill, absolute = 0.0, 0.0
        for s in range(mdp.n_states):
            if mdp.pair_ptr[s] == mdp.pair_ptr[s + 1]:
                continue
            values, rows = hindsight.law(h, s)
            law = hindsight.laws.state_law(h, s)
            actions = hindsight.actions(s)
            pi = table[h, s, actions]
            assert values.tolist() == law.values.tolist()
            room = (law.probabilities.error[:, None] * rows.value + law.probabilities.value[:, None] * rows.error).sum(axis=0) + 1e-15 * (len(values) + 2)
            assert (np.abs(law.probabilities.value @ rows.value - pi) <= room).all()
            assert (np.abs(rows.value.sum(axis=1) - 1) <= rows.error.sum(axis=1) + 1e-15 * len(actions)).all()
            joint = occ.state.value[h, s] * law.probabilities.value[:, None] * rows.value
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.where(joint > 0, np.log(rows.value / pi), 0.0)
            skill += (joint * logs).sum()
            absolute += (joint * np.abs(logs)).sum()
        assert abs(skill - c.skill.value[h]) <= c.skill.error[h] + 1e-13 * (1 + absolute)


# ---- changes that change nothing


@modest
@given(small, st.randoms(use_true_random=False))
def test_relabelling(problem, rng):
    model, policy, H, gamma = problem
    S, A = model.n_states, models.n_actions(model)
    state, action = rng.sample(range(S), S), rng.sample(range(A), A)
    branches = [(state[s], action[a], p, state[t], r, end) for s, a, p, t, r, end in model.branches]
    rng.shuffle(branches)
    initial = [None] * S
    for s in range(S):
        initial[state[s]] = model.initial[s]
    other = Model(S, tuple(branches), tuple(initial))
    turned = [{(state[s], action[a]): p for (s, a), p in table.items()} for table in policy]
    one, two = load(model, policy, H), load(other, turned, H)
    for engine in (None, "keys"):
        a, b = (ic.credit(*x, horizon=H, discount=gamma, engine=engine) for x in (one, two))
        agree_on_credit(a, b)
        agree_on_law(a.return_law, b.return_law)
        for part in PARTS:
            agree(getattr(a.by_state, part), getattr(b.by_state, part)[np.array(state)])
    a, b = (ic.occupancy(*x, horizon=H).state for x in (one, two))
    agree(a, b[:, np.array(state)])


@modest
@given(small, st.randoms(use_true_random=False))
def test_splitting_a_branch(problem, rng):
    model, policy, H, gamma = problem
    branches = list(model.branches)
    i = rng.randrange(len(branches))
    s, a, p, *rest = branches[i]
    share = rng.choice((Fraction(1, 2), Fraction(1, 3), Fraction(1, 1000)))
    branches[i] = (s, a, p * share, *rest)
    branches.append((s, a, p * (1 - share), *rest))
    one, two = load(model, policy, H), load(Model(model.n_states, tuple(branches), model.initial), policy, H)
    agree_on_credit(*(ic.credit(*x, horizon=H, discount=gamma) for x in (one, two)))
    a, b = (ic.occupancy(*x, horizon=H).state for x in (one, two))
    agree(a, b)


def split_state(model, policy, s, share):
    """The model with a twin of state s; a branch into s goes to the twin with probability share(branch)."""
    twin, branches = model.n_states, []
    for branch in model.branches:
        x, a, p, t, r, end = branch
        parts = [(p, t)] if t != s or end else [(p * (1 - share(branch)), s), (p * share(branch), twin)]
        for q, to in parts:
            branches.append((x, a, q, to, r, end))
            if x == s:
                branches.append((twin, a, q, to, r, end))
    part = share(None)
    initial = [*model.initial, model.initial[s] * part]
    initial[s] *= 1 - part
    twins = [{**table, **{(twin, a): p for (x, a), p in table.items() if x == s}} for table in policy]
    return Model(twin + 1, tuple(branches), tuple(initial)), twins


@modest
@given(small, st.integers(0, 3), st.booleans())
def test_splitting_a_state_in_two_bisimilar_ones(problem, s, correlated):
    """Into which twin a branch goes may depend on its reward: then the twins tell of the reward before them, and of all quantities
    the left side and the gap of Proposition 1 do change. Where it does not, nothing does."""
    model, policy, H, gamma = problem
    s = s % model.n_states
    assume(model.actions[s])
    share = (lambda b: Fraction(1 + (b is not None and b[4] > 0), 4)) if correlated else (lambda b: Fraction(1, 3))
    one, two = load(model, policy, H), load(*split_state(model, policy, s, share), H)
    a, b = (ic.credit(*x, horizon=H, discount=gamma) for x in (one, two))
    agree_on_credit(a, b, proposition_1_left=not correlated)
    agree_on_law(a.return_law, b.return_law)
    if correlated:
        assert (b.proposition_1.left.lower <= a.proposition_1.left.upper).all()
    a, b = (ic.occupancy(*x, horizon=H).state for x in (one, two))
    merged = ic.Bounded(b.value[:, :-1], b.error[:, :-1])
    both = ic.Bounded(b.value[:, s] + b.value[:, -1], b.error[:, s] + b.error[:, -1])
    for t in range(model.n_states):
        agree(a[:, t], both if t == s else merged[:, t])


@modest
@given(small, st.sampled_from([Fraction(-1), Fraction(3), Fraction(-7), Fraction(1, 10), Fraction(1, 3)]))
def test_scaling_the_rewards(problem, c):
    model, policy, H, gamma = problem
    other = Model(model.n_states, tuple((s, a, p, t, c * r, end) for s, a, p, t, r, end in model.branches), model.initial)
    for engine in (None, "keys"):
        a, b = (ic.credit(*load(x, policy, H), horizon=H, discount=gamma, engine=engine) for x in (other, model))
        agree_on_credit(a, b, float(c))
        agree(a.mean, b.mean, float(c))


def unending(model, policy):
    """Branches no longer end, and a state without actions gets one that stays: every episode is H steps long."""
    branches = [(s, a, p, t, r, False) for s, a, p, t, r, _ in model.branches]
    idle = [s for s, actions in model.actions.items() if not actions]
    branches += [(s, 0, Fraction(1), s, Fraction(0), False) for s in idle]
    return Model(model.n_states, tuple(branches), model.initial), [{**table, **{(s, 0): Fraction(1) for s in idle}} for table in policy]


@modest
@given(small, st.sampled_from([Fraction(1), Fraction(-5), Fraction(1, 10), Fraction(1000000)]))
def test_shifting_the_rewards_where_no_episode_ends(problem, c):
    model, policy, H, gamma = problem
    model, policy = unending(model, policy)
    other = Model(model.n_states, tuple((s, a, p, t, r + c, end) for s, a, p, t, r, end in model.branches), model.initial)
    for engine in (None, "keys"):
        a, b = (ic.credit(*load(x, policy, H), horizon=H, discount=gamma, engine=engine) for x in (other, model))
        for part in (*PARTS, "return_entropy"):
            agree(getattr(a, part), getattr(b, part), note=part)
        for side in SIDES:
            agree(getattr(a.proposition_1, side), getattr(b.proposition_1, side))
        agree(a.return_law.probabilities, b.return_law.probabilities)


# ---- what is exactly 0


@modest
@given(small)
def test_a_duplicated_action_carries_nothing(problem):
    """Every action of a state has the branches of its first one."""
    model, policy, H, gamma = problem
    first = {s: [b[2:] for b in model.branches if b[:2] == (s, actions[0])] for s, actions in model.actions.items() if actions}
    branches = [(s, a, *rest) for s, a in model.pairs for rest in first[s]]
    # a state without actions has to be entered still
    assume({s for s in range(model.n_states) if s not in first} <= {b[3] for b in branches if b[2] > 0})
    mdp, table = load(Model(model.n_states, tuple(branches), model.initial), policy, H)
    for engine in (None, "keys"):
        c = ic.credit(mdp, table, horizon=H, discount=gamma, engine=engine)
        assert (c.skill.value == 0.0).all() and (c.by_state.skill.value == 0.0).all()
        found = ic.information_sparsity(mdp, table, horizon=H, discount=gamma, engine=engine)
        assert float(found.value) == 0.0


@modest
@given(small)
def test_luck_is_nothing_where_all_successors_share_one_law(problem):
    """Every state has the branches and the policy of the first one that acts, so it does not matter where one is."""
    model, policy, H, gamma = problem
    model, policy = unending(model, policy)
    copied = [(s, *b[1:]) for s in range(model.n_states) for b in model.branches if b[0] == 0]
    tables = [{(s, a): p for s in range(model.n_states) for (x, a), p in table.items() if x == 0} for table in policy]
    mdp, table = load(Model(model.n_states, tuple(copied), model.initial), tables, H)
    for engine in (None, "keys"):
        c = ic.credit(mdp, table, horizon=H, discount=gamma, engine=engine)
        assert (c.luck.value == 0.0).all() and (c.by_state.luck.value == 0.0).all()
        assert (c.variance.luck.value <= c.variance.luck.error).all()


@pytest.mark.parametrize("gamma", [1, "0.9"])
def test_no_step(gamma):
    mdp = ic.examples.garnet(5, 2, 2)
    policy = ic.policies.uniform(mdp)
    kw = {"horizon": 0, "discount": gamma}
    c = ic.credit(mdp, policy, **kw)
    assert float(c.return_entropy) == float(c.mean) == float(c.variance.total) == 0.0
    for x in (c.skill, c.luck, c.noise, c.total, c.policy_entropy, c.proposition_1.left, c.proposition_2.gap, c.variance.luck):
        assert x.shape == (0,)
    assert c.by_state.skill.shape == (5,)
    law = ic.return_law(mdp, policy, **kw)
    for one in (law.law(), c.return_law, law.state_law(0, 3)):
        assert one.values.tolist() == [0.0] and one.probabilities.value.tolist() == [1.0]
    sparsity = ic.information_sparsity(mdp, policy, per_pair=True, **kw)
    assert float(sparsity.value) == 0.0 and sparsity.per_pair.shape == (0, 10)
    occ = ic.occupancy(mdp, policy, horizon=0)
    assert occ.state.shape == (0, 5) and occ.pair.shape == (0, 10) and occ.alive.shape == (0,)
    with pytest.raises(ValueError):
        law.pair_law(0, 0, 0)
    for x in (c, law, sparsity, occ):
        assert repr(x)


# ---- one answer by several ways


def equal(a, b):
    """Bit for bit."""
    return np.array_equal(a.value, b.value) and np.array_equal(a.error, b.error)


def flat(c):
    return [
        *(getattr(c, p) for p in (*PARTS, "total", "return_entropy", "policy_entropy", "mean")),
        *(getattr(c.proposition_1, s) for s in SIDES),
        *(getattr(c.variance, p) for p in PARTS),
        *(getattr(c.by_state, p) for p in PARTS),
    ]


def test_order_of_the_arrays_changes_no_bit():
    rng = np.random.default_rng(5)
    S, A, H = 6, 3, 5
    p = rng.random((S, A, S))
    p /= p.sum(axis=2, keepdims=True)
    reward = rng.integers(-2, 3, (S, A, S)).astype(float)
    policy = rng.random((H, S, A))
    policy /= policy.sum(axis=2, keepdims=True)
    found = []
    for order in "CF":
        for axes, turn in (("sas", (0, 1, 2)), ("ass", (1, 0, 2))):
            arrays = (np.array(x.transpose(turn), order=order) for x in (p, reward))
            mdp = ic.MDP.from_arrays(*arrays, axes=axes, initial=0)
            table = np.array(policy, order=order)
            table.setflags(write=False)
            found.append((flat(ic.credit(mdp, table, horizon=H)), ic.occupancy(mdp, table, horizon=H).state))
    for other in found[1:]:
        assert all(equal(a, b) for a, b in zip(found[0][0], other[0])) and equal(found[0][1], other[1])


@modest
@given(small)
def test_the_two_engines_agree(problem):
    model, policy, H, _ = problem
    mdp, table = load(model, policy, H)
    a, b = (ic.credit(mdp, table, horizon=H, engine=engine) for engine in ("lattice", "keys"))
    agree_on_credit(a, b)
    agree_on_law(a.return_law, b.return_law)


@pytest.mark.parametrize("name, build, H, gamma", [x for x in LARGER if x[3] == 1], ids=[x[0] for x in LARGER if x[3] == 1])
def test_the_two_engines_agree_on_larger_models(name, build, H, gamma):
    if "Lake" in name:
        pytest.importorskip("gymnasium")
    mdp = build()
    policy = ic.policies.uniform(mdp)
    a, b = (ic.credit(mdp, policy, horizon=H, engine=engine) for engine in ("lattice", "keys"))
    agree_on_credit(a, b)
    agree_on_law(a.return_law, b.return_law)
    a, b = (ic.return_law(mdp, policy, horizon=H, engine=engine) for engine in ("lattice", "keys"))
    for s in range(0, mdp.n_states, 5):
        if mdp.pair_ptr[s] < mdp.pair_ptr[s + 1]:
            agree_on_law(a.state_law(0, s), b.state_law(0, s))


@modest
@given(small)
def test_a_policy_given_step_by_step_is_the_stationary_one(problem):
    model, policy, H, gamma = problem
    assume(H > 0)
    mdp, table = load(model, [policy[0]] * H, H)
    one = ic.credit(mdp, table[0], horizon=H, discount=gamma)
    two = ic.credit(mdp, table, horizon=H, discount=gamma)
    pairs = ic.credit(mdp, over_pairs(mdp, table)[0], horizon=H, discount=gamma)
    for a, b, c in zip(flat(one), flat(two), flat(pairs)):
        assert equal(a, c)
        agree(a, b)
    a, b = (ic.occupancy(mdp, x, horizon=H) for x in (table[0], table))
    agree(a.state, b.state)
    agree(a.pair, b.pair)
    a, b = (ic.return_law(mdp, x, horizon=H, discount=gamma).law() for x in (table[0], table))
    agree_on_law(a, b)


def test_a_longer_horizon_than_any_episode_adds_nothing():
    """Padding: after the end nothing is earned and nothing is learned."""
    mdp = ic.examples.umbrella(4)
    policy = ic.policies.uniform(mdp)
    short, long = (ic.credit(mdp, policy, horizon=H) for H in (4, 9))
    agree_on_law(short.return_law, long.return_law)
    for part in (*PARTS, "policy_entropy"):
        agree(getattr(short, part), getattr(long, part)[:4])
        assert (getattr(long, part).value[4:] == 0.0).all()


def test_analyze_gives_what_the_parts_give():
    rng = random.Random(3)
    for seed in rng.sample(range(10000), 12):
        model, policy, H, gamma = models.problem(seed, limit=3000)
        mdp, table = load(model, policy, H)
        whole = ic.analyze(mdp, table, horizon=H, discount=gamma)
        assert all(equal(a, b) for a, b in zip(flat(whole.credit), flat(ic.credit(mdp, table, horizon=H, discount=gamma))))
        sparsity = ic.information_sparsity(mdp, table, horizon=H, discount=gamma)
        assert equal(whole.sparsity.value, sparsity.value) and equal(whole.sparsity.per_step, sparsity.per_step)
        assert equal(whole.occupancy.alive, ic.occupancy(mdp, table, horizon=H).alive)
