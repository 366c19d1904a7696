"""Pooled information sparsity (S3) against the naive twin."""

from fractions import Fraction

import models
import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from test_against_oracle import Referee, engines, load

import icexact as ic


def compare(check, problem, read_as=None):
    model, policy, H, gamma = problem
    mdp, table = load(model, policy, H)
    exact = oracle.Oracle(*(read_as or (model, policy)), H, gamma)
    for engine in engines(gamma):
        found = ic.information_sparsity(mdp, table, horizon=H, discount=gamma, engine=engine, pooled=True)
        check(found.pooled, exact.pooled_information, "pooled", engine)
        assert found.pooled.value >= 0
        if H and all(row == policy[0] for row in policy):
            assert found.pooled.lower <= found.per_step.upper.sum() / H * (1 + 1e-12)
            assert found.pooled.lower <= found.value.upper


def test_bulk():
    check = Referee()
    for seed in range(400):
        problem = models.problem(seed, limit=400)
        try:
            compare(check, problem)
            if seed % 5 == 0:
                model, policy, *_ = problem
                compare(check, problem, (models.rounded(model), models.rounded_policy(model, policy)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert check.count > 900, check.count
    assert np.median(check.relative) < 1e-11


@settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(models.problems(limit=300))
def test_drawn_problems(problem):
    compare(Referee(), problem)


@pytest.mark.parametrize("path", [("lattice.WORK", 1), ("pooled.WIDE", 1), ("support.WIDE", 1), ("support.SMALL", 0)])
def test_paths_that_small_models_do_not_take(path, monkeypatch):
    monkeypatch.setattr(f"icexact.{path[0]}", path[1])
    for seed in range(1000, 1020):
        compare(Referee(), models.problem(seed, limit=400))


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_values_of_different_steps_that_meet(engine):
    """No episode ends and every reward is positive, so the lattice of each step begins elsewhere: 3 of one step is 1 + 2 of another."""
    half, third = Fraction(1, 2), Fraction(1, 3)
    for rewards in ((1, 2, 3), (2, 5, 7), (Fraction(1, 3), Fraction(1, 2), 1), (-1, -2, -7)):
        branches = [(0, 0, third, 1, rewards[0], False), (0, 0, 1 - third, 0, rewards[1], False), (0, 1, Fraction(1), 1, rewards[2], False), (1, 0, half, 0, rewards[1], False), (1, 0, half, 1, rewards[0], False), (1, 1, Fraction(1), 0, rewards[0], False)]
        model = oracle.Model(2, tuple((s, a, p, t, Fraction(r), e) for s, a, p, t, r, e in branches), (third, 1 - third))
        policy = models.uniform(model, 4)
        exact = oracle.Oracle(model, policy, 4)
        found = ic.information_sparsity(*load(model, policy, 4), horizon=4, pooled=True, engine=engine)
        Referee()(found.pooled, exact.pooled_information)
        assert found.pooled.error < 1e-12


def test_a_clock_in_the_policy():
    """Step 0 plays action 0, step 1 action 1, and the return tells the step: without a clock it tells the action."""
    mdp = ic.MDP.from_branches([0, 0], [0, 1], [1, 1], [0, 0], [1, 1], n_states=1, initial=0)
    found = ic.information_sparsity(mdp, [[1.0, 0.0], [0.0, 1.0]], horizon=2, base=2, pooled=True)
    assert abs(float(found.pooled) - 1) <= found.pooled.error < 1e-12 and float(found.value) == 0.0
    assert "without a clock" in repr(found)


def test_the_end_has_its_share_of_the_draws():
    """One step that tells all, then the end: of 4 draws one is alive."""
    mdp = ic.examples.two_arms()
    found = ic.information_sparsity(mdp, ic.policies.uniform(mdp), horizon=4, base=2, pooled=True)
    assert abs(float(found.value) - 1) <= found.value.error and abs(float(found.pooled) - 0.25) <= found.pooled.error < 1e-12


def test_no_step_budget_and_none():
    mdp = ic.examples.gridworld(10, cell_rewards=np.arange(100) % 7)
    policy = ic.policies.uniform(mdp)
    none = ic.information_sparsity(mdp, policy, horizon=0, pooled=True)
    assert float(none.pooled) == 0.0 == none.pooled.error
    assert ic.information_sparsity(mdp, policy, horizon=2).pooled is None
    with pytest.raises(ic.BudgetError, match="pooled laws of the pairs for a horizon of 40 need .* a horizon of [1-9][0-9]* would fit"):
        ic.information_sparsity(mdp, policy, horizon=40, pooled=True, budget=900_000)
    with pytest.raises(ic.BudgetError, match="pooled laws"):
        ic.information_sparsity(mdp, policy, horizon=7, discount="9/10", pooled=True, budget=1_500_000)


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_where_products_underflow(engine):
    tiny = Fraction(1, 10**200)
    branches = [(0, 0, tiny, 1, 1), (0, 0, 1 - tiny, 0, 0), (0, 1, 1, 0, 0), (1, 0, tiny, 1, 5), (1, 0, 1 - tiny, 1, 0), (1, 1, 1, 1, 0)]
    model = oracle.Model(2, tuple((s, a, Fraction(p), t, Fraction(r), False) for s, a, p, t, r in branches), (Fraction(1), Fraction(0)))
    policy = models.uniform(model, 3)
    found = ic.information_sparsity(*load(model, policy, 3), horizon=3, pooled=True, engine=engine).pooled
    Referee()(found, oracle.Oracle(model, policy, 3).pooled_information)
    assert 0 < float(found) < 1e-190 and found.error < 1e-26


def test_saved_and_read_back(tmp_path):
    mdp = ic.examples.gridworld(3)
    found = ic.information_sparsity(mdp, ic.policies.uniform(mdp), horizon=5, pooled=True)
    found.save(tmp_path / "x.npz")
    again = ic.load(tmp_path / "x.npz")
    assert float(again.pooled) == float(found.pooled) > 0 and again.pooled.error == found.pooled.error
