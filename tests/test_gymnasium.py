"""Gymnasium's tables, branch by branch."""

import sys

import numpy as np
import pytest

from icexact import policies
from icexact.errors import ModelError
from icexact.io.gymnasium import from_gymnasium
from icexact.mdp import MDP

gymnasium = pytest.importorskip("gymnasium")

CASES = {
    "FrozenLake-v1": ({}, (16, 4, 148)),
    "FrozenLake-v1 8x8": ({"map_name": "8x8"}, (64, 4, 674)),
    "FrozenLake-v1 sure": ({"is_slippery": False}, (16, 4, 64)),
    "CliffWalking-v1": ({}, (48, 4, 192)),
    "CliffWalking-v1 slippery": ({"is_slippery": True}, (48, 4, 524)),
    "Taxi-v4": ({}, (500, 6, 3000)),
    "Taxi-v4 rainy": ({"is_rainy": True}, (500, 6, 5660)),
}


def load(case):
    return from_gymnasium(case.split()[0], **CASES[case][0])


def sums(mdp):
    return np.add.reduceat(mdp.probability, mdp.branch_ptr[:-1])


def outcomes(mdp, s, a):
    k = mdp.pair(s, a)
    here = range(mdp.branch_ptr[k], mdp.branch_ptr[k + 1])
    return {(int(mdp.next_state[b]), float(mdp.reward[b]), bool(mdp.ends[b])): float(mdp.probability[b]) for b in here}


def pair_values(mdp, v, discount):
    return np.add.reduceat(mdp.probability * (mdp.reward + discount * np.where(mdp.ends, 0.0, v[mdp.next_state])), mdp.branch_ptr[:-1])


def iterate(mdp, discount, backup, sweeps=20_000):
    v = np.zeros(mdp.n_states)
    for _ in range(sweeps):
        new = backup(pair_values(mdp, v, discount))
        if np.abs(new - v).max() < 1e-14:
            return new
        v = new
    raise AssertionError("did not settle")


def uniform_value(mdp, discount):
    policy = policies.uniform(mdp)
    return iterate(mdp, discount, lambda q: np.add.reduceat(policy * q, mdp.pair_ptr[:-1]))


def best_value(mdp, discount):
    return iterate(mdp, discount, lambda q: np.maximum.reduceat(q, mdp.pair_ptr[:-1]))


@pytest.mark.parametrize("case", CASES)
def test_sizes_and_rows(case):
    mdp = load(case)
    S, A, B = CASES[case][1]
    assert (mdp.n_states, mdp.n_actions, mdp.n_pairs, mdp.n_branches) == (S, A, S * A, B)
    assert np.abs(sums(mdp) - 1).max() < 4e-16 and abs(mdp.initial.sum() - 1) < 4e-16


@pytest.mark.parametrize("case", CASES)
def test_every_branch_is_the_table_s(case):
    mdp = load(case)
    env = gymnasium.make(case.split()[0], **CASES[case][0])
    ours = {}
    for k in range(mdp.n_pairs):
        for b in range(mdp.branch_ptr[k], mdp.branch_ptr[k + 1]):
            ours[int(mdp.pair_state[k]), int(mdp.pair_action[k]), int(mdp.next_state[b]), float(mdp.reward[b]), bool(mdp.ends[b])] = mdp.probability[b]
    theirs = {}
    for s, actions in env.unwrapped.P.items():
        for a, branches in actions.items():
            for p, s_next, r, ends in branches:
                if p:
                    key = (s, a, int(s_next), float(r), bool(ends))
                    theirs[key] = theirs.get(key, 0) + p
    env.close()
    assert ours.keys() == theirs.keys()
    assert all(abs(ours[key] - theirs[key]) < 4e-16 for key in ours)


def test_equal_successors_are_added():
    mdp = load("FrozenLake-v1")
    for s, a in ((0, 0), (0, 3), (3, 2), (3, 3)):
        assert len(outcomes(mdp, s, a)) == 2 and abs(sum(outcomes(mdp, s, a).values()) - 1) < 1e-15
    assert outcomes(mdp, 0, 0)[0, 0.0, False] == pytest.approx(2 / 3, abs=1e-15)


def test_different_rewards_of_one_successor_are_kept_apart():
    mdp = load("CliffWalking-v1 slippery")
    law = outcomes(mdp, 36, 0)
    assert law == {(24, -1.0, False): pytest.approx(1 / 3), (36, -1.0, False): pytest.approx(1 / 3), (36, -100.0, False): pytest.approx(1 / 3)}


def test_terminal_rows_are_kept_alive_or_not():
    cliff = load("CliffWalking-v1")
    assert outcomes(cliff, 47, 0) == {(35, -1.0, False): 1.0}
    assert cliff.next_state[cliff.ends].tolist() == [47] * int(cliff.ends.sum())
    lake = load("FrozenLake-v1")
    assert outcomes(lake, 5, 1) == {(5, 0.0, True): 1.0}
    taxi = load("Taxi-v4")
    assert set(taxi.next_state[taxi.ends].tolist()) == {0, 85, 410, 475}
    assert set(taxi.reward[taxi.ends].tolist()) == {20.0}
    assert {0, 85, 410, 475} <= set(taxi.next_state[~taxi.ends].tolist())
    assert not taxi.ends[taxi.branch_ptr[taxi.pair_ptr[0]] : taxi.branch_ptr[taxi.pair_ptr[0] + 1]].all()


def test_values_known_from_elsewhere():
    lake = load("FrozenLake-v1")
    assert uniform_value(lake, 1)[0] == pytest.approx(0.0139397962, abs=5e-11)
    assert uniform_value(lake, 0.99)[0] == pytest.approx(0.0123561373, abs=5e-11)
    assert best_value(lake, 1)[0] == pytest.approx(14 / 17, abs=1e-9)
    assert best_value(load("CliffWalking-v1"), 0.99)[36] == pytest.approx(-12.248, abs=5e-4)
    taxi = load("Taxi-v4")
    assert taxi.initial @ best_value(taxi, 0.99) == pytest.approx(6.327, abs=5e-4)


def test_impossible_states_stay_and_hold_no_mass():
    mdp = load("CliffWalking-v1")
    policy = policies.uniform(mdp)
    mass = mdp.initial.copy()
    for _ in range(50):
        flow = np.repeat(mass[mdp.pair_state] * policy, np.diff(mdp.branch_ptr)) * mdp.probability
        mass = np.bincount(mdp.next_state[~mdp.ends], flow[~mdp.ends], mdp.n_states)
        assert (mass[37:48] == 0).all() and mass.sum() <= 1 + 1e-15
    assert mass[36] > 0


def test_source():
    lake = load("FrozenLake-v1 8x8").source
    assert lake == {"id": "FrozenLake-v1", "package": "gymnasium", "version": gymnasium.__version__, "kwargs": {"map_name": "8x8"}, "grid": [8, 8]}
    assert load("CliffWalking-v1").source["grid"] == [4, 12]
    assert "grid" not in load("Taxi-v4").source
    own = from_gymnasium("FrozenLake-v1", desc=np.array([["S", "F", "G"]]), is_slippery=False)
    assert own.source["grid"] == [1, 3] and own.source["kwargs"]["desc"] == [["S", "F", "G"]]
    assert own.n_states == 3


def test_an_environment_is_left_as_it_is():
    env = gymnasium.make("CliffWalking-v1")
    env.reset(seed=1)
    env.step(0)

    def look():
        inner = env.unwrapped
        return inner.s, inner.lastaction, repr(inner.P), inner.np_random.bit_generator.state, inner.initial_state_distrib.tobytes()

    before = look()
    mdp = from_gymnasium(env)
    assert look() == before
    env.step(1)  # still open
    assert mdp.hash == load("CliffWalking-v1").hash
    with pytest.raises(TypeError, match="is_slippery"):
        from_gymnasium(env, is_slippery=True)
    env.close()


def test_an_environment_made_from_an_id_is_closed(monkeypatch):
    made = []
    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda *args, **kwargs: made.append(make(*args, **kwargs)) or made[-1])
    closed = []
    monkeypatch.setattr(gymnasium.Wrapper, "close", lambda self: closed.append(self))
    from_gymnasium("FrozenLake-v1")
    with pytest.raises(ModelError):
        from_gymnasium("CartPole-v1")
    assert len(made) == 2 and {id(made[0]), id(made[1])} <= {id(env) for env in closed}


class Own(gymnasium.Env):
    """A user's environment: what its tables are made of is up to the test."""

    def __init__(self, P, initial=(1.0, 0.0, 0.0)):
        self.P, self.initial_state_distrib = P, initial


ROWS = {0: {0: [(1.0, 1, 0.0, False)], 1: [(0.25, 2, 4.0, True), (0.75, 0, -1.0, False)]}, 1: {0: [(1.0, 2, 1.0, True)]}, 2: {0: [(1.0, 2, 0.0, True)]}}
FLAT = ([0, 0, 0, 1, 2], [0, 1, 1, 0, 0], [1, 0.25, 0.75, 1, 1], [1, 2, 0, 2, 2], [0, 4, -1, 1, 0], [False, True, False, True, True])


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        [[[(1, 1, 0, 0)], [(0.25, 2, 4, 1), (0.75, 0, -1, 0)]], [[(1, 2, 1, 1)]], [[(1, 2, 0, 1)]]],
        {2: {0: [(1.0, 2, 0.0, True)]}, 1: {0: [(1.0, 2, 1.0, True)]}, 0: {1: [(0.75, 0, -1.0, False), (0.25, 2, 4.0, True)], 0: [(1.0, 1, 0.0, False)]}},
        {
            np.int64(s): {np.int32(a): [[np.float32(p), np.int64(n), np.int8(r), np.bool_(e)] for p, n, r, e in branches] for a, branches in actions.items()}
            for s, actions in ROWS.items()
        },
        {
            0: [[(1.0, 1, 0.0, False)], ((0.25, 2, 4.0, True), (0.75, 0, -1.0, False), (0.0, 1, float("-inf"), False))],
            1: [[(1.0, 2, 1.0, True)], []],
            2: [[(1.0, 2, 0.0, True)]],
        },
    ],
    ids=["dict", "lists", "order", "numpy types", "mixed"],
)
def test_tables_of_every_make(table):
    mdp = from_gymnasium(Own(table))
    assert mdp.hash == MDP.from_branches(*FLAT, n_states=3, initial=0).hash
    assert mdp.source["name"] == "Own"


def test_float32_rewards_keep_their_own_decimals():
    rewards = from_gymnasium(Own({0: {0: [(0.5, 1, np.float32(0.1), True), (0.5, 1, 0.1, True)]}, 1: {}}, (1, 0))).rewards.values
    assert len(rewards) == 1 and str(rewards[0]) == "1/10"


def test_a_state_left_out_is_fine_only_where_no_episode_can_be():
    rows = {0: ROWS[0], 1: ROWS[1]}
    mdp = from_gymnasium(Own(rows))
    assert mdp.n_states == 3 and mdp.n_pairs == 3
    with pytest.raises(ModelError, match="state 1 has no actions"):
        from_gymnasium(Own({0: ROWS[0], 2: ROWS[2]}))


def test_faults_in_a_table():
    for branch, text in (
        ((1.0, 1, 0.0), r"state 0, action 0: branch \(1.0, 1, 0.0\) is not"),
        ((1.0, 1.5, 0.0, True), r"state 0, action 0: branch .*next state as an integer"),
        ((1.0, 1, 0.0, None), r"state 0, action 0: the flag of branch"),
        ((1.0, 3, 0.0, True), r"next_state 3 is not in 0..2"),
        ((0.9, 1, 0.0, True), r"state 0, action 0: the probabilities sum to 0.9"),
        ((-1.0, 1, 0.0, True), r"state 0, action 0.*probability -1.0"),
        ((1.0, 1, float("nan"), True), r"state 0, action 0.*reward nan"),
    ):
        with pytest.raises(ModelError, match=text):
            from_gymnasium(Own({0: {0: [branch]}, 1: {0: [(1.0, 1, 0.0, True)]}, 2: {0: [(1.0, 1, 0.0, True)]}}))
    with pytest.raises(ModelError, match="key 'a'"):
        from_gymnasium(Own({"a": {}}))
    with pytest.raises(ModelError, match="empty table"):
        from_gymnasium(Own({}))


def test_environments_that_cannot_be_read():
    with pytest.raises(ModelError, match=r"CartPole-v1 has no table of transitions .*MDP.from_branches"):
        from_gymnasium("CartPole-v1")
    with pytest.raises(ModelError, match="gymnasium cannot make 'FrozenPond-v1': .*doesn't exist"):
        from_gymnasium("FrozenPond-v1")
    env = Own(ROWS)
    del env.initial_state_distrib
    with pytest.raises(ModelError, match="Own does not say where episodes start .*MDP.from_branches"):
        from_gymnasium(env)


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install icexact\[gym\]"):
        from_gymnasium("FrozenLake-v1")

    class Plain:
        P, initial_state_distrib = ROWS, [1, 0, 0]

    assert from_gymnasium(Plain()).source == {"name": "Plain"}
