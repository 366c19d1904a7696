"""The model's border: what every accepted form becomes, and what is refused, with the offender named."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from icexact.errors import ModelError
from icexact.mdp import MDP

F = Fraction

# two states, two actions; action 1 is not available in state 1. Dense, so that (S, A, S) and (A, S, S) have one shape.
T = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])
R = np.array([[1.0, 2.0], [3.0, 0.0]])
HAVE = np.array([[True, True], [True, False]])
ROWS = ([0, 0, 0, 1], [0, 0, 1, 0], [0.5, 0.5, 1.0, 1.0], [0, 1, 1, 0], [1, 1, 2, 3])


def flat(*columns, n_states=2, initial=0, **kwargs):
    return MDP.from_branches(*columns, n_states=n_states, initial=initial, **kwargs)


def one_pair(probability, next_state=None, reward=None, ends=None, **kwargs):
    """State 0, action 0 with these branches; every other state goes back to 0."""
    n = len(probability)
    next_state = list(range(n)) if next_state is None else next_state
    reward = [0] * n if reward is None else reward
    S = max(2, max(next_state) + 1)
    kind = object if any(isinstance(p, F) for p in probability) else None
    probability = np.concatenate([np.asarray(probability, dtype=kind), np.ones(S - 1, dtype=int).astype(kind) if kind else np.ones(S - 1)])
    ends = None if ends is None else list(ends) + [False] * (S - 1)
    rest = [0] * (S - 1)
    return flat([0] * n + list(range(1, S)), [0] * (n + S - 1), probability, [*next_state, *rest], [*reward, *rest], ends, n_states=S, **kwargs)


def law(mdp, s, a):
    k = mdp.pair(s, a)
    here = slice(mdp.branch_ptr[k], mdp.branch_ptr[k + 1])
    return list(zip(mdp.next_state[here].tolist(), mdp.reward[here].tolist(), mdp.ends[here].tolist(), mdp.probability[here].tolist()))


REFERENCE = flat(*ROWS)


# ---- the inside form


def test_inside_form():
    m = REFERENCE
    assert m.pair_ptr.tolist() == [0, 2, 3] and m.pair_action.tolist() == [0, 1, 0] and m.pair_state.tolist() == [0, 0, 1]
    assert m.branch_ptr.tolist() == [0, 2, 3, 4] and m.next_state.tolist() == [0, 1, 1, 0]
    assert m.probability.tolist() == [0.5, 0.5, 1, 1] and m.reward.tolist() == [1, 1, 2, 3] and not m.ends.any()
    assert (m.n_states, m.n_pairs, m.n_branches, m.n_actions) == (2, 3, 4, 2)
    for name in ("pair_ptr", "pair_action", "pair_state", "branch_ptr", "next_state"):
        assert getattr(m, name).dtype == np.int64
    for name in ("probability", "reward", "initial"):
        assert getattr(m, name).dtype == np.float64
    for name in ("pair_ptr", "pair_action", "pair_state", "branch_ptr", "next_state", "probability", "reward", "ends", "initial"):
        assert not getattr(m, name).flags.writeable
    with pytest.raises(AttributeError):
        m.n_actions = 3


def test_pair_lookup_names_what_is_available():
    assert [REFERENCE.pair(0, 0), REFERENCE.pair(0, 1), REFERENCE.pair(1, np.int32(0))] == [0, 1, 2]
    with pytest.raises(ModelError, match=r"^action 1 is not available in state 1; available: 0$"):
        REFERENCE.pair(1, 1)
    for wrong in (-1, 2, 0.0, True):
        with pytest.raises(ModelError, match=r"is not in 0\.\.1"):
            REFERENCE.pair(wrong, 0)
    named = flat(*ROWS, state_names=["home", "away"])
    with pytest.raises(ModelError, match=r"state 1 \(away\)"):
        named.pair(1, 1)


# ---- one model, every form


def sparse(make, table=T, axes="ass"):
    return [make(table[:, a, :] if axes == "ass" else table[a]) for a in range(2)]


def doubled_coo(matrix):
    """Every entry in two halves, and an explicit zero."""
    m = sp.coo_matrix(matrix)
    row, col = np.r_[m.row, m.row, 0], np.r_[m.col, m.col, 0]
    return sp.coo_matrix((np.r_[m.data / 2, m.data / 2, 0.0], (row, col)), shape=m.shape)


def unsorted_csr(matrix):
    m = sp.csr_matrix(matrix)
    for i in range(m.shape[0]):
        here = slice(m.indptr[i], m.indptr[i + 1])
        m.indices[here], m.data[here] = m.indices[here][::-1].copy(), m.data[here][::-1].copy()
    m.has_sorted_indices = False
    return m


def int64_csr(matrix):
    m = sp.csr_array(matrix)
    m.indices, m.indptr = m.indices.astype(np.int64), m.indptr.astype(np.int64)
    return m


ASS = np.ascontiguousarray(T.transpose(1, 0, 2))
FORMS = {
    "sas": (T, R, "sas"),
    "ass": (ASS, R, "ass"),
    "lists": (T.tolist(), R.tolist(), "sas"),
    "Fortran": (np.asfortranarray(T), np.asfortranarray(R), "sas"),
    "float32": (T.astype(np.float32), R.astype(np.float32), "sas"),
    "view": (T[:, ::-1][:, ::-1], R[::-1][::-1], "sas"),
    "int rewards": (T, R.astype(np.int32), "sas"),
    "sas rewards of transitions": (T, np.repeat(R[:, :, None], 2, axis=2), "sas"),
    "ass rewards of transitions": (ASS, np.repeat(R.T[:, :, None], 2, axis=2), "ass"),
    "Fractions": (np.array([[[F(p) for p in row] for row in rows] for rows in T]), np.array([[F(r) for r in row] for row in R]), "sas"),
    "csr_matrix": (sparse(sp.csr_matrix), R, "ass"),
    "csr_array": (sparse(sp.csr_array), R, "ass"),
    "csc_matrix": (sparse(sp.csc_matrix), R, "ass"),
    "coo with duplicates": (sparse(doubled_coo), R, "ass"),
    "unsorted csr": (sparse(unsorted_csr), R, "ass"),
    "int64 csr": (sparse(int64_csr), R, "ass"),
    "lil": (sparse(sp.lil_matrix), R, "ass"),
    "sparse per state": (sparse(sp.csr_array, axes="sas"), R, "sas"),
    "sparse rewards": (sparse(sp.csr_matrix), [sp.csr_matrix(np.repeat(R[:, a, None], 2, axis=1)) for a in range(2)], "ass"),
    "sparse rewards of arrays": (sparse(sp.coo_array), [sp.coo_array(np.repeat(R[:, a, None], 2, axis=1)) for a in range(2)], "ass"),
    "tuple of sparse": (tuple(sparse(sp.csr_matrix)), sp.csr_matrix(R), "ass"),
}


def test_every_form_is_the_same_model():
    for name, (transitions, rewards, axes) in FORMS.items():
        mdp = MDP.from_arrays(transitions, rewards, axes=axes, initial=[1, 0], available=HAVE)
        for field in ("pair_ptr", "pair_action", "branch_ptr", "next_state", "probability", "reward", "ends", "initial"):
            assert getattr(mdp, field).tolist() == getattr(REFERENCE, field).tolist(), (name, field)
        if name != "Fractions":
            assert mdp.hash == REFERENCE.hash, name
        assert mdp.rewards.values == REFERENCE.rewards.values == (1, 2, 3), name


@pytest.mark.parametrize("name", [name for name in FORMS if isinstance(FORMS[name][0], np.ndarray)])
def test_inputs_are_not_changed_and_may_be_read_only(name):
    transitions, rewards, axes = FORMS[name]
    transitions, rewards, have = transitions.copy(order="K"), rewards.copy(order="K"), HAVE.copy()
    initial = np.array([1.0, 0.0])
    given = (transitions, rewards, have, initial)
    before = [x.tobytes() for x in given]
    for x in given:
        x.setflags(write=False)
    mdp = MDP.from_arrays(transitions, rewards, axes=axes, initial=initial, available=have)
    assert [x.tobytes() for x in given] == before
    assert not any(np.shares_memory(x, y) for x in given for y in (mdp.probability, mdp.reward, mdp.initial))


def test_columns_are_not_changed_and_may_be_of_any_make():
    state, action, probability, next_state, reward = (np.array(c) for c in ROWS)
    order = np.array([3, 1, 0, 2])
    ends = np.zeros(4, dtype=bool)
    columns = [state[order], action[order], probability[order] * (1 + 1e-10), next_state[order], reward[order].astype(float), ends]
    before = [c.tobytes() for c in columns]
    for c in columns:
        c.setflags(write=False)
    mdp = flat(*columns)
    assert [c.tobytes() for c in columns] == before and mdp.probability.tolist() == [0.5, 0.5, 1, 1] and mdp.largest_change > 0
    assert not any(np.shares_memory(c, y) for c in columns for y in (mdp.probability, mdp.reward, mdp.next_state, mdp.ends))
    for make in (list, tuple, lambda c: np.repeat(c, 2)[::2]):
        assert flat(*(make(np.array(c)) for c in ROWS)).hash == REFERENCE.hash
    for integer in (np.int32, np.uint8, np.int64):
        s, a, n, r, e = (c.astype(integer) for c in (state, action, next_state, reward, ends))
        assert flat(s, a, probability.astype(np.float32), n, r, e).hash == REFERENCE.hash


def test_a_sparse_input_is_not_changed():
    matrices = sparse(doubled_coo)
    before = [(m.data.tobytes(), m.row.tobytes(), m.col.tobytes(), m.nnz) for m in matrices]
    MDP.from_arrays(matrices, R, axes="ass", initial=0, available=HAVE)
    assert [(m.data.tobytes(), m.row.tobytes(), m.col.tobytes(), m.nnz) for m in matrices] == before


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_the_order_of_rows_is_irrelevant(seed):
    rng = np.random.default_rng(seed)
    S, A, b = (int(n) for n in rng.integers(1, 5, 3))
    state, action = np.repeat(np.arange(S), A * b), np.tile(np.repeat(np.arange(A), b), S)
    weights = rng.integers(1, 1000, (S * A, b))
    probability = (weights / weights.sum(axis=1, keepdims=True)).ravel()
    columns = [state, action, probability, rng.integers(0, S, S * A * b), rng.integers(-1, 2, S * A * b), rng.random(S * A * b) < 0.3]
    first = flat(*columns, n_states=S)
    order = rng.permutation(S * A * b)
    assert flat(*(c[order] for c in columns), n_states=S).hash == first.hash


def test_equal_outcomes_in_another_order_add_to_the_same_bits():
    parts = [0.1, 0.2, 0.3, 0.4]
    hashes = set()
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        hashes.add(one_pair([parts[i] for i in order], [0 if i < 3 else 1 for i in order]).hash)
    assert len(hashes) == 1


def test_a_large_row_is_sorted_too():
    n = 200
    rng = np.random.default_rng(0)
    p = np.full(n, 1 / n)
    order = rng.permutation(n)
    mdp = one_pair(p.tolist(), order.tolist(), (order % 7).tolist())
    k = mdp.pair(0, 0)
    here = slice(mdp.branch_ptr[k], mdp.branch_ptr[k + 1])
    keys = list(zip(mdp.reward[here].tolist(), mdp.next_state[here].tolist()))
    assert keys == sorted(keys) and len(set(keys)) == n and all(r == s % 7 for r, s in keys)


# ---- merging


def test_equal_successors_are_added():
    mdp = one_pair([0.25, 0.5, 0.25], [1, 0, 1])
    assert law(mdp, 0, 0) == [(0, 0, False, 0.5), (1, 0, False, 0.5)]
    assert mdp.pair_rounding[0] >= 1


def test_two_rewards_or_flags_are_two_outcomes():
    mdp = one_pair([0.25, 0.25, 0.25, 0.25], [1, 1, 1, 1], [0, 1, 0, 0], [False, False, True, False])
    assert law(mdp, 0, 0) == [(1, 0, False, 0.5), (1, 0, True, 0.25), (1, 1, False, 0.25)]


def test_rewards_merge_as_exact_numbers():
    for pays in ([0.1, F(1, 10)], ["0.1", "1/10"], [F(2, 20), "0.10"], np.array([0.0, -0.0])):
        assert one_pair([0.5, 0.5], [1, 1], pays).n_branches == 2
    assert one_pair([0.5, 0.5], [1, 1], [0.1, 0.1 + 2**-55]).n_branches == 3
    big = [2**53, 2**53 + 1]
    mdp = one_pair([0.5, 0.5], [1, 1], np.array(big))
    assert mdp.n_branches == 3 and set(big) <= set(mdp.rewards.values)
    assert one_pair([0.5, 0.5], [1, 1], [10**30, 10**30 + 1]).n_branches == 3


def test_floats_are_read_by_their_shortest_decimal():
    assert set(one_pair([1.0], [1], [0.1]).rewards.values) == {0, F(1, 10)}
    assert set(flat([0], [0], [1], [0], np.array([0.1], dtype=np.float32), n_states=1).rewards.values) == {F(1, 10)}
    assert set(one_pair([1.0], [1], ["1/3"]).rewards.values) == {0, F(1, 3)}


def test_zero_probability_branches_are_none_whatever_they_pay():
    for pay in (-np.inf, np.inf, np.nan):
        mdp = one_pair([1.0, 0.0], [1, 0], [2, pay])
        assert law(mdp, 0, 0) == [(1, 2, False, 1)] and np.isfinite(mdp.reward).all()
    table = np.zeros((2, 2, 2))
    table[0, :, 0] = table[1, :, 1] = -np.inf
    assert MDP.from_arrays(np.array([[[0, 1], [0, 1]], [[1, 0], [1, 0]]]), table, axes="sas", initial=0).reward.tolist() == [0] * 4
    # R = -inf marks an unavailable action elsewhere: with available= its row is not read
    pays = R.copy()
    pays[1, 1] = -np.inf
    assert MDP.from_arrays(T, pays, axes="sas", initial=0, available=HAVE).hash == REFERENCE.hash


# ---- axes and rewards


def test_the_axes_are_never_guessed():
    # A = S = 2, and each order is row-stochastic: they are two models
    table = np.array([[[0.5, 0.5], [0, 1]], [[1, 0], [0.25, 0.75]]])
    sas, ass = (MDP.from_arrays(table, R, axes=axes, initial=0) for axes in ("sas", "ass"))
    assert sas.hash != ass.hash
    assert law(sas, 0, 1) == [(1, 2, False, 1)] and law(ass, 0, 1) == [(0, 2, False, 1)]
    assert MDP.from_arrays(table.transpose(1, 0, 2), R, axes="ass", initial=0).hash == sas.hash
    with pytest.raises(TypeError):
        MDP.from_arrays(table, R, initial=0)
    with pytest.raises(ModelError, match="axes is 'SAS'; it must be 'sas'"):
        MDP.from_arrays(table, R, axes="SAS", initial=0)
    with pytest.raises(ModelError, match=r"transitions has shape \(3, 2, 3\); with axes='ass' it must be \(A, S, S\)"):
        MDP.from_arrays(np.ones((3, 2, 3)), np.zeros(3), axes="ass", initial=0)


def test_rewards_of_states_are_paid_on_leaving():
    mdp = MDP.from_arrays(T, [5.0, 7.0], axes="sas", initial=0, available=HAVE)
    assert mdp.reward.tolist() == [5, 5, 5, 7]
    # S = A = 2, shape (2, 2) is (S, A), row by state, in both orders of axes
    for axes, table in (("sas", T), ("ass", ASS)):
        assert MDP.from_arrays(table, R, axes=axes, initial=0, available=HAVE).reward.tolist() == [1, 1, 2, 3]


def test_shapes_that_fit_nothing():
    for wrong in (np.zeros(3), np.zeros((2, 3)), np.zeros((2, 2, 3)), 0.0):
        with pytest.raises(ModelError, match=r"rewards has shape .*\(S,\) = \(2,\), \(S, A\) = \(2, 2\)"):
            MDP.from_arrays(T, wrong, axes="sas", initial=0, available=HAVE)
    for wrong in (np.zeros((2, 2)), np.zeros((2, 2, 2), dtype=complex)):
        with pytest.raises(ModelError, match="transitions has shape"):
            MDP.from_arrays(wrong, R, axes="sas", initial=0)
    with pytest.raises(ModelError, match="one sparse matrix; pass a list"):
        MDP.from_arrays(sp.csr_matrix(np.eye(2)), R, axes="ass", initial=0)
    with pytest.raises(ModelError, match=r"sparse matrix 1 has shape \(2, 3\)"):
        MDP.from_arrays([sp.csr_matrix((2, 2)), sp.csr_matrix((2, 3))], R, axes="ass", initial=0)
    with pytest.raises(ModelError, match=r"available has shape \(2,\)"):
        MDP.from_arrays(T, R, axes="sas", initial=0, available=[True, False])
    with pytest.raises(ModelError, match="list of sparse matrices of another shape"):
        MDP.from_arrays(sparse(sp.csr_matrix), [sp.csr_matrix((2, 2))], axes="ass", initial=0)


# ---- probabilities


def test_sums_beyond_rounding_name_state_action_and_sum():
    with pytest.raises(ModelError, match=r"^state 0, action 0: the probabilities sum to 0.9, they must sum to 1"):
        one_pair([0.5, 0.4])
    with pytest.raises(ModelError, match=r"^state 1, action 1: the probabilities sum to 0"):
        MDP.from_arrays(T, R, axes="sas", initial=0)
    with pytest.raises(ModelError, match=r"^state 1, action 1: the probabilities sum to 0.*available="):
        MDP.from_arrays(sparse(sp.csr_matrix), R, axes="ass", initial=0)
    with pytest.raises(ModelError, match=r"^state 1, action 1: the probabilities sum to 0.*leave the rows"):
        flat([0, 1, 1], [0, 0, 1], [1, 1, 0.0], [1, 0, 0], [0, 0, 0])
    with pytest.raises(ModelError, match=r"state 0, action 0.*sum to 1.25"):
        one_pair([0.5, 0.75])


def test_a_row_may_miss_one_by_rounding():
    mdp = one_pair([0.5, 0.5 + 9e-10])
    exact = [F(p) / (F(0.5) + F(0.5 + 9e-10)) for p in (0.5, 0.5 + 9e-10)]
    assert 8.9e-10 < mdp.largest_change < 9.1e-10
    assert all(abs(F(float(p)) / q - 1) <= F(int(mdp.pair_rounding[0]), 2**53) for p, q in zip(mdp.probability, exact))
    with pytest.raises(ModelError, match=r"state 0, action 0.*within 1e-09.*tolerance="):
        one_pair([0.5, 0.5 + 1.1e-9])


def test_rounded_files_and_float32_rows_need_a_tolerance():
    rounded = [0.333333] * 3
    with pytest.raises(ModelError, match="state 0, action 0: the probabilities sum to 0.999999"):
        one_pair(rounded)
    mdp = one_pair(rounded, tolerance=1e-5)
    assert np.abs(mdp.probability[:3] - 1 / 3).max() < 1e-16 and mdp.largest_change == pytest.approx(1e-6)
    single = np.array([0.1, 0.2, 0.7], dtype=np.float32)
    with pytest.raises(ModelError, match="state 0, action 0"):
        one_pair(single)
    assert one_pair(single, tolerance=1e-6).n_branches == 5
    assert one_pair(np.array([0.25, 0.75], dtype=np.float32)).largest_change == 0


def test_rows_within_rounding_stay_as_they_are():
    mdp = one_pair([1 / 3, 1 / 3, 1 / 3])
    assert mdp.probability[:3].tolist() == [1 / 3] * 3 and mdp.pair_rounding[0] == 2
    assert one_pair([0.25, 0.75]).pair_rounding[0] == 0
    tenths = one_pair([0.1] * 10)
    assert tenths.probability[:10].tolist() == [0.1] * 10


def test_exact_probabilities_have_exact_sums():
    mdp = one_pair([F(1, 3), F(2, 3)])
    assert mdp.probability[:2].tolist() == [1 / 3, 2 / 3]
    assert flat([0, 0], [0, 0], ["0.1", "9/10"], [0, 0], [0, 1], n_states=1).probability.tolist() == [0.1, 0.9]
    with pytest.raises(ModelError, match=r"^state 0, action 0: the exact probabilities sum to 999999/1000000, they must sum to exactly 1$"):
        one_pair([F(1, 2), F(499999, 10**6)])
    with pytest.raises(ModelError, match=r"state 0, action 0.*'half'"):
        flat([0], [0], ["half"], [0], [0], n_states=1)
    with pytest.raises(ModelError, match=r"state 0, action 0 .*probability -0.5"):
        one_pair([F(-1, 2), F(3, 2)])


def test_what_is_no_probability():
    for wrong in (-0.5, np.nan, np.inf, -np.inf):
        with pytest.raises(ModelError, match=rf"^state 0, action 0 \(row 1, next state 1\): probability {wrong} is not a number in \[0, 1\]"):
            one_pair([0.5, wrong])
        table = T.copy()
        table[0, 1, 1] = wrong
        with pytest.raises(ModelError, match=rf"state 0, action 1 .*probability {wrong}"):
            MDP.from_arrays(table, R, axes="sas", initial=0, available=HAVE)
    with pytest.raises(ModelError, match="sum to inf|sum to nan|sum to 1e"):
        one_pair([1e308, 1.7e308])


def test_what_is_no_reward():
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(ModelError, match=rf"^state 0, action 0 .*reward {wrong} is not finite"):
            one_pair([0.5, 0.5], None, [0, wrong])
        pays = R.copy()
        pays[1, 0] = wrong
        with pytest.raises(ModelError, match=rf"state 1, action 0 .*reward {wrong}"):
            MDP.from_arrays(T, pays, axes="sas", initial=0, available=HAVE)
    with pytest.raises(ModelError, match=r"state 0, action 0 .*'much'"):
        one_pair([1.0], [1], ["much"])


# ---- indices


def test_indices_out_of_range():
    state, action, probability, next_state, reward = (list(c) for c in ROWS)
    for name, value in (("state", 2), ("state", -1), ("next_state", 2), ("next_state", -1), ("next_state", 2**40)):
        columns = {"state": list(state), "action": list(action), "probability": probability, "next_state": list(next_state), "reward": reward}
        columns[name][2] = value
        with pytest.raises(ModelError, match=rf"{name} {value} is not in 0\.\.1"):
            flat(*columns.values())
    with pytest.raises(ModelError, match="action -1 is negative"):
        flat(state, [0, 0, -1, 0], probability, next_state, reward)
    with pytest.raises(ModelError, match=r"action 1 is not in 0\.\.0"):
        flat(*ROWS, n_actions=1)
    assert flat(*ROWS, n_actions=7).n_actions == 7


def test_an_index_out_of_range_is_refused_on_impossible_rows_too():
    with pytest.raises(ModelError, match=r"next_state 9 is not in 0\.\.1"):
        one_pair([1.0], [1]) and flat([0, 0, 1], [0, 0, 0], [1.0, 0.0, 1.0], [1, 9, 0], [0, 0, 0])


def test_columns_that_are_none():
    with pytest.raises(ModelError, match="column reward has 3 rows, column state has 4"):
        flat(*ROWS[:4], [1, 1, 2])
    with pytest.raises(ModelError, match="column state has type float64; it must hold integers"):
        flat(np.array(ROWS[0], dtype=float), *ROWS[1:])
    with pytest.raises(ModelError, match="column action has type bool"):
        flat(ROWS[0], np.array(ROWS[1], dtype=bool), *ROWS[2:])
    with pytest.raises(ModelError, match=r"column state has shape \(2, 2\)"):
        flat(np.zeros((2, 2), dtype=int), *ROWS[1:])
    with pytest.raises(ModelError, match="column probability has type complex128"):
        flat(*ROWS[:2], np.ones(4, dtype=complex), *ROWS[3:])
    with pytest.raises(ModelError, match="without branches"):
        flat([], [], [], [], [])
    with pytest.raises(ModelError, match="all branches have probability 0"):
        flat([0], [0], [0.0], [0], [0], n_states=1)
    with pytest.raises(ModelError, match="ends must hold True or False"):
        flat(*ROWS, [0, 1, 2, 0])
    with pytest.raises(ModelError, match="ends must hold True or False"):
        flat(*ROWS, [0.0, 1.0, 0.0, 0.0])
    for wrong in (0, -1, 2.0, True, None):
        with pytest.raises(ModelError, match="n_states is"):
            flat(*ROWS, n_states=wrong)


def test_codes_beyond_int32():
    top = 3_000_000_000
    mdp = flat([0, 0, 1], [0, top, 0], [1, 1, 1], [1, 0, 0], [0, 1, 2])
    assert mdp.pair_action.tolist() == [0, top, 0] and mdp.pair(0, top) == 1
    with pytest.raises(ModelError, match="beyond int64"):
        flat([0, 1], [0, 2**62], [1, 1], [0, 0], [0, 1])


# ---- endings


def test_a_state_without_actions_has_to_be_declared_terminal():
    rows = ([0], [0], [1.0], [1], [1])
    with pytest.raises(ModelError, match=r"^state 1 has no actions and is not declared terminal"):
        flat(*rows)
    for mdp in (flat(*rows, terminal=[1]), flat(*rows, terminal=np.array([False, True])), flat(*rows, terminal=1), flat(*rows, [True])):
        assert mdp.ends.tolist() == [True] and mdp.pair_ptr.tolist() == [0, 1, 1]
    # one that nothing enters is refused as well, for it is as likely a row forgotten
    with pytest.raises(ModelError, match="state 2 has no actions"):
        flat(*rows, [True], n_states=3)
    assert flat(*rows, terminal=[1, 2], n_states=3).n_states == 3
    # entered both ways: alive counts
    with pytest.raises(ModelError, match="state 1 has no actions"):
        flat([0, 0], [0, 1], [1, 1], [1, 1], [0, 0], [True, False])


def test_a_terminal_state_has_no_rows():
    with pytest.raises(ModelError, match=r"^state 1, action 0 \(row 3, next state 0\): the state is declared terminal"):
        flat(*ROWS, terminal=[1])
    assert flat(*ROWS[:2], [0.5, 0.5, 1.0, 0.0], *ROWS[3:], terminal=[1]).n_pairs == 2
    stored = sp.coo_matrix(([1.0, 0.0], ([0, 1], [1, 0])), shape=(2, 2))  # an explicit zero in the terminal row
    assert MDP.from_arrays([stored], np.zeros((2, 1)), axes="ass", initial=0, terminal=[1]).n_pairs == 1


def test_a_terminal_state_does_not_earn_through_its_own_row():
    loop = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    mdp = MDP.from_arrays(loop, np.array([[1.0], [0.0]]), axes="sas", initial=0, terminal=[1])
    assert mdp.pair_state.tolist() == [0] and mdp.ends.tolist() == [True]
    assert MDP.from_arrays(np.array([[[0.0, 1.0]], [[0.0, 0.0]]]), np.array([[1.0], [5.0]]), axes="sas", initial=0, terminal=[1]).hash == mdp.hash
    with pytest.raises(ModelError, match=r"state 1 is declared terminal, but action 0 leads to 1 with reward 2.0"):
        MDP.from_arrays(loop, np.array([[1.0], [2.0]]), axes="sas", initial=0, terminal=[1])
    with pytest.raises(ModelError, match=r"state 1 is declared terminal, but action 0 leads to 0"):
        MDP.from_arrays(loop[:, :, ::-1], np.zeros((2, 1)), axes="sas", initial=0, terminal=[1])
    # without the declaration the loop is a state like any other, paid or not
    assert MDP.from_arrays(loop, np.array([[1.0], [2.0]]), axes="sas", initial=0).ends.any() == np.False_


def test_the_flag_belongs_to_the_branch():
    mdp = one_pair([0.5, 0.5], [1, 1], [1, 1], [True, False])
    assert law(mdp, 0, 0) == [(1, 1, False, 0.5), (1, 1, True, 0.5)]
    assert law(mdp, 1, 0) == [(0, 0, False, 1)]  # the state keeps its own live row


def test_terminal_is_a_list_or_a_mask():
    rows = ([0], [0], [1.0], [1], [1])
    with pytest.raises(ModelError, match=r"terminal names state 2, which is not in 0\.\.1"):
        flat(*rows, terminal=[1, 2])
    with pytest.raises(ModelError, match="terminal names state -1"):
        flat(*rows, terminal=[-1])
    with pytest.raises(ModelError, match=r"terminal has shape \(3,\)"):
        flat(*rows, terminal=[False, True, False])
    with pytest.raises(ModelError, match="terminal must list state numbers"):
        flat(*rows, terminal=[1.0])


def test_unreachable_states_stay_where_they_are():
    mdp = flat([0, 1, 2], [0, 0, 0], [1, 1, 1], [0, 2, 1], [0, 5, 6], n_states=3)
    assert mdp.n_states == 3 and mdp.pair_state.tolist() == [0, 1, 2]


# ---- the first state


def test_initial():
    assert flat(*ROWS, initial=1).initial.tolist() == [0, 1] and flat(*ROWS, initial=np.int64(1)).initial_rounding == 0
    assert flat(*ROWS, initial=[F(1, 3), F(2, 3)]).initial.tolist() == [1 / 3, 2 / 3]
    assert flat(*ROWS, initial=np.array([1, 0])).hash == REFERENCE.hash
    law = np.array([0.5, 0.5 + 5e-10])
    before = law.tobytes()
    assert abs(flat(*ROWS, initial=law).initial.sum() - 1) < 1e-15 and law.tobytes() == before
    for wrong, text in (
        (2, r"initial state 2 is not in 0\.\.1"),
        (-1, r"initial state -1 is not in"),
        ([1.0], r"initial has shape \(1,\)"),
        ([0.5, 0.4], "initial sums to 0.9"),
        ([1.5, -0.5], "initial: state 1 has probability -0.5"),
        ([np.nan, 1], "initial: state 0 has probability nan"),
        ([F(1, 2), F(1, 3)], "exact initial probabilities sum to 5/6"),
        (True, "initial has shape"),
    ):
        with pytest.raises(ModelError, match=text):
            flat(*ROWS, initial=wrong)


def test_an_episode_starts_where_there_are_actions():
    with pytest.raises(ModelError, match=r"state 1: an episode starts there with probability 0.5, but it has no actions"):
        flat([0], [0], [1.0], [1], [1], terminal=[1], initial=[0.5, 0.5])


# ---- names, hash


def test_names():
    mdp = flat(*ROWS, state_names=["home", "away"], action_names=("stay", "go"))
    assert mdp.state_names == ("home", "away") and mdp.action_names == ("stay", "go")
    with pytest.raises(ModelError, match="state_names has 1 entries, 2 are needed"):
        flat(*ROWS, state_names=["home"])


def test_hash_tells_models_apart():
    assert flat(*ROWS, source={"id": "x"}, state_names=["a", "b"]).hash == REFERENCE.hash
    others = [
        flat(*ROWS, initial=1),
        flat(*ROWS, n_actions=3),
        flat(*ROWS, [True, False, False, False]),
        flat(*ROWS[:4], [1, 1, 2, 4]),
        flat(*ROWS[:2], [0.25, 0.75, 1, 1], *ROWS[3:]),
    ]
    assert len({m.hash for m in [REFERENCE, *others]}) == 6


# ---- regressions


def test_rounding_count_covers_rows_that_were_merged_and_normalised():
    # additions that all round one way in one branch, the other way in the other
    m = 15
    parts = [[2.0**-10] + [0.51 * 2.0**-62] * (m - 1), [1 - 2.0**-10 - 2.0**-50] + [0.49 * 2.0**-53] * (m - 1)]
    mdp = flat([0] * 2 * m, [0] * 2 * m, parts[0] + parts[1], [0] * m + [1] * m, [0] * 2 * m, [True] * 2 * m, terminal=[1])
    total = sum(F(p) for part in parts for p in part)
    for s, part in enumerate(parts):
        ours = F(float(mdp.probability[mdp.next_state.tolist().index(s)]))
        assert abs(ours / (sum(map(F, part)) / total) - 1) <= F(int(mdp.pair_rounding[0]), 2**53)


def test_equal_models_have_equal_hashes_whatever_their_numbers_came_as():
    exact = flat(*ROWS[:4], [F(1), F(1), F(2), F(3)])
    assert exact.hash == REFERENCE.hash
    assert one_pair([1.0], [1], ["0.1"]).hash == one_pair([1.0], [1], [0.1]).hash
    assert one_pair([1.0], [1], [F(1, 3)]).hash != one_pair([1.0], [1], [1 / 3]).hash


def test_hash_tells_rewards_apart_that_round_to_one_float():
    one, other = (flat([0, 1], [0, 0], [1, 1], [0, 1], pays) for pays in ([2**53, 2**53 + 1], [2**53 + 1, 2**53]))
    assert one.reward.tolist() == other.reward.tolist() and one.hash != other.hash


def test_exact_probabilities_below_float64():
    tiny = F(1, 10**400)
    with pytest.raises(ModelError, match="state 0, action 0"):
        one_pair([tiny, 1 - tiny])
