"""Every quantity against the naive twin: each float within its own stated error of the exact one, supports equal.

Two readings of a float table are judged: the rationals that it was rounded from, and the floats' own exact values."""

import inspect
from fractions import Fraction
from importlib import import_module

import models
import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings

import icexact as ic

CHUNK = 50  # seeds in a test
CHUNKS = 11
NUMBERS = 100_000  # compared in one run at least
SIDES = ("left", "right", "gap")
PARTS = ("skill", "luck", "noise")


class Referee:
    """Counts what it compares, and keeps error / |exact| of the answers that are not 0."""

    def __init__(self):
        self.count, self.relative = 0, []

    def __call__(self, answer, exact, *where):
        """One Bounded, or (value, error), against one exact number."""
        value, error = (answer.value, answer.error) if isinstance(answer, ic.Bounded) else answer
        assert oracle.within(value, error, exact), (where, float(value), float(error), exact)
        self.count += 1
        size = abs(float(exact))
        if 0 < size < float("inf"):
            self.relative.append(float(error) / size)

    def each(self, answer, exact, *where):
        """A Bounded [N] against N exact numbers."""
        assert answer.shape == (len(exact),), (where, answer.shape, len(exact))
        for i, (v, e, x) in enumerate(zip(answer.value, answer.error, exact)):
            self((v, e), x, *where, i)

    def law(self, law, exact, *where):
        """A law: the same support, correctly rounded, and each probability."""
        assert law.values.tolist() == [float(z) for z in exact], (where, "support", law.values, list(exact))
        self.each(law.probabilities, list(exact.values()), *where)


def load(model, policy, H):
    args, kwargs = models.columns(model)
    return ic.MDP.from_branches(*args, **kwargs), models.policy_table(model, policy, H)


def acting(mdp):
    """(s, its actions) of every state that has any."""
    for s in range(mdp.n_states):
        actions = mdp.pair_action[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]].tolist()
        if actions:
            yield s, actions


def engines(gamma):
    return (None, "lattice", "keys") if gamma == 1 else (None, "keys")


def compare_occupancy(check, mdp, table, H, exact):
    found = ic.occupancy(mdp, table, horizon=H)
    state, pair, alive = exact.occupancy
    assert found.state.shape == (H, mdp.n_states) and found.pair.shape == (H, mdp.n_pairs)
    check.each(found.alive, alive, "alive")
    for h in range(H):
        check.each(found.state[h], [state[h][s] for s in range(mdp.n_states)], "state", h)
        check.each(found.pair[h], [pair[h][sa] for sa in zip(mdp.pair_state.tolist(), mdp.pair_action.tolist())], "pair", h)


def compare_laws(check, mdp, table, H, gamma, engine, exact):
    found = ic.return_law(mdp, table, horizon=H, discount=gamma, keep="all", engine=engine)
    check.law(found.law(), exact.return_law, "Z", engine)
    assert found.exact_values() == list(exact.return_law)
    check(found.mean(), exact.expected_return, "mean by the law", engine)
    for s, actions in acting(mdp):
        for h in range(H + 1):
            check.law(found.state_law(h, s), exact.state_law(h, s), "state law", engine, h, s)
        for h in range(H):
            for a in actions:
                check.law(found.pair_law(h, s, a), exact.pair_law(h, s, a), "pair law", engine, h, s, a)


def compare_credit(check, mdp, table, H, gamma, engine, exact):
    found = ic.credit(mdp, table, horizon=H, discount=gamma, engine=engine)
    for part in (*PARTS, "total"):
        check.each(getattr(found, part), exact.credit[part], part, engine)
        assert (getattr(found, part).value >= 0).all()
    check(found.return_entropy, exact.return_entropy, "H(Z)", engine)
    check(found.mean, exact.expected_return, "mean", engine)
    check.law(found.return_law, exact.return_law, "credit's law of Z", engine)
    check.each(found.policy_entropy, exact.policy_entropy, "H(A|S)", engine)
    for name in ("proposition_1", "proposition_2"):
        for side in SIDES:
            check.each(getattr(getattr(found, name), side), getattr(exact, name)[side], name, side, engine)
    for part in PARTS:
        check.each(getattr(found.variance, part), exact.variance[part], "variance", part, engine)
    check(found.variance.total, exact.variance["total"], "variance", engine)
    occupied, pair = exact.occupancy[0], exact.occupancy[1]
    skill = [oracle.MP.zero] * mdp.n_states
    for s, actions in acting(mdp):
        for h in range(H):
            if occupied[h][s]:
                for a in actions:
                    if w := pair[h][s, a]:
                        skill[s] += oracle.MP.mpf(w.numerator) / w.denominator * exact.pair_information(h, s, a)
    check.each(found.by_state.skill, skill, "skill by state", engine)


def compare_sparsity(check, mdp, table, H, gamma, engine, exact):
    found = ic.information_sparsity(mdp, table, horizon=H, discount=gamma, engine=engine, per_pair=True)
    check(found.value, exact.information_sparsity, "I(A;Z|S)", engine)
    check.each(found.per_step, exact.action_information, "(S2)", engine)
    check.each(found.policy_entropy, exact.policy_entropy, "H(A|S)", engine)
    pairs = list(zip(mdp.pair_state.tolist(), mdp.pair_action.tolist()))
    for h in range(H):
        check.each(found.per_pair[h], [exact.pair_information(h, *sa) for sa in pairs], "(S1)", engine, h)


def compare_hindsight(check, mdp, table, H, gamma, engine, exact):
    found = ic.hindsight(mdp, table, horizon=H, discount=gamma, engine=engine)
    for s, actions in acting(mdp):
        assert found.actions(s).tolist() == actions
        for h in range(H):
            values, laws = found.law(h, s)
            expected = exact.hindsight(h, s)
            assert values.tolist() == [float(z) for z in expected]
            for i, z in enumerate(expected):
                check.each(laws[i], [expected[z][a] for a in actions], "hindsight", engine, h, s, z)


def compare(check, problem, read_as=None):
    """All of it, on every engine; `read_as`: (model, policy) that the oracle takes for the same floats."""
    model, policy, H, gamma = problem
    mdp, table = load(model, policy, H)
    exact = oracle.Oracle(*(read_as or (model, policy)), H, gamma)
    compare_occupancy(check, mdp, table, H, exact)
    for engine in engines(gamma):
        for one in (compare_laws, compare_credit, compare_sparsity, compare_hindsight):
            one(check, mdp, table, H, gamma, engine, exact)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_bulk(chunk):
    """Each chunk does its share of the 1e5 numbers, and its errors are useful."""
    check = Referee()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        problem = models.problem(seed, limit=1500)
        try:
            compare(check, problem)
            if seed % 5 == 0:
                model, policy, *_ = problem
                compare(check, problem, (models.rounded(model), models.rounded_policy(model, policy)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert check.count >= NUMBERS / CHUNKS, check.count
    assert np.median(check.relative) < 1e-12


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)

PATHS = {
    "one table with a gap": [("support.SMALL", 0)],
    "one state in a kernel call": [("lattice.WORK", 1), ("mdp.CHUNK", 1)],
    "one state in a kernel call, one table": [("lattice.WORK", 1), ("support.SMALL", 0)],
    "codes searched": [("keys._DENSE", 0)],
    "entropies wherever they will do": [("backward.SMALL", 0), ("backward.TAU", 1e-3), ("backward.SMALL_TAU", 1e-3)],
    "divergences everywhere": [("backward.TAU", 0.0), ("backward.SMALL_TAU", 0.0)],
    "wide keys": [("support.WIDE", 1)],
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_small_models_do_not_take(path, monkeypatch):
    """What is left to large models by a threshold is taken by small ones here."""
    for name, value in PATHS[path]:
        module, _, attribute = name.partition(".")
        monkeypatch.setattr(import_module(f"icexact.{module}"), attribute, value)
    for seed in range(1000, 1025):
        compare(Referee(), models.problem(seed, limit=1500))
    # each state pays its own reward, so few of the pairs of reward and later return occur
    n = 15
    branches = [(s, a, HALF, (s + d) % n, Fraction(s * s), False) for s in range(n) for a in (0, 1) for d in (1, 2 + a)]
    model = oracle.Model(n, tuple(branches), (Fraction(1, n),) * n)
    for gamma in (1, HALF, Fraction(99, 100)):
        compare(Referee(), (model, models.uniform(model, 3), 3, gamma))


@pytest.mark.parametrize("rare", [Fraction(1, 10), Fraction(1, 10**4), Fraction(1, 10**9)])
def test_laws_that_are_nearly_certain(rare, monkeypatch):
    """Their entropies are told by what is not their largest atom, so that differences of them do without divergences: the errors are small against the values."""
    monkeypatch.setattr("icexact.backward.SMALL", 0)
    check, used = Referee(), 0
    for seed in range(3000, 3040):
        model, policy, H, _ = models.problem(seed, limit=1500)
        branches = []
        for s, a in model.pairs:
            own = [b for b in model.branches if b[:2] == (s, a)]
            for i, (_, _, p, t, r, end) in enumerate(own):
                # a late first one too, and a reward of its own now and then
                share = rare / len(own) if i != s % len(own) else 1 - rare * Fraction(len(own) - 1, len(own))
                branches.append((s, a, share, t, Fraction(seed % 3 == 0) * r + (i != s % len(own)), end))
        model = oracle.Model(model.n_states, tuple(branches), model.initial)
        H = min(H, models.horizon_within(model, H, 1500))
        mdp, table = load(model, policy, H)
        exact = oracle.Oracle(model, policy, H)
        compare_credit(check, mdp, table, H, 1, "lattice", exact)
        found = ic.credit(mdp, table, horizon=H, engine="lattice").by_state.skill
        used += int(((found.value > 0) & (found.error < 1e-6 * found.value)).sum())
    assert used > 20, used


def guard(monkeypatch):
    """Check the room of each lattice kernel call before it is made: compiled code would write beyond it and say nothing."""
    kernel = import_module("icexact.kernels.lattice").credit_step
    names = list(inspect.signature(getattr(kernel, "py_func", kernel)).parameters)

    def checked(*given):
        x = dict(zip(names, given))
        for s in x["states"][x["begin"] : x["end"]]:
            actions = range(x["pair_ptr"][s], x["pair_ptr"][s + 1])
            lows, highs = [], []
            for k in actions:
                for b in range(x["group_branch"][x["group_ptr"][k]], x["group_branch"][x["group_ptr"][k + 1]]):
                    if x["policy"][k] > 0:
                        t = x["slots"] if x["successor"][b] == x["n_states"] else (x["successor"][b] + x["base"]) % x["slots"]
                        lows.append(x["low"][t] + x["shift"][b])
                        highs.append(x["high"][t] + x["shift"][b])
            assert not lows or len(x["scratch"]) >= (len(actions) + 1) * (max(highs) - min(lows) + 1), (len(x["scratch"]), min(lows), max(highs))
        return kernel(*given)

    monkeypatch.setattr("icexact.kernels.lattice.credit_step", checked)


def test_first_states_whose_returns_are_far_apart(monkeypatch):
    """The law of Z can be wider than that of any state, and needs room for it."""
    guard(monkeypatch)
    pays = [(s, 0, HALF, s, Fraction(r), False) for s, base in ((0, 0), (1, 5000)) for r in (base, base + 1)]
    model = oracle.Model(2, tuple(pays), (HALF, HALF))
    policy = models.uniform(model, 2)
    compare_credit(Referee(), *load(model, policy, 2), 2, 1, "lattice", oracle.Oracle(model, policy, 2))


@pytest.mark.parametrize("small", [0, None])
def test_windows_far_apart_that_move(small, monkeypatch):
    """Rewards that differ from state to state by more than a block of 16: rows move over what other rows left, up and down."""
    guard(monkeypatch)
    if small is not None:
        monkeypatch.setattr("icexact.support.SMALL", small)
    for seed in range(2000, 2030):
        model, policy, H, _ = models.problem(seed, limit=1500)
        away = [(-20, 35, 0, -57)[s % 4] for s in range(model.n_states)]
        branches = tuple((s, a, p, t, Fraction(int(r) + away[s]), end) for s, a, p, t, r, end in model.branches)
        model = oracle.Model(model.n_states, branches, model.initial)
        H = min(H, models.horizon_within(model, H, 1500))
        mdp, table = load(model, policy, H)
        exact = oracle.Oracle(model, policy, H)
        check = Referee()
        for one in (compare_laws, compare_credit, compare_sparsity):
            one(check, mdp, table, H, 1, "lattice", exact)


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(models.problems(limit=600))
def test_drawn_problems(problem):
    compare(Referee(), problem)


@pytest.mark.parametrize("engine", [None, "lattice", "keys"])
def test_examples_of_the_spec(engine):
    check = Referee()
    for model, H in ((models.umbrella(4), 4), (models.shortcut(), 5), (models.delayed_effect(3), 4), (models.two_arms(), 2), (models.coin(), 6)):
        policy = models.uniform(model, H)
        mdp, table = load(model, policy, H)
        exact = oracle.Oracle(model, policy, H)
        for one in (compare_laws, compare_credit, compare_sparsity, compare_hindsight):
            one(check, mdp, table, H, 1, engine, exact)


# ---- tiny informations: two laws that differ by d = 2^-k, so the information is about d^2 / 2


def tiny_skill(d):
    return [(0, a, p, 0, r, True) for a, x in ((0, HALF), (1, HALF + d)) for r, p in ((1, x), (0, 1 - x))], (1,)


def tiny_skill_then_noise(d):
    """The same, and two more rewards after it, that have nothing to do with it and whose probabilities are no floats."""
    branches = [(0, a, p, 1, r, False) for a, x in ((0, HALF), (1, HALF + d)) for r, p in ((1, x), (0, 1 - x))]
    branches += [(s, 0, p, 2, r, s == 2) for s in (1, 2) for r, p in ((0, THIRD), (1, 1 - THIRD))]
    return branches, (1, 0, 0)


def tiny_luck(d):
    """Two first states, and two states that the first step may enter."""
    branches = [(s, 0, HALF, t, 0, False) for s in (0, 1) for t in (2, 3)]
    branches += [(s, 0, p, s, r, True) for s, x in ((2, HALF), (3, HALF + d)) for r, p in ((1, x), (0, 1 - x))]
    branches[0] = (0, 0, HALF + d, 2, 0, False)
    branches[1] = (0, 0, HALF - d, 3, 0, False)
    return branches, (HALF, HALF, 0, 0)


def tiny_noise(d):
    """The second reward makes up for the first but for d."""
    branches = [(0, 0, HALF, 1 + r, r, False) for r in (0, 1)]
    branches += [(1, 0, HALF + d, 1, 1, True), (1, 0, HALF - d, 1, 0, True), (2, 0, HALF, 2, 0, True), (2, 0, HALF, 2, -1, True)]
    return branches, (1, 0, 0)


def tiny_gap(d):
    """(C4): the state that follows tells next to nothing of the reward."""
    branches = [(0, 0, p / 2, s, r, False) for s, x in ((1, HALF), (2, HALF + d)) for r, p in ((1, x), (0, 1 - x))]
    return branches + [(s, 0, 1, s, 0, True) for s in (1, 2)], (1, 0, 0)


@pytest.mark.parametrize("k, about", [(13, 1e-8), (20, 1e-12), (26, 1e-16), (33, 1e-20), (39, 1e-24)])
@pytest.mark.parametrize(
    "build, quantity",
    [
        (tiny_skill, lambda c: c.skill[0]),
        (tiny_skill_then_noise, lambda c: c.skill[0]),
        (tiny_luck, lambda c: c.luck[1]),
        (tiny_noise, lambda c: c.noise[0]),
        (tiny_gap, lambda c: c.proposition_1.gap[0]),
    ],
)
def test_tiny_informations(build, quantity, k, about):
    """Right within the error, positive, and the error below 1e-3 of the value down to 1e-20, below 2e-2 at 1e-24:
    it is a few dozen roundings u over d."""
    d = Fraction(1, 2**k)
    branches, initial = build(d)
    model = oracle.Model(len(initial), tuple((s, a, Fraction(p), t, Fraction(r), end) for s, a, p, t, r, end in branches), tuple(map(Fraction, initial)))
    H = 3
    policy = models.uniform(model, H)
    mdp, table = load(model, policy, H)
    exact = oracle.Oracle(model, policy, H)
    for engine in engines(1):
        c = ic.credit(mdp, table, horizon=H, engine=engine)
        found = quantity(c)
        assert 0 < float(found) < 20 * about
        assert float(found) > about / 20
        assert float(found.error) < (1e-3 if k <= 33 else 2e-2) * float(found), (engine, found.error / found.value)
        check = Referee()
        for one in (compare_credit, compare_sparsity):
            one(check, mdp, table, H, 1, engine, exact)


def test_two_laws_that_differ_by_nothing_carry_nothing():
    """Beside the tiny ones: the same models with d = 0 carry exactly 0."""
    for build, quantity in ((tiny_skill, lambda c: c.skill[0]), (tiny_luck, lambda c: c.luck[1])):
        branches, initial = build(Fraction(0))
        model = oracle.Model(len(initial), tuple((s, a, Fraction(p), t, Fraction(r), end) for s, a, p, t, r, end in branches), tuple(map(Fraction, initial)))
        mdp, table = load(model, models.uniform(model, 2), 2)
        for engine in engines(1):
            assert float(quantity(ic.credit(mdp, table, horizon=2, engine=engine))) == 0.0
