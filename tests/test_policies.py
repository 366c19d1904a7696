"""Policies: what they are over pairs, and what the border refuses."""

from fractions import Fraction

import numpy as np
import pytest

from icexact import examples, policies
from icexact.errors import PolicyError
from icexact.mdp import MDP
from icexact.policies import read


def three(n_actions=3):
    """State 0 has actions 0 and 2, state 1 has no actions (the episode ends there), state 2 has action 1 alone."""
    return MDP.from_branches([0, 0, 2], [0, 2, 1], [1, 1, 1], [1, 2, 0], [0, 1, 2], [True, False, False], n_states=3, initial=0, n_actions=n_actions)


def square():
    """A = K = 2, S = 2: the shape (2, 2) is (S, A) and [H, K] for H = 2."""
    return MDP.from_branches([0, 1], [0, 1], [1, 1], [1, 0], [0, 1], n_states=2, initial=0)


TABLE = np.array([[0.25, 0.0, 0.75], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
PAIRS = np.array([0.25, 0.75, 1.0])


def test_uniform():
    p = policies.uniform(three())
    assert p.dtype == np.float64 and p.tolist() == [0.5, 0.5, 1.0]


def test_deterministic():
    assert policies.deterministic(three(), [2, -7, 1]).tolist() == [0, 1, 1]
    steps = policies.deterministic(three(), np.array([[2, 0, 1], [0, 9, 1]], dtype=np.int32))
    assert steps.dtype == np.float64 and steps.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_deterministic_refuses_an_unavailable_action():
    with pytest.raises(PolicyError, match=r"^state 0, action 1: the action is not available there; available: 0, 2$"):
        policies.deterministic(three(), [1, 0, 1])
    with pytest.raises(PolicyError, match=r"^step 1, state 2, action 0"):
        policies.deterministic(three(), [[0, 0, 1], [0, 0, 0]])
    with pytest.raises(PolicyError, match=r"state 0, action -1"):
        policies.deterministic(three(), [-1, 0, 1])
    for wrong in ([0, 0], [[[0, 0, 1]]], [0.0, 0.0, 1.0], [True, True, True]):
        with pytest.raises(PolicyError, match=r"one integer a state, \[S\] = \(3,\)"):
            policies.deterministic(three(), wrong)


def test_epsilon_greedy():
    p = policies.epsilon_greedy(three(), [0, 0, 1], 0.1)
    assert p.tolist() == [0.95, 0.05, 1.0]
    assert policies.epsilon_greedy(three(), [[0, 0, 1], [2, 0, 1]], "1/3").tolist() == [[5 / 6, 1 / 6, 1], [1 / 6, 5 / 6, 1]]
    assert policies.epsilon_greedy(three(), [0, 0, 1], 0).tolist() == [1, 0, 1]
    assert policies.epsilon_greedy(three(), [0, 0, 1], 1).tolist() == [0.5, 0.5, 1]
    for wrong in (-0.1, 1.1):
        with pytest.raises(PolicyError, match=r"in \[0, 1\]"):
            policies.epsilon_greedy(three(), [0, 0, 1], wrong)
    with pytest.raises(PolicyError, match="not finite"):
        policies.epsilon_greedy(three(), [0, 0, 1], float("nan"))
    with pytest.raises(PolicyError, match="state 0, action 1"):
        policies.epsilon_greedy(three(), [1, 0, 1], 0.1)
    with pytest.raises(TypeError):
        policies.epsilon_greedy(three(), [0, 0, 1])
    with pytest.raises(TypeError):
        policies.epsilon_greedy(three(), [0, 0, 1], 0.1, values=TABLE)


def test_epsilon_greedy_probabilities_are_correctly_rounded():
    mdp = examples.garnet(3, 7, 1)
    p = policies.epsilon_greedy(mdp, [3, 0, 6], 0.1)
    assert set(p.tolist()) == {1 / 70, float(1 - Fraction(6, 70))}
    assert read(mdp, p).rounding == 2 and read(mdp, p).table.tobytes() == p.tobytes()


def test_ties_are_exact_and_over_available_actions():
    values = np.array([[1.0, 9.0, 1.0, 9.0], [np.nan] * 4, [-np.inf] * 4])
    assert policies.epsilon_greedy(three(4), epsilon=0, values=values).tolist() == [0.5, 0.5, 1]
    values[0, 2] = np.nextafter(1.0, 0.0)
    assert policies.epsilon_greedy(three(4), epsilon=0, values=values).tolist() == [1, 0, 1]
    assert policies.epsilon_greedy(three(), epsilon=0, values=[[1, 2, 0], [2, 1, 0]]).tolist() == [[0, 1, 1], [1, 0, 1]]
    with pytest.raises(PolicyError, match="state 0, action 2: the value is NaN"):
        policies.epsilon_greedy(three(), epsilon=0, values=[1, np.nan, 0])


def test_softmax():
    with np.errstate(all="raise", under="ignore"):
        p = policies.softmax(three(4), np.array([[0.0, 1e300, np.log(3), 0], [np.nan] * 4, [0, 5.0, np.nan, np.inf]]))
        assert np.allclose(p, [0.25, 0.75, 1], rtol=1e-15)
        assert policies.softmax(three(), [1e308, -1e308, 3], 1e-300).tolist() == [1, 0, 1]
        assert policies.softmax(three(), [-np.inf, 0, 3]).tolist() == [0, 1, 1]
        assert policies.softmax(three(), [1000, 1000, -1000]).tolist() == [0.5, 0.5, 1]
    steps = policies.softmax(three(), [[0, 0, 0], [0, np.log(3), 7]], temperature=0.5)
    assert np.allclose(steps, [[0.5, 0.5, 1], [0.1, 0.9, 1]], rtol=1e-15)
    assert policies.softmax(three(), np.zeros((4, 3, 3))).shape == (4, 3)


def test_softmax_refuses():
    with pytest.raises(PolicyError, match="state 0, action 2: preference nan"):
        policies.softmax(three(), [0, np.nan, 0])
    with pytest.raises(PolicyError, match="state 2, action 1: preference inf"):
        policies.softmax(three(), [0, 0, np.inf])
    with pytest.raises(PolicyError, match="step 1, state 0: every preference is -inf"):
        policies.softmax(three(), [[0, 0, 0], [-np.inf, -np.inf, 0]])
    for t in (0, -1, np.nan, np.inf):
        with pytest.raises(PolicyError, match="temperature"):
            policies.softmax(three(), [0, 0, 0], t)
    with pytest.raises(PolicyError, match=r"\(S, A\) and \[H, K\] at once"):
        policies.softmax(square(), np.zeros((2, 2)))
    assert policies.softmax(square(), np.zeros((1, 2, 2))).tolist() == [[1, 1]]


@pytest.mark.parametrize("form", [PAIRS, TABLE, PAIRS.tolist(), TABLE.tolist(), np.asfortranarray(TABLE), TABLE.astype(np.float32), np.repeat(PAIRS, 2)[::2]])
def test_every_form_of_a_stationary_policy(form):
    for horizon in (None, 0, 1, 5):
        policy = read(three(), form, horizon)
        assert policy.table.shape == (1, 3) and policy.table.flags.c_contiguous and not policy.table.flags.writeable
        assert policy.table[0].tolist() == PAIRS.tolist() and policy.rounding == 0
        assert policy.at(4) is not None and policy.at(4).tolist() == PAIRS.tolist()
    assert policies.from_table(three(), form).tolist() == PAIRS.tolist()


@pytest.mark.parametrize("make", [np.array, lambda x: np.asfortranarray(np.array(x)), lambda x: np.array(x).tolist(), lambda x: np.array(x, dtype=np.float32)])
def test_every_form_of_a_time_dependent_policy(make):
    other = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0]])
    for given in (make([PAIRS, [1, 0, 1]]), make([TABLE, other])):
        policy = read(three(), given, 2)
        assert policy.table.tolist() == [PAIRS.tolist(), [1, 0, 1]] and policy.table.flags.c_contiguous
        assert policy.at(1).tolist() == [1, 0, 1]
        assert policies.from_table(three(), given).shape == (2, 3)


def test_integers_and_bools():
    for dtype in (np.int8, np.int64, np.uint8, np.bool_):
        assert read(three(), np.array([0, 1, 1], dtype=dtype)).table.tolist() == [[0, 1, 1]]


def test_inputs_are_never_changed():
    mdp = three()
    for given in (np.array([0.25, 0.75 + 1e-10, 1.0]), TABLE + np.array([[1e-10, 0, 0], [0, 0, 0], [0, 0, 0]]), np.array([-0.0, 1.0, 1.0])):
        before = given.tobytes()
        policy = read(mdp, given)
        policies.from_table(mdp, given)[...] = 7
        assert given.tobytes() == before and not np.shares_memory(policy.table, given)
        given.setflags(write=False)
        assert read(mdp, given).table.tolist() == policy.table.tolist()
        assert not np.signbit(policy.table).any()
    values = np.array([[1.0, 2.0, 3.0, 4.0]] * 3)
    before = values.tobytes()
    policies.softmax(three(4), values)
    policies.epsilon_greedy(three(4), epsilon=0.1, values=values)
    assert values.tobytes() == before


def test_a_policy_has_the_horizon_s_steps():
    steps = np.array([PAIRS] * 3)
    with pytest.raises(PolicyError, match="the policy has 3 steps, the horizon is 5"):
        read(three(), steps, 5)
    with pytest.raises(PolicyError, match="depends on the step"):
        read(three(), steps)
    with pytest.raises(PolicyError, match="depends on the step"):
        read(three(), steps[:1])
    assert read(three(), steps[:1], 1).table.shape == (1, 3)
    assert read(three(), np.zeros((0, 3)), 0).table.shape == (0, 3)


def test_probability_on_an_unavailable_action():
    bad = TABLE.copy()
    bad[0] = [0.5, 0.25, 0.25]
    with pytest.raises(PolicyError, match=r"^state 0, action 1: probability 0.25 on an action that is not available there; available: 0, 2$"):
        read(three(), bad)
    with pytest.raises(PolicyError, match=r"^step 1, state 0, action 1"):
        read(three(), np.array([TABLE, bad]), 2)
    terminal = TABLE.copy()
    terminal[1, 0] = 1.0
    with pytest.raises(PolicyError, match=r"^state 1, action 0.*available: none"):
        read(three(), terminal)
    hidden = TABLE.copy()
    hidden[2, 2] = np.nan
    with pytest.raises(PolicyError, match=r"state 2, action 2: probability nan"):
        read(three(), hidden)


def test_what_is_no_probability():
    for value, text in ((-0.25, "-0.25"), (np.nan, "nan"), (np.inf, "inf")):
        with pytest.raises(PolicyError, match=rf"^state 0, action 2: probability {text} is not a number in \[0, 1\]"):
            read(three(), [0.25, value, 1])
        with pytest.raises(PolicyError, match=rf"^step 1, state 0, action 2: probability {text}"):
            read(three(), [PAIRS, [0.25, value, 1]], 2)


def test_sums():
    with pytest.raises(PolicyError, match=r"^state 0: the probabilities sum to 0.9, they must sum to 1 \(within 1e-09\)$"):
        read(three(), [0.25, 0.65, 1])
    with pytest.raises(PolicyError, match=r"^step 2, state 2: the probabilities sum to 0.0"):
        read(three(), [PAIRS, PAIRS, [0.25, 0.75, 0]], 3)
    with pytest.raises(PolicyError, match="sum to inf|sum to nan"):
        read(three(), [1e308, 1.7e308, 1])
    assert read(three(), [0.25, 0.75 + 9e-10, 1]).rounding == 3
    with pytest.raises(PolicyError):
        read(three(), [0.25, 0.75 + 1.1e-9, 1])


def test_a_row_that_misses_one_by_rounding_stays_as_it_is():
    mdp = examples.garnet(2, 3, 1)
    third = np.full(6, 1 / 3)
    policy = read(mdp, third)
    assert policy.table[0].tobytes() == third.tobytes() and policy.rounding == 2
    off = np.array([1 / 3, 1 / 3, 1 / 3 + 1e-12] * 2)
    policy = read(mdp, off)
    exact = [Fraction(p) / sum(map(Fraction, off[:3].tolist())) for p in off[:3].tolist()]
    assert policy.rounding == 3
    assert all(abs(Fraction(p) / q - 1) <= Fraction(3, 2**53) for p, q in zip(policy.table[0].tolist(), exact))


def test_float32_tables_ask_for_a_tolerance():
    mdp = examples.garnet(1, 3, 1)
    table = np.array([[0.1, 0.2, 0.7]], dtype=np.float32)
    with pytest.raises(PolicyError, match="state 0.*tolerance=1e-6"):
        read(mdp, table)
    p = policies.from_table(mdp, table, tolerance=1e-6)
    assert p.dtype == np.float64 and abs(p.sum() - 1) < 1e-15 and np.allclose(p, [0.1, 0.2, 0.7], atol=1e-7)


def test_exact_numbers_have_exact_sums():
    F = Fraction
    policy = read(three(), [F(1, 3), F(2, 3), 1])
    assert policy.table.tolist() == [[1 / 3, 2 / 3, 1.0]] and policy.rounding == 2
    assert read(three(), [["1/4", 0, "0.75"], [0, 0, 0], [0, "1", 0]]).table.tolist() == [PAIRS.tolist()]
    table = np.zeros((2, 3, 3), dtype=object)
    table[:, 0, 0], table[:, 0, 2], table[:, 2, 1] = F(1, 3), F(2, 3), 1
    assert read(three(), table, 2).table.shape == (2, 3)
    with pytest.raises(PolicyError, match=r"^state 0: the exact probabilities sum to 999999/1000000, they must sum to exactly 1"):
        read(three(), [F(1, 2), F(499999, 10**6), 1])
    with pytest.raises(PolicyError, match=r"^step 0, state 0: the exact"):
        read(three(), [[F(1, 2), F(1, 3), 1]], 1)
    with pytest.raises(PolicyError, match=r"state 0, action 0: probability -0.5"):
        read(three(), [F(-1, 2), F(3, 2), 1])
    with pytest.raises(PolicyError, match=r"state 0, action 0: probability .* below the range"):
        read(three(), [F(1, 10**400), 1 - F(1, 10**400), 1])
    with pytest.raises(PolicyError, match="'x'"):
        read(three(), ["x", 1, 1])


def test_shapes():
    for wrong in (np.ones(2), np.ones((3, 4)), np.ones((4, 3, 2)), 1.0, np.ones((1, 1, 3, 3))):
        with pytest.raises(PolicyError, match=r"it must be \[K\] = \(3,\), \[H, K\] = \(H, 3\), \(S, A\) = \(3, 3\) or \(H, S, A\) = \(H, 3, 3\)"):
            read(three(), wrong, 4)
    with pytest.raises(PolicyError, match="no rectangular table"):
        read(three(), [[1, 0], [1]])
    with pytest.raises(PolicyError, match="type complex"):
        read(three(), np.ones(3, dtype=complex))


def test_a_shape_that_fits_both_readings():
    # three() has S = K = A = 3, so with H = 3 every (3, 3) table has the shape of both
    steps = np.array([PAIRS, PAIRS, [1, 0, 1]])
    assert read(three(), steps, 3).table.tolist() == steps.tolist()
    assert read(three(), TABLE, 3).table.tolist() == [PAIRS.tolist()]
    assert read(square(), np.ones((2, 2)), 2).table.tolist() == [[1, 1], [1, 1]]
    assert read(square(), np.eye(2), 2).table.tolist() == [[1, 1]]
    with pytest.raises(PolicyError, match="state 0, action 1"):
        read(square(), [[0.0, 1.0], [1.0, 0.0]], 2)
    # one state: both readings say the same, at any horizon
    arms = examples.two_arms()
    for horizon in (None, 1, 5):
        assert read(arms, [[0.25, 0.75]], horizon).table.tolist() == [[0.25, 0.75]]


def test_names_of_states_in_messages():
    mdp = examples.umbrella(2)
    with pytest.raises(PolicyError, match=r"state 0 \(sun\): the probabilities sum to 0.75"):
        read(mdp, [0.25] + [0.5] * 7)


def test_subnormal_probabilities_are_covered_by_the_count():
    mdp = three()
    tiny = 3 * 2.0**-1074
    given = np.array([tiny, 1.0 + 4e-10, 1.0])
    policy = read(mdp, given)
    total = Fraction(tiny) + Fraction(given[1])
    for k, s in ((0, tiny), (1, given[1])):
        assert abs(Fraction(policy.table[0, k]) / (Fraction(s) / total) - 1) <= Fraction(policy.rounding, 2**53)
