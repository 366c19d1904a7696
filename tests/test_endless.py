"""Information sparsity without horizon (S4): against the naive twin where episodes are short, against independent brackets and closed forms where they are not."""

from fractions import Fraction

import models
import numpy as np
import oracle
import pytest
from test_against_oracle import Referee, engines

import icexact as ic

F = Fraction
MP = oracle.MP


def read(model, policy):
    args, kwargs = models.columns(model)
    return ic.MDP.from_branches(*args, **kwargs), models.policy_table(model, [policy], 1)[0]


def short(seed):
    """A model in which every episode stops earning within S steps: no branch leads back. With a discount some go to a state of two actions that earns nothing and never ends."""
    model, policy, gamma = models.stationary_problem(seed)
    n, rest = model.n_states, gamma < 1 and seed % 2
    branches = []
    for s, a, p, t, r, end in model.branches:
        back = not end and t <= s
        branches.append((s, a, p, n if back and rest else t, r, end or (back and not rest)))
    if rest:
        branches += [(n, a, F(1), n, F(0), False) for a in (0, 1)]
        policy = policy | {(n, 0): F(1, 3), (n, 1): F(2, 3)}
        model = oracle.Model(n + 1, tuple(branches), (*model.initial, F(0)))
    else:
        model = oracle.Model(n, tuple(branches), model.initial)
    return model, policy, gamma


def test_bulk():
    check, there = Referee(), 0
    for seed in range(500):
        model, policy, gamma = short(seed)
        exact = oracle.stationary_sparsity(model, policy, gamma, model.n_states)
        for engine in engines(gamma):
            found = ic.information_sparsity(*read(model, policy), horizon=None, discount=gamma, engine=engine)
            check(found.value, exact, seed, engine)
            assert found.per_step is None and found.pooled is None and repr(found)
            assert found.value.value >= 0 and found.value.error <= 1e-9 and found.value.lower <= found.policy_entropy.upper
        there += exact > 0
    assert there > 120 and check.count > 1000


def bracket(model, policy, gamma, steps):
    """The ends of (S4) from laws of "the return, or not over yet" in 80 digits: J - h(eps) <= I <= J + eps ln|A|, one state after the other."""
    state, _ = oracle.discounted_occupancy(model, policy, gamma) if gamma < 1 else oracle.expected_visits(model, policy)
    number = lambda x: MP.mpf(x.numerator) / x.denominator
    done = {oracle.END: {F(0): MP.one}}
    laws = {s: {"alive": MP.one} for s in range(model.n_states)}
    low = high = MP.zero

    def pair(s, a):
        out = {}
        for p, t, r in model.outcomes[s, a]:
            for z, q in (done | laws)[t].items():
                key = z if z == "alive" else r + gamma * z
                out[key] = out.get(key, MP.zero) + number(p) * q
        return out

    for k in range(steps):
        last = k == steps - 1
        new = {}
        for s, actions in model.actions.items():
            rows = {a: pair(s, a) for a in actions if policy[s, a]}
            law = {}
            for a, row in rows.items():
                for z, q in row.items():
                    law[z] = law.get(z, MP.zero) + number(policy[s, a]) * q
            new[s] = law
            if last and state[s]:
                J = sum((number(policy[s, a]) * q * MP.log(q / law[z]) for a, row in rows.items() for z, q in row.items()), MP.zero)
                e = law.get("alive", MP.zero)
                h = -e * MP.log(e) - (1 - e) * MP.log(1 - e) if e else MP.zero
                low += number(state[s]) * max(J - h, MP.zero)
                high += number(state[s]) * (J + e * MP.log(len(rows)))
        laws = new
    mass = number(sum(state.values()))
    return low / mass, high / mass


@pytest.mark.parametrize("seed", range(12))
def test_episodes_of_any_length(seed):
    """Every step ends the episode with probability 2/3 or more, so 60 steps leave 1e-29 to the bracket."""
    model, policy, gamma = models.stationary_problem(seed)
    branches = []
    for s, a, p, t, r, _ in model.branches:
        branches += [(s, a, p / 3, t, r, False), (s, a, p * 2 / 3, t, r, True)] if model.actions[t] else [(s, a, p, t, r, True)]
    model = oracle.Model(model.n_states, tuple(branches), model.initial)
    if gamma < 1:
        # one nonzero reward at most, so that atoms stay few at any discount: the others are paid by branches that end
        model = oracle.Model(model.n_states, tuple((s, a, p, t, r if end else F(0), end) for s, a, p, t, r, end in branches), model.initial)
    low, high = bracket(model, policy, gamma, 60)
    assert high - low < 1e-26
    for engine in engines(gamma):
        for tolerance in (1e-9, 1e-4):
            found = ic.information_sparsity(*read(model, policy), discount=gamma, engine=engine, tolerance=tolerance).value
            assert found.error <= tolerance
            # the truth lies in both intervals
            assert MP.mpf(float(found.value)) - MP.mpf(float(found.error)) <= high and low <= MP.mpf(float(found.value)) + MP.mpf(float(found.error))


def arms(p, q, r=1, gamma=1):
    """One state: action 0 goes on with probability p, action 1 with q, and each step pays r."""
    branches = [(0, a, x, 0, r, end) for a, go in ((0, p), (1, q)) for x, end in ((go, False), (1 - go, True))]
    s, a, x, t, r, end = map(list, zip(*branches))
    return ic.MDP.from_branches(s, a, x, t, r, end, n_states=1, initial=0)


@pytest.mark.parametrize("engine", [None, "lattice", "keys"])
def test_closed_form(engine):
    """Actions of half each that go on with 1/2 and 1/4. G = 1 tells nothing of what follows: P(G = 1 | a) = 1 - p_a, and beyond it the factor is p_a alone."""
    mdp = arms(0.5, 0.25)
    exact = sum(MP.mpf(x) / 2 * MP.log(MP.mpf(x) / MP.mpf(m)) for x, m in ((0.5, 0.625), (0.75, 0.625), (0.5, 0.375), (0.25, 0.375)))
    for tolerance in (1e-3, 1e-9, 1e-12):
        found = ic.information_sparsity(mdp, [0.5, 0.5], tolerance=tolerance, engine=engine)
        assert oracle.within(found.value.value, found.value.error, exact) and found.value.error <= tolerance
    assert abs(float(found.alive) - 1 / 0.625) <= found.alive.error
    assert abs(float(found.policy_entropy) - np.log(2)) <= found.policy_entropy.error < 1e-12
    bits = ic.information_sparsity(mdp, [0.5, 0.5], base=2, engine=engine).value
    assert oracle.within(bits.value, bits.error, exact / MP.log(2))


def test_the_bracket_is_needed():
    """What is cut off is paid for: a coarse tolerance is used up, so the steps are no more than it takes."""
    found = ic.information_sparsity(arms(0.75, 0.5), [0.5, 0.5], tolerance=1e-3).value
    assert 1e-4 < found.error <= 1e-3


def test_actions_where_nothing_is_earned():
    """A loop without rewards tells nothing of the return and never ends: with a discount that is a mass in the denominator."""
    branches = [(0, 0, 1.0, 1, 1), (0, 1, 1.0, 1, 0), (1, 0, 1.0, 1, 0), (1, 1, 1.0, 1, 0)]
    s, a, p, t, r = map(list, zip(*branches))
    mdp = ic.MDP.from_branches(s, a, p, t, r, n_states=2, initial=0)
    found = ic.information_sparsity(mdp, ic.policies.uniform(mdp), discount="9/10", base=2)
    assert abs(float(found.value) - 0.1) <= found.value.error < 1e-12 and abs(float(found.alive) - 1) <= found.alive.error
    with pytest.raises(ic.EndingError, match="states 0, 1"):
        ic.information_sparsity(mdp, ic.policies.uniform(mdp))


def test_earning_for_ever():
    branches = [(0, 0, 1.0, 1, 1), (0, 1, 1.0, 2, 0), (1, 0, 0.5, 1, 1), (1, 0, 0.5, 1, 0), (2, 0, 1.0, 2, 0)]
    s, a, p, t, r = map(list, zip(*branches))
    mdp = ic.MDP.from_branches(s, a, p, t, r, n_states=3, initial=0)
    with pytest.raises(ic.EndingError, match="earning for ever from state 1: .* give a horizon"):
        ic.information_sparsity(mdp, ic.policies.uniform(mdp), discount=0.5)
    # who has no choice before it has nothing to tell
    found = ic.information_sparsity(mdp, ic.policies.deterministic(mdp, [0, 0, 0]), discount=0.5)
    assert float(found.value) == 0.0 == found.value.error


def test_refusals():
    mdp = ic.examples.gridworld(4)
    policy = ic.policies.uniform(mdp)
    for more, what in (({"per_pair": True}, "per_pair=True needs a horizon"), ({"pooled": True}, "pooled=True needs a horizon"), ({"tolerance": 0}, "tolerance is 0"), ({"tolerance": "x"}, "tolerance is 'x'")):
        with pytest.raises(ValueError, match=what):
            ic.information_sparsity(mdp, policy, horizon=None, **more)
    with pytest.raises(ic.PolicyError, match="without a horizon"):
        ic.information_sparsity(mdp, np.stack([policy, policy]), horizon=None)
    with pytest.raises(ic.BudgetError, match="followed for [0-9]+ steps .* larger tolerance"):
        ic.information_sparsity(ic.examples.gridworld(4, cell_rewards=-np.ones(16, dtype=int)), policy, budget=200_000)
    with pytest.raises(ic.AccuracyError, match="rounding over .* use tolerance"):
        ic.information_sparsity(arms(0.5, 0.25), [0.5, 0.5], tolerance=1e-17)


def test_steps_that_cannot_be_followed(monkeypatch):
    monkeypatch.setattr("icexact.endless.WORK", 100)
    with pytest.raises(ic.AccuracyError, match="chance that there is still something to earn is .* from state 0"):
        ic.information_sparsity(arms(0.99, 0.98), [0.5, 0.5])


def test_saved_and_read_back(tmp_path):
    mdp = ic.examples.gridworld(3)
    found = ic.information_sparsity(mdp, ic.policies.uniform(mdp))
    found.save(tmp_path / "x.npz")
    again = ic.load(tmp_path / "x.npz")
    assert again.per_step is None and float(again.value) == float(found.value) > 0 and again.horizon is None
