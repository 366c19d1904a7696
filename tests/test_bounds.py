"""The stated bounds: logarithm and divergence against 40 digits, sums against rationals, underflow, and what `Bounded` prints."""

import pickle
from fractions import Fraction
from math import comb, inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath.ctx_mp import MPContext
from oracle import within

import icexact as ic
from icexact import bounds
from icexact.kernels import branches, entropy, logarithm, rows
from icexact.results import sure_digits

MP = MPContext()
MP.dps = 40
U = MP.mpf(2) ** -53
F = Fraction


def mpf(x):
    return MP.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else MP.mpf(x)


# ---- our own logarithm and divergence


def points():
    """20,000 and more: everywhere, in [1/3, 1], next to 1, at powers of two and the ends of the range."""
    rng = np.random.default_rng(1)
    yield 10.0 ** rng.uniform(-307, 300, 6000)
    yield rng.uniform(0.3, 1, 6000)
    yield 1 + rng.uniform(-1, 1, 3000) * 10.0 ** rng.uniform(-16, -1, 3000)
    yield 1 + np.arange(-1500, 1500) * 2.0**-53
    yield rng.uniform(0.7, 0.715, 2000)
    yield 2.0 ** np.arange(-1022, 1024)
    yield np.array([2.0**-1022, 1e-300, np.nextafter(1, 0), np.nextafter(1, 2), np.finfo(float).max, np.sqrt(0.5), np.sqrt(2)])


def test_logarithm():
    x = np.concatenate(list(points()))
    assert len(x) >= 20_000
    worst = 0
    for one in x.tolist():
        exact = MP.log(MP.mpf(one))
        found = logarithm.log(one)
        if one == 1.0:
            assert found == 0.0
        else:
            worst = max(worst, abs((MP.mpf(found) - exact) / exact))
    assert worst <= bounds.LOG * U, float(worst / U)
    assert worst <= 2 * U, float(worst / U)  # the margin that bounds.LOG is meant to have
    assert 0.0 * logarithm.log(0.0) == 0.0


def test_log1p():
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [
            -rng.uniform(0, 0.5, 3000),
            rng.uniform(0, 1, 1000),
            rng.choice([-1, 1], 3000) * 10.0 ** rng.uniform(-300, -1, 3000),
            -(0.5 - 10.0 ** rng.uniform(-16, -2, 300)),
        ]
    )
    worst = max(abs((MP.mpf(logarithm.log1p(one)) - MP.log1p(MP.mpf(one))) / MP.log1p(MP.mpf(one))) for one in x.tolist())
    # pivot_rate gives it 2 LOG + 12 with all its sums
    assert worst <= (bounds.LOG + 4) * U, float(worst / U)
    assert logarithm.log1p(0.0) == 0.0


def pairs():
    """(p, q), normal doubles: unrelated, near to one another down to a unit, at ratios near powers of two and sqrt(2), and at 1e-300."""
    rng = np.random.default_rng(3)
    n = 5000
    yield 10.0 ** rng.uniform(-300, 0, n), 10.0 ** rng.uniform(-300, 0, n)
    yield rng.random(n), rng.random(n)
    q = 10.0 ** rng.uniform(-300, 0, n)
    yield q * (1 + rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-16, -0.3, n)), q
    q = 10.0 ** rng.uniform(-200, -1, n)
    yield q * 2.0 ** rng.integers(-40, 40, n) * np.sqrt(2) ** rng.integers(0, 2, n) * (1 + rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-16, -1, n)), q
    q = rng.uniform(0.5, 1, 3000)
    yield q + rng.integers(-5, 6, 3000) * 2.0**-53, q
    ends = np.array([1.0, 1e-300, 2.0**-1000, 0.5, np.nextafter(1, 0), 1e-16, 1e-8])
    yield np.repeat(ends, len(ends)), np.tile(ends, len(ends))


def test_divergence():
    count, worst, nearest = 0, 0, 1.0
    for p_all, q_all in pairs():
        for p, q in zip(p_all.tolist(), q_all.tolist()):
            found = logarithm.divergence(p, q)
            count += 1
            if p == q:
                assert found == 0.0
                continue
            x, y = MP.mpf(p), MP.mpf(q)
            d = (x - y) / y
            # p ln(p/q) - p + q cancels for near pairs: the series carries on where 40 digits end
            exact = y * ((1 + d) * MP.log1p(d) - d) if abs(d) > 1e-8 else y * d * d * (MP.mpf(1) / 2 - d / 6 + d * d / 12 - d**3 / 20)
            assert found > 0.0 or exact < MP.mpf(2) ** -1022
            if exact > MP.mpf(2) ** -960:
                worst = max(worst, abs((MP.mpf(found) - exact) / exact))
                nearest = min(nearest, abs(float(d)))
    assert count >= 20_000 and nearest < 1e-15
    assert worst <= bounds.DIVERGENCE * U, float(worst / U)
    assert logarithm.divergence(0.0, 0.25) == 0.25


@pytest.mark.parametrize("q", [3e-8, 3e-15, 3e-30, 1e-100, 1e-300, 0.25, 0.5])
def test_entropy_near_determinism(q):
    """The law (1 - q, q) and its kin, 1 - q rounded: relative accuracy, whatever the entropy."""
    for small in ([q], [q / 2, q / 4, q / 4], [q * 2.0**-k for k in range(1, 40)]):
        small = [x for x in small if x >= entropy.TINY]
        exact_small = [F(x) for x in small]
        top = 1 - sum(exact_small)
        law = np.array([small[0], float(top), *small[1:]])
        exact = -sum(mpf(p) * MP.log(mpf(p)) for p in exact_small) - mpf(top) * MP.log1p(-mpf(sum(exact_small)))
        found = entropy.pivot_entropy(law, 0, len(law), 1.0)
        assert abs(MP.mpf(found) - exact) <= MP.mpf(bounds.pivot_rate(1, len(law))) * exact
        out = np.zeros(1)
        entropy.row_entropies(np.array([0, len(law)]), law, out)
        assert out[0] == found
    assert entropy.pivot_entropy(np.array([0.0, 1.0]), 0, 2, 1.0) == 0.0


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 32, 33, 48, 255, 256, 257, 1000, 1024, 1025, 3000])
def test_entropy_and_divergence_of_rows(n):
    """Absolute form for entropies, relative for divergences, at every length of block."""
    rng = np.random.default_rng(n)
    p = rng.random(n) ** 8 + 1e-30
    q = p * (1 + 1e-4 * rng.random(n))
    p, q = p / p.sum(), q / q.sum()
    length = int(rows.padded(n))
    behind = np.zeros(length - n)
    both = np.concatenate([[7.0], p, behind, [9.0], q, behind, [3.0]])
    exact = -sum(MP.mpf(x) * MP.log(MP.mpf(x)) for x in p.tolist())
    assert abs(MP.mpf(entropy.entropy(both, 1, length)) - exact) <= MP.mpf(bounds.entropy_rate(0, length)) * (exact + 1)
    terms = [MP.mpf(x) * MP.log(MP.mpf(x) / MP.mpf(y)) - MP.mpf(x) + MP.mpf(y) for x, y in zip(p.tolist(), q.tolist())]
    found = entropy.divergence_sum(both, 1, both, length + 2, length)
    assert abs(MP.mpf(found) - sum(terms)) <= (bounds.row_depth(length) + bounds.DIVERGENCE) * U * sum(terms)
    assert entropy.divergence_sum(both, 1, both, 1, length) == 0.0


@pytest.mark.parametrize("n", [2, 16, 17, 48, 1000, 1025, 3000])
@pytest.mark.parametrize("rest", [0.489, 1e-3, 1e-9, 1e-200])
def test_entropy_by_the_other_atoms(n, rest):
    """Relative, however little there is beside the largest atom, wherever that stands."""
    rng = np.random.default_rng(n)
    for top in (0, n // 2, n - 1):
        p = rng.random(n) + 1e-9
        p[top] = 0.0
        p *= rest / p.sum()
        p[top] = 1.0 - rest
        length = int(rows.padded(n))
        row = np.concatenate([[7.0], p, np.zeros(length - n), [9.0]])
        assert entropy.find_top(row, 1, length) == top
        total, mass = entropy.others(row, 1, length, top)
        small = [MP.mpf(x) for i, x in enumerate(p.tolist()) if i != top]
        beside = MP.fsum(small)
        exact = -sum(x * MP.log(x) for x in small) - (1 - beside) * MP.log1p(-beside)
        assert abs(MP.mpf(entropy.by_rest(total, mass)) - exact) <= MP.mpf(bounds.entropy_rate(0, length)) * exact
    assert entropy.find_top(np.full(16, 1 / 16), 0, 16) == -1
    assert entropy.by_rest(*entropy.others(np.eye(16)[3].copy(), 0, 16, 3)) == 0.0


# ---- sums


def test_sums_of_rows_of_probabilities_are_right():
    rng = np.random.default_rng(4)
    pointer, values = [0], []
    for _ in range(300):
        n = rng.integers(1, 60)
        row = rng.random(n) if rng.random() < 0.7 else rng.integers(1, 2**20, n) / 2.0**26
        values += row.tolist()
        pointer.append(len(values))
    deviation, dyadic = np.zeros(300), np.zeros(300, dtype=np.bool_)
    branches.row_sums(np.array(pointer), np.array(values), deviation, dyadic)
    for i in range(300):
        row = [F(x) for x in values[pointer[i] : pointer[i + 1]]]
        assert abs(F(float(deviation[i])) - (sum(row) - 1)) <= F(1, 2**100) + abs(sum(row) - 1) * F(1, 2**52)
        assert bool(dyadic[i]) == all((x * 2**26).denominator == 1 for x in row)


@pytest.mark.parametrize("count", range(1, 24))
def test_mixtures_of_rows(count):
    """kernels.rows.mix keeps to bounds.mixture_depth, and touches nothing else."""
    rng = np.random.default_rng(count)
    for n in (16, 48):
        table = rng.random(count * n + 32) * 10.0 ** rng.integers(-20, 1, count * n + 32)
        at = rng.integers(0, len(table) - n, count + 2)
        c = rng.random(count + 3)
        out = np.full(n + 40, 7.0)
        rows.mix(out, np.int64(20), np.int64(n), table, at, np.int64(2), c, np.int64(3), np.int64(count))
        assert (out[:20] == 7.0).all() and (out[20 + n :] == 7.0).all()
        for z in range(n):
            exact = sum(F(float(c[3 + j])) * F(float(table[at[2 + j] + z])) for j in range(count))
            assert abs(F(float(out[20 + z])) - exact) <= F(float(bounds.gamma(1 + bounds.mixture_depth(count)))) * exact


def test_weighted_sums_do_not_grow_with_the_number_of_states():
    rng = np.random.default_rng(6)
    weights, terms, out = rng.random(20000), rng.random((2, 20000)), np.zeros(2)
    states = np.sort(rng.permutation(20000)[:15000])
    entropy.weighted_sums(weights, terms, states, out)
    for i in range(2):
        exact = sum(F(float(weights[s])) * F(float(terms[i, s])) for s in states)
        assert abs(F(float(out[i])) - exact) <= 4 * F(1, 2**53) * exact


def test_counts():
    assert bounds.gamma(0) == 0.0 and bounds.gamma(1) >= 2.0**-53
    assert (np.diff(bounds.gamma(np.arange(5))) > 0).all()
    # the exact factor (1 + u)^n
    for n in (1, 10, 1000, 10**6):
        assert F(float(bounds.gamma(n))) >= F(n, 2**53) / (1 - F(n, 2**53))
    with pytest.raises(OverflowError):
        bounds.gamma(2**50)
    assert [bounds.mixture_depth(n) for n in (0, 1, 2, 5)] == [0, 0, 1, 4]
    assert bounds.may_underflow(1.0, 2.0**-20, 60) and not bounds.may_underflow(1.0, 2.0**-20, 40)
    # what the laws' errors do vanishes with the value, as its root, down to the square of a rounding
    errors = [float(bounds.law_error(x, 1.0, 10, 10)) for x in (1e-8, 1e-16, 1e-24, 0.0)]
    assert errors[1] < errors[0] / 5000 and errors[2] < errors[1] / 5000 and 0 < errors[3] < 1e-28
    assert errors[2] < 0.02 * 1e-24


def test_the_bound_of_entropies_holds_at_its_ends():
    """A law whose atoms are off by the most that their counts allow, in the worst directions: entropy moves by no more than the rates say."""
    for n in (100, 10**6):
        up, down = (1 + U) ** n, (1 - U) ** n
        for law in ([F(1, 1000)] * 1000, [F(1, 2), F(1, 2)], [F(1, 3), F(1, 6), F(1, 2)], [F(9, 10)] + [F(1, 100)] * 10, [1 - F(1, 10**12), F(1, 10**12)]):
            law = [mpf(p) for p in law]
            true = -sum(p * MP.log(p) for p in law)
            moved = -sum(p * x * MP.log(p * x) for p in law for x in [up if MP.log(p) < -1 else down])
            assert abs(moved - true) <= MP.mpf(bounds.entropy_rate(n, len(law))) * (true + 1)
            # the pivot sees the others only
            moved = [p * up for p in law[1:]]
            pivot = -sum(p * MP.log(p) for p in moved) - (1 - sum(moved)) * MP.log1p(-sum(moved))
            assert abs(pivot - true) <= MP.mpf(bounds.pivot_rate(n, len(law))) * true


def test_rates_cover_their_counts():
    """What is evaluated in so many operations may be off by so many units."""
    for width in (16, 64, 1024, 4096):
        additions = width if width <= 32 else 32 + min(width, 1024) // 32 + width // 1024
        assert bounds.row_depth(width) >= additions - 1
        assert bounds.entropy_rate(0, width) >= float(U) * (additions + bounds.LOG + 2)
        assert bounds.entropy_rate(0, width, 100) >= bounds.entropy_rate(0, width) + 99 * float(U)
        assert bounds.pivot_rate(0, width) >= float(U) * (width + bounds.LOG + 2)
        none = float(bounds.difference_error(1.0, 0.0, 1.0, 1.0, 0, 0, 0.0, width))
        assert none >= float(U) * (additions + bounds.DIVERGENCE)
    assert float(bounds.difference_error(1.0, 3.0, 0.0, 1.0, 0, 0, 1e-13, 16)) >= 3e-13


def test_the_bound_of_divergences_holds_at_its_ends():
    """p and q off by the most that their counts allow, in the worst directions: KL moves by no more than law_error of the exact value."""
    for spread in (0.5, 1e-3, 1e-6, 1e-9, 1e-12, 0.0):
        for n in (1, 10, 1000):
            exact = [MP.mpf(1) / 2, MP.mpf(1) / 2]
            q = [MP.mpf(1) / 2 * (1 + spread), MP.mpf(1) / 2 * (1 - spread)]
            if spread >= 1:
                continue

            def kl(p, q):
                return sum(x * MP.log(x / y) - x + y for x, y in zip(p, q))

            up, down = (1 + U) ** n, (1 - U) ** n
            true = kl(exact, q)
            worst = max(
                abs(kl([exact[0] * a, exact[1] * b], [q[0] * c, q[1] * d]) - true)
                for a in (up, down)
                for b in (up, down)
                for c in (up, down)
                for d in (up, down)
            )
            assert worst <= MP.mpf(float(bounds.law_error(float(true), 1.0, n, n))), (spread, n)


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_rounding_that_adds_up_over_thousands_of_steps(engine):
    """A row that misses 1 by a unit 2^-53 loses a unit of mass a step, and the bounds know. The first of H steps pays 0 or 1,
    the last flips a coin of 3/100, and in between nothing happens."""
    H, nearly_one = 2000, np.nextafter(1.0, 0.0)
    rows_ = [(0, a, nearly_one, 1, a, False) for a in (0, 1)]
    rows_ += [(1, 0, nearly_one, 1, 0, False), (1, 1, 0.03, 1, 0, True), (1, 1, 0.97, 1, 1, True)]
    mdp = ic.MDP.from_branches(*zip(*rows_), n_states=2, initial=0)
    policy = np.zeros((H, 2, 2))
    policy[:, 0] = 0.5
    policy[:-1, 1:, 0] = policy[-1, 1:, 1] = 1.0

    coin = F(3, 100)
    exact = [coin / 2, F(1, 2), (1 - coin) / 2]
    c = ic.credit(mdp, policy, horizon=H, engine=engine)
    law = ic.return_law(mdp, policy, horizon=H, engine=engine).law()
    for found in (law, c.return_law):
        drift = [abs(F(float(v)) - x) / x for v, x in zip(found.probabilities.value, exact)]
        assert max(drift) > 1000 * F(1, 2**53)
        assert all(within(v, e, x) for v, e, x in zip(found.probabilities.value, found.probabilities.error, exact))
    assert within(c.return_entropy.value, c.return_entropy.error, shannon(exact))
    assert within(c.skill.value[0], c.skill.error[0], shannon(exact) - shannon([coin, 1 - coin]))
    assert within(c.noise.value[-1], c.noise.error[-1], shannon([coin, 1 - coin]))
    assert c.skill.error[0] < 1e-9
    assert (c.luck.value <= c.luck.error).all()
    occ = ic.occupancy(mdp, policy, horizon=H)
    assert within(occ.state.value[-1, 1], occ.state.error[-1, 1], F(1)) and occ.state.value[-1, 1] < 1 - 1000 * 2.0**-53
    assert within(c.mean.value, c.mean.error, exact[1] + 2 * exact[2])
    variance = exact[1] + 4 * exact[2] - (exact[1] + 2 * exact[2]) ** 2
    assert within(c.variance.total.value, c.variance.total.error, variance)
    assert within(c.variance.skill.value[0], c.variance.skill.error[0], F(1, 4))


# ---- underflow


def rare_coin(k, H):
    """A state that pays 1 with probability 2^-k: (mdp, {z: probability})."""
    p = F(1, 2**k)
    mdp = ic.MDP.from_branches([0, 0], [0, 0], [float(1 - p), float(p)], [0, 0], [0, 1], n_states=1, initial=0)
    return mdp, {F(z): comb(H, z) * p**z * (1 - p) ** (H - z) for z in range(H + 1)}


def shannon(law):
    return -sum(mpf(p) * MP.log(mpf(p)) for p in law)


@pytest.mark.parametrize("engine", ["lattice", "keys"])
@pytest.mark.parametrize("k, H", [(20, 40), (20, 52), (20, 80), (26, 60)])
def test_laws_below_the_range_of_floats(k, H, engine):
    """Each atom that is given lies within its error, and none is left out: which returns there are is no matter of rounding."""
    mdp, exact = rare_coin(k, H)
    policy = np.ones((1, 1))
    law = ic.return_law(mdp, policy, horizon=H, engine=engine)
    p = law.law().probabilities
    for z, v, e in zip(law.exact_values(), p.value, p.error):
        assert within(v, e, exact[z]), (z, v, e)
        if exact[z] > F(1, 2**1000):
            assert e < 1e-12 * v
    for z in set(exact) - set(law.exact_values()):
        assert exact[z] < F(1, 2**1070), z
    c = ic.credit(mdp, policy, horizon=H, engine=engine)
    assert within(c.return_entropy.value, c.return_entropy.error, shannon(exact.values()))
    noise = [shannon(rare_coin(k, n)[1].values()) - shannon(rare_coin(k, n - 1)[1].values()) for n in range(H, 0, -1)]
    for h in range(H):
        assert within(c.noise.value[h], c.noise.error[h], noise[h])
        assert c.noise.error[h] < 1e-8 * c.noise.value[h]


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_no_atom_vanishes(engine):
    """The support of Bin(80, 2^-20) is 0 .. 80, though 2^-1600 is no float: an atom may be 0 +- something, but not missing."""
    mdp, exact = rare_coin(20, 80)
    law = ic.return_law(mdp, np.ones((1, 1)), horizon=80, engine=engine)
    assert law.exact_values() == list(exact)
    assert (law.law().probabilities.error > 0).all()


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_two_actions_below_the_range_of_floats(engine):
    """Skill and (S1) of two rare coins, the one twice as rare, against the exact laws."""
    H, ps = 60, (F(1, 2**20), F(1, 2**21))
    branches_ = [(0, a, float(w), r) for a, p in enumerate(ps) for r, w in ((0, 1 - p), (1, p))]
    s, a, w, r = zip(*branches_)
    mdp = ic.MDP.from_branches(s, a, w, s, r, n_states=1, initial=0)
    policy = ic.policies.uniform(mdp)
    v = [[F(1)]]
    q = []
    for _ in range(H):
        before = v[-1]
        step = [[(1 - p) * x + p * y for x, y in zip([*before, F(0)], [F(0), *before])] for p in ps]
        q.append(step)
        v.append([(x + y) / 2 for x, y in zip(*step)])
    q, v = q[::-1], v[1:][::-1]
    c = ic.credit(mdp, policy, horizon=H, engine=engine)
    sparsity = ic.information_sparsity(mdp, policy, horizon=H, engine=engine, per_pair=True)
    for h in range(0, H, 7):
        kl = [sum(mpf(x) * MP.log(mpf(x / y)) for x, y in zip(q[h][a], v[h])) for a in (0, 1)]
        assert within(c.skill.value[h], c.skill.error[h], sum(kl) / 2)
        assert c.skill.error[h] < 1e-3 * c.skill.value[h]
        for a in (0, 1):
            value, error = sparsity.per_pair.value[h, a], sparsity.per_pair.error[h, a]
            assert np.isnan(value) or within(value, error, kl[a])
    law = ic.return_law(mdp, policy, horizon=H, engine=engine)
    for z, x, e in zip(law.exact_values(), law.law().probabilities.value, law.law().probabilities.error):
        assert within(x, e, v[0][int(z)])


@pytest.mark.parametrize("push", [True, False])
def test_occupancy_below_the_range_of_floats(push):
    """A chain whose mass falls by 2^-20 a step; with and without other states that are occupied from the start."""
    H, p = 80, F(1, 2**20)
    n = H
    idle = 0 if push else 200
    state = [s for s in range(n) for _ in (0, 1)] + list(range(n, n + idle))
    to = [t for s in range(n) for t in (min(s + 1, n - 1), 0)] + list(range(n, n + idle))
    probability = [float(p), float(1 - p)] * n + [1.0] * idle
    initial = np.zeros(n + idle)
    initial[0] = 1.0 if push else 0.5
    if idle:
        initial[n : n + 128] = 0.5 / 128
    ends = [False, True] * n + [False] * idle
    mdp = ic.MDP.from_branches(state, [0] * len(state), probability, to, [0] * len(state), ends, n_states=n + idle, initial=initial)
    occ = ic.occupancy(mdp, ic.policies.uniform(mdp), horizon=H)
    for h in range(H):
        for s in (h, h - 1, 0, n - 1):
            exact = F(float(initial[0])) * p**h if s == h else F(0)
            if 0 <= s < n:
                assert within(occ.state.value[h, s], occ.state.error[h, s], exact), (h, s)


def test_a_gridworld_over_400_steps():
    """Atoms far below 1e-308; the laws still sum to 1, the entropies still add up."""
    mdp = ic.examples.gridworld(4, slip=0.2, absorbing=False)
    c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=400)
    p = c.return_law.probabilities
    assert abs(p.value.sum() - 1) <= p.error.sum() + 1e-13
    parts = (c.skill, c.luck, c.noise)
    total = sum(x.value.sum() for x in parts)
    assert abs(total - float(c.return_entropy)) <= sum(x.error.sum() for x in parts) + float(c.return_entropy.error) < 1e-9 * total


def test_subnormals_survive_in_the_kernels():
    tiny = 2.0**-1074
    table, out = np.full(32, tiny), np.zeros(16)
    rows.mix(out, np.int64(0), np.int64(16), table, np.array([0, 16]), np.int64(0), np.array([1.0, 1.0]), np.int64(0), np.int64(2))
    assert (out == 2 * tiny).all()
    mdp, _ = rare_coin(20, 53)
    p = ic.return_law(mdp, np.ones((1, 1)), horizon=53, engine="lattice").law().probabilities
    assert p.value[53] == 2.0**-1060


# ---- what Bounded prints and what it turns into


def rounds_to(text, number):
    """Whether the text is the number rounded to the text's last place (either way at a half)."""
    mantissa, _, exponent = text.partition("e")
    places = len(mantissa.partition(".")[2])
    unit = F(10) ** (int(exponent or 0) - places)
    return abs(F(text) - number) <= unit / 2


finite = st.floats(min_value=-1e200, max_value=1e200).filter(lambda x: x == 0 or abs(x) > 1e-200)


@settings(derandomize=True, deadline=None, max_examples=600)
@given(finite, st.one_of(st.floats(-18, 2).map(lambda x: 10.0**x), st.just(0.0)), st.floats(0, 1))
def test_printed_digits_are_sure(value, relative, part):
    error = abs(value) * relative
    text = sure_digits(value, error)
    if "+-" in text:
        assert relative > 1e-13
        return
    numbers = [F(value), F(value) - F(error), F(value) + F(error), F(value) + F(error) * F(part), F(value) - F(error) * F(part)]
    assert all(rounds_to(text, x) for x in numbers), (text, value, error)
    if error == 0 and value:
        assert float(text) == value
    if value and 0 < relative < 1e-14:
        assert len(text.replace(".", "").replace("-", "").partition("e")[0].lstrip("0")) >= 12


@settings(derandomize=True, deadline=None, max_examples=300)
@given(finite.filter(bool), st.floats(-2, 2).map(lambda x: 10.0**x))
def test_printed_intervals_hold_all_that_the_number_may_be(value, relative):
    """Where no digit is sure the text is a +- b, and the number lies in that."""
    error = abs(value) * relative
    middle, plus, half = sure_digits(value, error).partition(" +- ")
    if plus:
        assert F(middle) - F(half) <= F(value) - F(error) and F(value) + F(error) <= F(middle) + F(half)


@pytest.mark.parametrize("value, error, text", [
    (0.0, 0.0, "0"), (2.0, 0.0, "2"), (0.1, 0.0, "0.1"), (inf, 0.0, "inf"), (-inf, 1.0, "-inf"), (nan, 0.0, "nan"), (0.0, 1e-30, "0 +- 1.1e-30"),
    (1.0, inf, "1 +- inf"), (0.0139397962, 3e-9, "0.0139398"), (-0.25, 1e-3, "-0.25"), (123456.0, 40.0, "1.235e+05"),
])  # fmt: skip
def test_printed_forms(value, error, text):
    found = sure_digits(value, error)
    if value == 123456.0:
        assert rounds_to(found, F(123456) - 40) and rounds_to(found, F(123456) + 40)
    else:
        assert found == text
    assert str(ic.Bounded(value, error)) == found


def test_bounded_numbers_and_arrays():
    x = ic.Bounded([[0.25, 1.0], [0.0, -2.0]], [[1e-12, 0.0], [1e-30, 0.5]])
    assert repr(x) == "Bounded([[0.25000000000 1]\n [0 +- 1.1e-30 -2]])" or "0 +- 1.1e-30" in repr(x)
    assert x.shape == (2, 2) and x.ndim == 2 and len(x) == 2 and x.dtype == np.float64
    assert (np.asarray(x) == x.value).all() and np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.array(x, copy=True) is not x.value and np.sum(x) == -0.75
    assert float(x[1, 1]) == -2.0 and x[0].error.tolist() == [1e-12, 0.0]
    assert [float(y.error) for y in x[1]] == [1e-30, 0.5]
    assert x.lower[0, 1] == x.upper[0, 1] == 1.0
    for v, e, low, high in zip(x.value.ravel(), x.error.ravel(), x.lower.ravel(), x.upper.ravel()):
        assert F(float(low)) <= F(float(v)) - F(float(e)) and F(float(v)) + F(float(e)) <= F(float(high))
    with pytest.raises(ValueError):
        x.value[0, 0] = 1.0
    with pytest.raises(ValueError):
        x.error[0, 0] = 1.0
    with pytest.raises(TypeError, match="=="):
        x == 1.0  # noqa: B015
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(TypeError):
        float(x)
    again = pickle.loads(pickle.dumps(x))
    assert (again.value == x.value).all() and (again.error == x.error).all()
    for bad in (-1.0, nan):
        with pytest.raises(ValueError, match="error bound"):
            ic.Bounded(1.0, bad)
    given_ = np.ones(3)
    y = ic.Bounded(given_, 0.5)
    given_[0] = 9.0
    assert y.value.tolist() == [1.0, 1.0, 1.0] and y.error.tolist() == [0.5] * 3


def test_bounded_with_a_relative_error():
    x = ic.Bounded.relative(np.array([[1.0, -2.0], [0.0, 4.0]]), np.array([[0.5], [0.25]]))
    assert x.error.tolist() == [[0.5, 1.0], [0.0, 1.0]]
    assert x[1].error.tolist() == [0.0, 1.0] and float(x[0, 1].error) == 1.0
    assert x[:, 1].error.tolist() == [1.0, 1.0]
    assert repr(x)


def test_long_arrays_print_their_ends():
    x = ic.Bounded(np.arange(5000.0), 0.0)
    assert "..." in repr(x) and repr(x).startswith("Bounded([0 1 2 ") and repr(x).endswith(" 4997 4998 4999])")
