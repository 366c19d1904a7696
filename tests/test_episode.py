"""The return seen from inside the episode (R3) against the naive twin."""

import models
import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from test_against_oracle import Referee, acting, engines, load

import icexact as ic


def compare(check, problem, read_as=None):
    model, policy, H, gamma = problem
    mdp, table = load(model, policy, H)
    exact = oracle.Oracle(*(read_as or (model, policy)), H, gamma)
    skill = ic.credit(mdp, table, horizon=H, discount=gamma).skill
    occupied = exact.occupancy[0]
    for engine in engines(gamma):
        found = ic.episode_return(mdp, table, horizon=H, discount=gamma, engine=engine)
        check.each(found.information, exact.episode_information, "I(A;Z|S)", engine)
        assert (found.information.value >= 0).all() and (found.information.lower <= skill.upper).all()
        check.law(found.law(), exact.return_law, "Z", engine)
        for s, actions in acting(mdp):
            for h in range(H):
                if not occupied[h][s]:
                    with pytest.raises(ValueError, match=f"state {s} cannot be occupied at step {h}"):
                        found.past_law(h, s)
                    continue
                check.law(found.past_law(h, s), exact.past_law(h, s), "past", engine, h, s)
                check.law(found.state_law(h, s), exact.episode_state_law(h, s), "state", engine, h, s)
                for a in actions:
                    check.law(found.pair_law(h, s, a), exact.episode_pair_law(h, s, a), "pair", engine, h, s, a)


def test_bulk():
    check = Referee()
    for seed in range(200):
        problem = models.problem(seed, limit=600)
        try:
            compare(check, problem)
            if seed % 5 == 0:
                model, policy, *_ = problem
                compare(check, problem, (models.rounded(model), models.rounded_policy(model, policy)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert check.count > 20_000, check.count
    assert np.median(check.relative) < 1e-12


@settings(derandomize=True, deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(models.problems(limit=300))
def test_drawn_problems(problem):
    compare(Referee(), problem)


@pytest.mark.parametrize("path", [("episode.WORK", 1), ("episode.WIDE", 1)])
def test_paths_that_small_models_do_not_take(path, monkeypatch):
    monkeypatch.setattr(f"icexact.{path[0]}", path[1])
    for seed in range(1000, 1012):
        compare(Referee(), models.problem(seed, limit=600))


def test_the_past_can_hide_what_the_action_did():
    """A fair coin of +-1 first, then an action worth +-1: of the sum an observer learns half a bit, of the return-to-go one."""
    branches = [(0, 0, 0.5, 1, r) for r in (-1, 1)] + [(1, a, 1.0, 1, 2 * a - 1) for a in (0, 1)]
    s, a, p, t, r = map(list, zip(*branches))
    mdp = ic.MDP.from_branches(s, a, p, t, r, [False, False, True, True], n_states=2, initial=0)
    policy = ic.policies.uniform(mdp)
    found = ic.episode_return(mdp, policy, horizon=2, base=2)
    assert abs(float(found.information[1]) - 0.5) <= found.information.error[1] < 1e-12
    assert abs(float(ic.credit(mdp, policy, horizon=2, base=2).skill[1]) - 1) < 1e-12


@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_where_products_underflow(engine):
    """Probabilities of 1e-200 on the way: the atoms are there, and what is not known of them is said."""
    tiny = 1e-200
    branches = [(0, 0, tiny, 1, 1), (0, 0, 1 - tiny, 0, 0), (1, 0, tiny, 2, 1), (1, 0, 1 - tiny, 1, 0), (2, 0, 0.25, 2, 1), (2, 0, 0.75, 2, 0), (2, 1, 1.0, 2, 5)]
    s, a, p, t, r = map(list, zip(*branches))
    mdp = ic.MDP.from_branches(s, a, p, t, r, n_states=3, initial=0)
    found = ic.episode_return(mdp, ic.policies.uniform(mdp), horizon=4, engine=engine)
    law = found.past_law(3, 2)
    assert law.values.tolist() == [2, 3, 7] and (law.probabilities.error == 1).all()
    assert found.past_law(2, 2).probabilities.value.tolist() == [1] and found.past_law(2, 2).probabilities.error.tolist() == [0]
    whole = found.state_law(3, 2)
    assert whole.values.tolist() == [2, 3, 4, 7, 8, 12] and (whole.probabilities.error == 1).all()
    law = found.past_law(2, 1)
    assert law.values.tolist() == [1] and (found.information.value < 1e-300).all() and (found.information.error < 1e-200).all()


def test_no_step_refusals_and_budget():
    mdp = ic.examples.gridworld(5)
    policy = ic.policies.uniform(mdp)
    none = ic.episode_return(mdp, policy, horizon=0)
    assert none.information.shape == (0,) and none.law().values.tolist() == [0] and repr(none)
    with pytest.raises(ValueError, match="step 0 is not in"):
        none.state_law(0, 0)
    found = ic.episode_return(mdp, policy, horizon=4)
    assert repr(found)
    with pytest.raises(ValueError, match="state 23 cannot be occupied at step 3"):
        found.pair_law(3, 23, 0)
    with pytest.raises(ValueError, match="step 4 is not in"):
        found.past_law(4, 0)
    with pytest.raises(ic.ModelError, match="action 7"):
        found.pair_law(0, 0, 7)
    walk = ic.examples.gridworld(10, cell_rewards=np.arange(100) % 7)
    with pytest.raises(ic.BudgetError, match="a horizon of [1-9][0-9]* would fit"):
        ic.episode_return(walk, ic.policies.uniform(walk), horizon=40, budget="1 MB")
    with pytest.raises(ic.BudgetError):
        ic.episode_return(walk, ic.policies.uniform(walk), horizon=9, discount="9/10", budget="100 kB")


@pytest.mark.parametrize("gamma", [1, "9/10"])
def test_saved_and_read_back(gamma, tmp_path):
    mdp = ic.examples.gridworld(3)
    found = ic.episode_return(mdp, ic.policies.uniform(mdp), horizon=5, discount=gamma)
    found.save(tmp_path / "x.npz")
    again = ic.load(tmp_path / "x.npz")
    assert found.information.value.tolist() == again.information.value.tolist()
    for a, b in ((found.state_law(3, 4), again.state_law(3, 4)), (found.past_law(3, 4), again.past_law(3, 4)), (found.pair_law(3, 4, 1), again.pair_law(3, 4, 1))):
        assert a.values.tolist() == b.values.tolist() and a.probabilities.error.tolist() == b.probabilities.error.tolist()
