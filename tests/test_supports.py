"""Supports: atoms are told apart by exact integers, values are correctly rounded, and what does not fit is refused with what would."""

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from oracle import MP, within

import icexact as ic

F = Fraction


def lottery(rewards, weights=None, ends=False):
    """One state that pays one of the rewards at each step."""
    n = len(rewards)
    p = [1 / n] * n if weights is None else weights
    return ic.MDP.from_branches([0] * n, [0] * n, p, [0] * n, list(rewards), [ends] * n if ends else None, n_states=1, initial=0)


def exact_law(rewards, H, gamma, weights=None):
    """{z: probability}, by a dictionary of Fractions."""
    weights = weights or [F(1, len(rewards))] * len(rewards)
    law = {F(0): F(1)}
    for _ in range(H):
        following = {}
        for z, p in law.items():
            for r, w in zip(rewards, weights):
                x = F(r) + gamma * z
                following[x] = following.get(x, 0) + w * p
        law = following
    return dict(sorted(law.items()))


def entropy(law):
    return -sum(MP.mpf(p.numerator) / p.denominator * MP.log(MP.mpf(p.numerator) / p.denominator) for p in law.values())


def check(rewards, H, gamma=1, engine=None, exact=None):
    """The law of a lottery against the exact one; returns it."""
    exact = exact or exact_law(rewards, H, F(gamma))
    mdp = lottery(rewards)
    policy = ic.policies.uniform(mdp)
    law = ic.return_law(mdp, policy, horizon=H, discount=gamma, engine=engine)
    values, p = law.law()
    assert law.exact_values() == list(exact)
    assert values.tolist() == [float(z) for z in exact]
    assert all(within(v, e, x) for v, e, x in zip(p.value, p.error, exact.values()))
    c = ic.credit(mdp, policy, horizon=H, discount=gamma, engine=engine)
    assert within(c.return_entropy.value, c.return_entropy.error, entropy(exact))
    assert c.return_law.values.tolist() == values.tolist()
    return law, c


# ---- what float keys get wrong (exactness.md section 3)


@pytest.mark.parametrize("engine", [None, "lattice", "keys"])
@pytest.mark.parametrize("H, atoms", [(10, 21), (20, 41), (30, 61)])
def test_tenths_are_not_split(H, atoms, engine):
    """Float keys find 69, 222 and 469."""
    law, c = check((0.1, 0.2, 0.3), H, engine=engine, exact=exact_law((F(1, 10), F(2, 10), F(3, 10)), H, F(1)))
    assert law.n_atoms == atoms
    assert law.law().values[0] == float(F(H, 10)) and law.law().values[-1] == float(F(3 * H, 10))
    if H == 20:
        assert abs(float(c.return_entropy) - 2.713945) < 5e-7


def test_discounted_tenths_are_not_split():
    """Float keys find 30,311."""
    mdp = lottery((0.1, 0.7, -0.3))
    law = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=12, discount=0.5)
    exact = exact_law((F(1, 10), F(7, 10), F(-3, 10)), 12, F(1, 2))
    assert law.n_atoms == len(exact) == 20419
    assert law.exact_values() == list(exact)
    values, p = law.law()
    assert values.tolist() == [float(z) for z in exact]
    assert all(within(v, e, x) for v, e, x in zip(p.value, p.error, exact.values()))


@pytest.mark.parametrize(
    "gamma, rewards, H",
    [("0.99", (0, 1), 12), ("1/3", (0, 1, 2), 9), ("1/3", (0, 1), 13), ("0.999999", (-1, 2), 9), ("2/3", (0, F(1, 7)), 11), ("0.9", (0, 0.1, 1), 8)],
)
def test_discounts_whose_keys_grow(gamma, rewards, H):
    check([F(str(r)) for r in rewards], H, F(gamma))


def test_keys_wider_than_64_bits():
    """gamma = 0.99 at H = 12: denominators of 100^11 and more; still one atom a sequence, in order."""
    law, _ = check((0, 1), 12, F(99, 100))
    assert law.n_atoms == 2**12
    assert max(z.denominator for z in law.exact_values()) == 100**11
    # at gamma = 1/3 sequences fall together only where they must
    assert check((0, 1, 3), 7, F(1, 3))[0].n_atoms == len({sum(F(r, 3**h) for h, r in enumerate(x)) for x in product((0, 1, 3), repeat=7)})


def test_wide_keys_with_states_actions_and_ends():
    """A two-state chain against sums over its paths."""
    branches = [
        (0, 0, F(1, 2), 1, 1, False),
        (0, 0, F(1, 2), 0, 0, False),
        (0, 1, 1, 1, -2, False),
        (1, 0, F(3, 4), 0, F(1, 3), False),
        (1, 0, F(1, 4), 1, 5, True),
    ]
    state, action, p, to, r, ends = zip(*branches)
    mdp = ic.MDP.from_branches(state, action, [float(x) for x in p], to, list(r), list(ends), n_states=2, initial=0)
    gamma, H = F(99, 100), 11
    v = {0: {F(0): F(1)}, 1: {F(0): F(1)}}
    for _ in range(H):
        new = {}
        for s in v:
            law = {}
            pairs = {a for x, a, *_ in branches if x == s}
            for x, a, q, t, reward, end in branches:
                if x == s:
                    for z, w in ({F(0): F(1)} if end else v[t]).items():
                        key = F(reward) + gamma * z
                        law[key] = law.get(key, 0) + q * w / len(pairs)
            new[s] = law
        v = new
    exact = dict(sorted(v[0].items()))
    found = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=H, discount=gamma)
    assert found.exact_values() == list(exact)
    values, probabilities = found.law()
    assert values.tolist() == [float(z) for z in exact]
    assert all(within(a, e, x) for a, e, x in zip(probabilities.value, probabilities.error, exact.values()))
    c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=H, discount=gamma)
    assert within(c.return_entropy.value, c.return_entropy.error, entropy(exact))
    assert c.return_law.values.tolist() == values.tolist()


@pytest.mark.parametrize("engine", [None, "keys"])
def test_scattered_rewards(engine):
    rewards = (0, 1000000, F(1, 3))
    law, _ = check(rewards, 8, engine=engine)
    assert law.n_atoms == 45
    check((F(10) ** 15, F(1, 3), -1), 6, engine=engine)
    check((F(1, 10**9 + 7), F(1, 998244353), 1), 6, engine=engine)


@pytest.mark.parametrize(
    "rewards, H",
    [((F(1, 3), F(2, 3)), 40), ((0.1, 1e-9, 12345.678), 6), ((1e15, 0.1), 9), ((2**53 + 1, 1), 5), ((F(1, 3), 2**60), 4), ((1e150, -1e150, 1e-150), 3)],
)
def test_values_are_correctly_rounded(rewards, H):
    check([F(str(r)) for r in rewards], H)


def test_rewards_whose_square_overflows():
    """The laws are as good as any; credit, which has a variance in it, says so or leaves that one open."""
    rewards = [F(10) ** 300, -(F(10) ** 300)]
    mdp = lottery(rewards)
    assert ic.return_law(mdp, ic.policies.uniform(mdp), horizon=3).exact_values() == list(exact_law(rewards, 3, F(1)))
    try:
        c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=3)
    except (ValueError, OverflowError) as error:
        assert "range of float64" in str(error)
    else:
        exact = entropy(exact_law(rewards, 3, F(1)))
        assert within(c.return_entropy.value, c.return_entropy.error, exact) and np.isinf(c.variance.total.error)


@pytest.mark.parametrize("rewards", [(-1, -2), (-0.5, -0.1, -3), (-7,), (0,), (0.1,), (5, 5), (0, 0), (-1, 1), (3, -1)])
@pytest.mark.parametrize("gamma", [1, F(1, 2), F(9, 10)])
def test_negative_equal_and_zero_rewards(rewards, gamma):
    exact = exact_law([F(str(r)) for r in rewards], 5, F(gamma))
    for engine in ("lattice", "keys") if gamma == 1 else ("keys",):
        law, c = check([F(str(r)) for r in rewards], 5, gamma, engine)
        if len(exact) == 1:
            only = law.law()
            assert len(only.values) == 1 and only.probabilities.value.tolist() == [1.0]
            assert float(c.return_entropy) == 0.0 and (c.total.value == 0.0).all()
        assert not np.signbit(law.law().values[law.law().values == 0]).any()


def test_minus_zero_is_zero():
    mdp = lottery((0.0, -0.0, 1.0), [0.25, 0.25, 0.5])
    assert mdp.n_branches == 2
    for gamma in (1, 0.5):
        values, _ = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=2, discount=gamma).law()
        assert values.tolist() == sorted({x + gamma * y for x in (0, 1) for y in (0, 1)})
        assert not np.signbit(values).any()
    only = lottery((-0.0,))
    values, _ = ic.return_law(only, ic.policies.uniform(only), horizon=3).law()
    assert values.tolist() == [0.0] and not np.signbit(values[0])


def test_floats_are_read_by_their_shortest_decimal():
    """0.1 is 1/10, and so is the text; ten of them are 1 and no more."""
    for tenth in (0.1, "0.1", F(1, 10), np.float32(0.1)):
        mdp = lottery((tenth,))
        law = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=10)
        assert law.exact_values() == [1] and law.law().values.tolist() == [1.0]
    law = ic.return_law(lottery((0, 1)), np.ones((1, 1)), horizon=3, discount=0.1)
    assert law.exact_values() == sorted(F(x) + F(y, 10) + F(z, 100) for x, y, z in product((0, 1), repeat=3))


# ---- laws of states that the start cannot reach, and of what was not kept


def test_every_state_has_its_law():
    mdp = ic.MDP.from_branches([0, 1, 2], [0, 0, 0], [1, 1, 1], [0, 2, 1], [1, 10, 100], n_states=3, initial=0)
    law = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=3, keep="all")
    assert [law.state_law(h, 1).values.tolist() for h in range(4)] == [[120.0], [110.0], [10.0], [0.0]]
    assert [law.pair_law(h, 2, 0).values.tolist() for h in range(3)] == [[210.0], [110.0], [100.0]]
    assert law.law().values.tolist() == [3.0]


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_steps_that_were_not_kept_are_refused(engine):
    mdp = ic.examples.umbrella(3)
    law = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=3, engine=engine)
    law.state_law(0, 0), law.pair_law(0, 0, 1)
    for ask in (lambda: law.state_law(2, 0), lambda: law.pair_law(1, 0, 0)):
        with pytest.raises(ValueError, match="keep='all'"):
            ask()
    for ask in (lambda: law.state_law(4, 0), lambda: law.state_law(-1, 0), lambda: law.pair_law(3, 0, 0), lambda: law.state_law(True, 0)):
        with pytest.raises(ValueError, match="step"):
            ask()
    kept = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=3, engine=engine, keep="all")
    assert kept.state_law(0, 0).values.tolist() == law.state_law(0, 0).values.tolist()
    with pytest.raises(ValueError, match="keep"):
        ic.return_law(mdp, ic.policies.uniform(mdp), horizon=3, keep="some")


# ---- budgets


def refusal(call, budget, horizon):
    with pytest.raises(ic.BudgetError) as error:
        call(horizon, budget)
    return str(error.value)


def lattice_law(mdp, keep):
    return lambda horizon, budget: ic.return_law(mdp, ic.policies.uniform(mdp), horizon=horizon, budget=budget, engine="lattice", keep=keep)


def lattice_credit(mdp):
    return lambda horizon, budget: ic.credit(mdp, ic.policies.uniform(mdp), horizon=horizon, budget=budget, engine="lattice")


def occupancy(mdp):
    return lambda horizon, budget: ic.occupancy(mdp, ic.policies.uniform(mdp), horizon=horizon, budget=budget)


@pytest.mark.parametrize(
    "make", [lambda m: lattice_law(m, "first"), lambda m: lattice_law(m, "all"), lattice_credit, occupancy], ids=["law", "all laws", "credit", "occupancy"]
)
@pytest.mark.parametrize("budget", [200_000, 800_000])
def test_a_refusal_says_what_fits_and_that_fits(make, budget):
    mdp = ic.examples.garnet(80, 2, 3, rewards=(-1, 0, 10), seed=1)
    call, horizon = make(mdp), 1500
    text = refusal(call, budget, horizon)
    fits = re.search(r"a horizon of (\d+) would fit", text)
    assert fits, text
    fits = int(fits[1])
    assert 0 < fits < horizon
    call(fits, budget)
    refusal(call, budget, fits + 1)
    need = re.search(r"budget=(\d+)", text)
    assert need, text
    with pytest.raises(ic.BudgetError):
        call(horizon, int(need[1]) - 1)
    if make is occupancy:
        call(horizon, int(need[1]))


def test_the_budget_that_a_refusal_names_is_enough():
    mdp = ic.examples.garnet(20, 2, 3, rewards=(-1, 0, 10), seed=1)
    for call in (lattice_law(mdp, "first"), lattice_law(mdp, "all"), lattice_credit(mdp), occupancy(mdp)):
        text = refusal(call, 20_000, 150)
        call(150, int(re.search(r"budget=(\d+)", text)[1]))


@pytest.mark.parametrize("task", ["law", "credit"])
def test_a_refusal_of_the_keys_says_what_fits_and_that_fits(task):
    mdp = lottery((0, 1, 5))
    policy = ic.policies.uniform(mdp)

    def call(horizon, budget):
        if task == "law":
            return ic.return_law(mdp, policy, horizon=horizon, discount="0.99", budget=budget)
        return ic.credit(mdp, policy, horizon=horizon, discount="0.99", budget=budget)

    for budget in (30_000, "1 MiB"):
        text = refusal(call, budget, 40)
        fits = int(re.search(r"a horizon of (\d+) would fit", text)[1])
        assert fits > 1 and "budget" in text
        call(fits, budget)
        refusal(call, budget, fits + 1)


def test_keeping_every_step_is_refused_where_it_does_not_fit():
    mdp = lottery((0, 1))
    with pytest.raises(ic.BudgetError, match="keep='first'"):
        ic.return_law(mdp, ic.policies.uniform(mdp), horizon=100, engine="keys", keep="all", budget=20_000)
    assert ic.return_law(mdp, ic.policies.uniform(mdp), horizon=100, engine="keys", budget=40_000).n_atoms == 101


def test_engines_that_do_not_suit_are_refused():
    mdp = lottery((0, 1))
    policy = ic.policies.uniform(mdp)
    with pytest.raises(ValueError, match="lattice engine needs discount 1"):
        ic.return_law(mdp, policy, horizon=2, discount=0.5, engine="lattice")
    with pytest.raises(ValueError, match="must be 'lattice', 'keys' or None"):
        ic.credit(mdp, policy, horizon=2, engine="fft")
    far = lottery((0, 10**15, F(1, 3)))
    with pytest.raises(ValueError, match="too far apart"):
        ic.return_law(far, ic.policies.uniform(far), horizon=2, engine="lattice")


# ---- whether anything can have underflowed is told by the paths there are


def test_a_rare_branch_that_comes_once_is_no_risk():
    """By the smallest weight alone 40 steps may reach 2^-1200; but no path takes that branch twice, so no bound gets an absolute part."""
    rare = 2.0**-30
    mdp = ic.MDP.from_branches([0, 0, 1], [0, 0, 0], [1 - rare, rare, 1], [1, 1, 1], [0, 1, 2], n_states=2, initial=0)
    policy = ic.policies.uniform(mdp)
    law = ic.return_law(mdp, policy, horizon=40)
    assert law._underflow == 0.0
    values, p = law.law()
    assert values.tolist() == [78.0, 79.0] and p.value.tolist() == [1 - rare, rare]
    credit = ic.credit(mdp, policy, horizon=40)
    assert not credit.noise.error[1:].any()
    # twice a step is enough to be one
    twice = ic.MDP.from_branches([0, 0, 1], [0, 0, 0], [1 - rare, rare, 1], [1, 0, 0], [0, 1, 2], n_states=2, initial=0)
    assert ic.return_law(twice, policy, horizon=40)._underflow > 0.0


def test_the_smallest_path_is_the_smallest():
    """Against every path of a model with ends, a pair that is not played, and a policy that depends on the step."""
    from icexact.chain import least_path

    rng = np.random.default_rng(7)
    for _ in range(20):
        p = rng.random((3, 2, 3)) + 0.01
        p /= p.sum(axis=2, keepdims=True)
        s, a, t = (x.ravel() for x in np.indices(p.shape))
        ends = rng.random(len(s)) < 0.2
        mdp = ic.MDP.from_branches(s, a, p.ravel(), t, rng.integers(0, 2, len(s)), ends, n_states=3, initial=[0.3, 0.7, 0.0])
        table = rng.random((4, 3, 2))
        table[rng.random((4, 3)) < 0.3, 0] = 0.0
        table /= table.sum(axis=2, keepdims=True)
        policy = ic.policies.read(mdp, table, 4)
        found = least_path(mdp, policy, 4)

        def paths(h, state, weight, policy=policy, mdp=mdp):
            """The weights of all paths from a state at step h, whole or broken off."""
            yield weight
            for k in range(mdp.pair_ptr[state], mdp.pair_ptr[state + 1]) if h < 4 else ():
                if policy.at(h)[k] > 0:
                    yield from after(h, k, weight * policy.at(h)[k])

        def after(h, k, weight, mdp=mdp):
            for b in range(mdp.branch_ptr[k], mdp.branch_ptr[k + 1]):
                w = weight * mdp.probability[b]
                yield from [w] if mdp.ends[b] else paths(h + 1, mdp.next_state[b], w)

        # laws of states, of pairs whether they are played or not, and of the first state
        least = min(min(paths(h, s, 1.0)) for h in range(4) for s in range(3))
        least = min(least, *(min(after(h, k, 1.0)) for h in range(4) for k in range(mdp.n_pairs)))
        least = min(least, *(min(paths(0, s, mdp.initial[s])) for s in (0, 1)))
        assert np.isclose(found, least, rtol=1e-12)
