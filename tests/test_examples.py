"""The built-in models: what they are made of. Their information values are tested beside the engine."""

from collections import defaultdict
from fractions import Fraction

import models
import numpy as np
import pytest

from icexact import examples
from icexact.errors import ModelError

F = Fraction


def outcomes(mdp):
    """{(s, a): {(next state, reward, ends): probability}} as the arrays hold it."""
    table = defaultdict(dict)
    for k in range(mdp.n_pairs):
        for b in range(mdp.branch_ptr[k], mdp.branch_ptr[k + 1]):
            key = (int(mdp.next_state[b]), float(mdp.reward[b]), bool(mdp.ends[b]))
            assert key not in table[int(mdp.pair_state[k]), int(mdp.pair_action[k])]
            table[int(mdp.pair_state[k]), int(mdp.pair_action[k])][key] = float(mdp.probability[b])
    return dict(table)


def of_model(model):
    """The same of a model of the naive twin."""
    table = {pair: defaultdict(Fraction) for pair in model.pairs}
    for s, a, p, s_next, r, ends in model.branches:
        if p:
            table[s, a][s_next, float(r), ends] += p
    return {pair: {key: float(p) for key, p in law.items()} for pair, law in table.items()}


def law_of_return(mdp, horizon):
    """Uniform policy, discount 1: {return: probability} over all trajectories, decimals taken exactly."""
    table = outcomes(mdp)
    actions = defaultdict(list)
    for s, a in table:
        actions[s].append(a)
    law, alive = defaultdict(Fraction), {(s, F(0)): F(str(p)) for s, p in enumerate(mdp.initial.tolist()) if p}
    for _ in range(horizon):
        after = defaultdict(Fraction)
        for (s, z), p in alive.items():
            for a in actions[s]:
                for (s_next, r, ends), q in table[s, a].items():
                    share = p * F(str(q)) / len(actions[s])
                    if ends:
                        law[z + F(r)] += share
                    else:
                        after[s_next, z + F(r)] += share
        alive = after
    for (_, z), p in alive.items():
        law[z] += p
    return dict(law)


@pytest.mark.parametrize(
    "mdp, model",
    [
        (examples.umbrella(1), models.umbrella(1)),
        (examples.umbrella(4), models.umbrella(4)),
        (examples.delayed_effect(2), models.delayed_effect(2)),
        (examples.delayed_effect(5), models.delayed_effect(5)),
        (examples.shortcut(), models.shortcut()),
        (examples.two_arms(), models.two_arms()),
        (examples.coin(), models.coin()),
    ],
    ids=lambda x: getattr(x, "source", {}).get("name", "twin"),
)
def test_examples_are_those_of_the_naive_twin(mdp, model):
    assert outcomes(mdp) == of_model(model)
    assert mdp.initial.tolist() == [float(p) for p in model.initial]


def test_shortcut_law():
    assert law_of_return(examples.shortcut(), 4) == {F(1): F("0.55"), F(0): F("0.2475"), F(-1): F("0.111375"), F(-2): F("0.091125")}


def test_umbrella_law():
    # three steps: two coins and the last reward, all +-1
    assert law_of_return(examples.umbrella(3), 3) == {F(3): F(1, 8), F(1): F(3, 8), F(-1): F(3, 8), F(-3): F(1, 8)}
    mdp = examples.umbrella(3)
    table = outcomes(mdp)
    assert table[0, 0] != table[0, 1] and table[1, 0] != table[1, 1]
    assert all(table[s, 0] == table[s, 1] for s in range(2, 6))  # only the first action has an effect


def test_delayed_effect_and_arms():
    for m in (1, 2, 6):
        mdp = examples.delayed_effect(m)
        assert (mdp.n_states, mdp.n_pairs) == (2 * m - 1, 4 * m - 2)
        assert law_of_return(mdp, m) == {F(1): F(1, 2), F(-1): F(1, 2)}
        assert mdp.ends.sum() == (4 if m > 1 else 2)
    assert law_of_return(examples.two_arms(), 1) == {F(-6): F(1, 8), F(2): F(3, 8), F(1): F(1, 4), F(-1): F(1, 4)}
    assert not examples.coin().ends.any()


@pytest.mark.parametrize("make", [examples.umbrella, examples.delayed_effect])
def test_lengths_are_positive_integers(make):
    for wrong in (0, -1, 2.0, True, "3"):
        with pytest.raises(ModelError, match="integer >= 1"):
            make(wrong)


def test_gridworld():
    mdp = examples.gridworld(3, 4)
    assert (mdp.n_states, mdp.n_pairs, mdp.n_actions) == (12, 44, 4)
    assert mdp.source["grid"] == [3, 4] and mdp.action_names == ("up", "right", "down", "left")
    table = outcomes(mdp)
    assert (11, 0) not in table  # the goal has no actions: entering it ends
    assert table[5, 0] == {(1, 0.0, False): 0.8, (6, 0.0, False): 0.1, (4, 0.0, False): 0.1}
    assert table[5, 3] == {(4, 0.0, False): 0.8, (1, 0.0, False): 0.1, (9, 0.0, False): 0.1}
    assert table[0, 0] == {(0, 0.0, False): 0.9, (1, 0.0, False): 0.1}  # up into the wall, left into the wall
    assert table[10, 1] == {(11, 1.0, True): 0.8, (6, 0.0, False): 0.1, (10, 0.0, False): 0.1}
    assert mdp.initial.tolist() == [1] + [0] * 11
    assert examples.gridworld(3).n_states == 9


def test_gridworld_arguments():
    by_place, by_number = examples.gridworld(3, goals=(0, 2), start=(2, 0)), examples.gridworld(3, goals=2, start=6)
    assert by_place.hash == by_number.hash == examples.gridworld(3, goals=np.array([2]), start=np.int64(6)).hash
    both = examples.gridworld(3, goals=[(0, 2), 8], start="uniform")
    assert both.n_pairs == 28 and both.initial.tolist() == [1 / 7, 1 / 7, 0, 1 / 7, 1 / 7, 1 / 7, 1 / 7, 1 / 7, 0]
    sure = outcomes(examples.gridworld(3, slip=0))
    assert sure[0, 1] == {(1, 0.0, False): 1.0} and all(len(law) == 1 for law in sure.values())
    assert outcomes(examples.gridworld(3, slip=1))[4, 0] == {(3, 0.0, False): 0.5, (5, 0.0, False): 0.5}
    assert outcomes(examples.gridworld(3, slip="1/3"))[4, 0] == {(1, 0.0, False): 2 / 3, (5, 0.0, False): 1 / 6, (3, 0.0, False): 1 / 6}
    assert outcomes(examples.gridworld(3, slip=0.3))[4, 0][1, 0.0, False] == 0.7
    line = examples.gridworld(1, 5)
    assert outcomes(line)[0, 0] == {(0, 0.0, False): 0.9, (1, 0.0, False): 0.1}
    assert examples.gridworld(2, goals=[]).n_pairs == 16


def test_gridworld_that_goes_on():
    mdp = examples.gridworld(3, absorbing=False)
    assert mdp.n_pairs == 36 and not mdp.ends.any()
    # staying at the wall enters the goal again
    assert outcomes(mdp)[8, 1] == {(8, 1.0, False): 0.9, (5, 0.0, False): 0.1}
    assert examples.gridworld(3, absorbing=False, start="uniform").initial.tolist() == [1 / 9] * 9


def test_gridworld_cell_rewards():
    pay = np.arange(9).reshape(3, 3) - 1
    before = pay.tobytes()
    mdp = examples.gridworld(3, cell_rewards=pay)
    assert pay.tobytes() == before
    assert (mdp.reward == mdp.next_state - 1).all()
    assert outcomes(mdp)[7, 1] == {(8, 7.0, True): 0.8, (4, 3.0, False): 0.1, (7, 6.0, False): 0.1}
    assert examples.gridworld(3, cell_rewards=pay.ravel().tolist()).hash == mdp.hash
    exact = examples.gridworld(2, cell_rewards=np.array([[F(1, 3), 0], [0, F(1, 3)]], dtype=object))
    assert F(1, 3) in exact.rewards.values


def test_gridworld_agrees_with_the_benchmark_s():
    size, rng = 5, np.random.default_rng(0)
    pay = rng.integers(-1, 11, (size, size))
    mdp = examples.gridworld(size, goals=[], cell_rewards=pay)
    move = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    for (s, a), law in outcomes(mdp).items():
        expected = defaultdict(Fraction)
        for turn, p in ((0, F(4, 5)), (1, F(1, 10)), (3, F(1, 10))):
            dr, dc = move[(a + turn) % 4]
            r, c = min(max(s // size + dr, 0), size - 1), min(max(s % size + dc, 0), size - 1)
            expected[r * size + c, float(pay[r, c]), False] += p
        assert law == {key: float(p) for key, p in expected.items()}


def test_gridworld_refuses():
    for kwargs, text in (
        ({"slip": 1.5}, r"slip is 3/2; it must be in \[0, 1\]"),
        ({"slip": float("nan")}, "slip"),
        ({"goals": 9}, r"goals: cell 9 is not in 0..8"),
        ({"goals": [0, (3, 0)]}, r"goals: cell \(3, 0\) is not on the grid of 3 rows and 3 columns"),
        ({"start": -1}, r"start: cell -1 is not in 0..8"),
        ({"start": 8}, "start 8 is a goal"),
        ({"start": "corner"}, "'corner'"),
        ({"start": 1.5}, "start: 1.5 is not a cell"),
        ({"goals": list(range(9))}, "every cell is a goal"),
        ({"cell_rewards": np.zeros((2, 3))}, r"cell_rewards has shape \(2, 3\)"),
        ({"columns": 0}, "columns is 0"),
    ):
        with pytest.raises(ModelError, match=text):
            examples.gridworld(3, **kwargs)


def test_garnet():
    mdp = examples.garnet(50, 3, 4, rewards=(-1, 0, 2), seed=7)
    assert (mdp.n_states, mdp.n_pairs, mdp.n_branches, mdp.n_actions) == (50, 150, 600, 3)
    assert (np.diff(mdp.branch_ptr) == 4).all() and not mdp.ends.any() and (mdp.probability > 0).all()
    assert mdp.largest_change < 2.0**-53
    for k in range(150):
        here = slice(mdp.branch_ptr[k], mdp.branch_ptr[k + 1])
        assert sum(map(F, mdp.probability[here].tolist())) == 1
        assert len(set(mdp.next_state[here].tolist())) == 4 and len(set(mdp.reward[here].tolist())) == 1
    assert set(mdp.reward.tolist()) == {-1.0, 0.0, 2.0}
    assert mdp.initial.tolist() == [1 / 50] * 50


def test_garnet_seeds():
    assert examples.garnet(20, 2, 3, seed=1).hash == examples.garnet(20, 2, 3, seed=1).hash
    assert examples.garnet(20, 2, 3, seed=1).hash != examples.garnet(20, 2, 3, seed=2).hash
    mdp = examples.garnet(30, 2, 5, rewards=(0, 1), seed=0, reward_on="branch")
    pays = [len(set(mdp.reward[mdp.branch_ptr[k] : mdp.branch_ptr[k + 1]].tolist())) for k in range(60)]
    assert max(pays) == 2
    assert examples.garnet(5, 2, 2, start=3).initial.tolist() == [0, 0, 0, 1, 0]
    assert set(examples.garnet(30, 2, 2, rewards=[F(1, 3), F(2, 3)]).rewards.values) == {F(1, 3), F(2, 3)}


def test_garnet_successors_are_uniform():
    mdp = examples.garnet(6, 20_000, 3, seed=3)
    counts = np.bincount(mdp.next_state, minlength=6)  # each state stands in half of the 120000 sets
    assert np.abs(counts - 60_000).max() < 6 * np.sqrt(120_000 / 4)
    sets = np.sort(mdp.next_state.reshape(-1, 3), axis=1) @ [36, 6, 1]
    kinds, counts = np.unique(sets, return_counts=True)
    assert len(kinds) == 20 and np.abs(counts - 6000).max() < 6 * np.sqrt(6000)


def test_garnet_with_every_state_as_successor():
    mdp = examples.garnet(40, 2, 40)
    assert (np.diff(mdp.branch_ptr) == 40).all()
    one = examples.garnet(40, 2, 1)
    assert (one.probability == 1).all()


def test_garnet_refuses():
    for args, kwargs, text in (
        ((3, 2, 4), {}, "branching is 4, but there are only 3 states"),
        ((3, 2, 0), {}, "branching is 0"),
        ((3, 2, 2), {"rewards": ()}, "rewards"),
        ((3, 2, 2), {"reward_on": "state"}, "'state'"),
        ((3, 2, 2), {"start": "here"}, "'here'"),
        ((3, 2, 2), {"start": 3}, "initial state 3 is not in 0..2"),
        ((3, 2, 2), {"rewards": (0, float("nan"))}, "state . action|state"),
    ):
        with pytest.raises(ModelError, match=text):
            examples.garnet(*args, **kwargs)


def test_sizes():
    grid = examples.gridworld(200)
    assert (grid.n_states, grid.n_pairs) == (40_000, 4 * 39_999)
    assert examples.garnet(20_000, 4, 5).n_branches == 400_000
    assert examples.umbrella(300).n_states == 600
