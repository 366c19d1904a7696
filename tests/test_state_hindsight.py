"""State-conditional hindsight (C5) against the naive twin, and what it must refuse."""

from fractions import Fraction

import models
import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from test_against_oracle import Referee, acting, load

import icexact as ic

F = Fraction


def compare(check, problem, read_as=None):
    model, policy, H, _ = problem
    mdp, table = load(model, policy, H)
    exact = oracle.Oracle(*(read_as or (model, policy)), H)
    found = ic.state_hindsight(mdp, table, horizon=H)
    for s, actions in acting(mdp):
        assert found.actions(s).tolist() == actions
        for h in range(H):
            for k in range(1, H - h):
                states, laws = found.law(h, s, k)
                expected = exact.state_hindsight(h, s, k)
                assert states.tolist() == [mdp.n_states if y == oracle.END else y for y in expected]
                for i, law in enumerate(expected.values()):
                    check.each(laws[i], [law[a] for a in actions], h, s, k, i)
                    # what is certain is said without an error
                    if max(law.values()) == 1:
                        assert (laws[i].error == 0).all()


def test_bulk():
    check = Referee()
    for seed in range(250):
        problem = models.problem(seed, limit=1000)
        try:
            compare(check, problem)
            if seed % 5 == 0:
                model, policy, *_ = problem
                compare(check, problem, (models.rounded(model), models.rounded_policy(model, policy)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert check.count > 10_000, check.count
    assert np.median(check.relative) < 1e-14


@settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(models.problems(limit=500))
def test_drawn_problems(problem):
    compare(Referee(), problem)


def test_where_products_underflow():
    """Two ways to one state, of probabilities far below the range of float64: nothing is known then, and that is said."""
    tiny = 1e-200
    branches = [(0, 0, 0.5, 1), (0, 0, 0.5, 2), (0, 1, 1.0, 1), (1, 0, tiny, 3), (1, 0, 1 - tiny, 2), (2, 0, 1.0, 2), (3, 0, tiny, 4), (3, 0, 1 - tiny, 2), (4, 0, 1.0, 4)]
    s, a, p, t = map(list, zip(*branches))
    mdp = ic.MDP.from_branches(s, a, p, t, [0] * len(s), n_states=5, initial=0)
    found = ic.state_hindsight(mdp, ic.policies.uniform(mdp), horizon=5)
    states, table = found.law(0, 0, 3)
    assert states.tolist() == [2, 4]
    exact = [[F(2, 3) * 0, 0], [F(1, 3), F(2, 3)]]
    ends = (F(tiny) / (F(tiny) + F(1 - tiny))) ** 2
    exact[0] = [(1 - ends / 2) / (2 - ends * F(3, 2)), (1 - ends) / (2 - ends * F(3, 2))]
    for i in range(2):
        for j in range(2):
            assert oracle.within(table.value[i, j], table.error[i, j], exact[i][j])
    assert table.error[1].tolist() == [1, 1] and (table.error[0] < 1e-14).all()


def test_refusals():
    mdp = ic.examples.shortcut()
    found = ic.state_hindsight(mdp, ic.policies.uniform(mdp), horizon=4)
    for h, k, what in [(0, 0, "k is 0; it must be an integer >= 1"), (-1, 1, "h is -1"), (0, True, "k is True"), (2, 2, "k up to 1 at h = 2"), (3, 1, "longer horizon"), (0.0, 1, "h is 0.0")]:
        with pytest.raises(ValueError, match=what):
            found.law(h, 0, k)
    with pytest.raises(ValueError, match="terminal"):
        found.law(0, 4, 1)
    with pytest.raises(ic.ModelError, match="state 9"):
        found.law(0, 9, 1)
    none = ic.state_hindsight(mdp, ic.policies.uniform(mdp), horizon=0)
    with pytest.raises(ValueError, match="horizon of 0"):
        none.law(0, 0, 1)
    assert "0 steps" in repr(none)


def test_saved_and_read_back(tmp_path):
    mdp = ic.examples.gridworld(4)
    found = ic.state_hindsight(mdp, ic.policies.uniform(mdp), horizon=6)
    found.save(tmp_path / "x.npz")
    again = ic.load(tmp_path / "x.npz")
    for h, s, k in [(0, 0, 1), (1, 5, 4)]:
        (y, a), (z, b) = found.law(h, s, k), again.law(h, s, k)
        assert y.tolist() == z.tolist() and a.value.tolist() == b.value.tolist() and a.error.tolist() == b.error.tolist()
