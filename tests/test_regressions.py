"""One test a fault that was met, named after it."""

from fractions import Fraction

import numpy as np
import pytest

import icexact as ic


def test_variance_lost_to_underflow_is_not_called_exact():
    mdp = ic.MDP.from_branches([0, 0], [0, 0], ["1/3", "2/3"], [0, 0], ["0", "1e-200"], n_states=1, initial=0)
    variance = ic.credit(mdp, [1.0], horizon=5).variance.total
    exact = 5 * Fraction(2, 9) * Fraction(10) ** -400
    assert abs(Fraction(float(variance.value)) - exact) <= Fraction(float(variance.error))


def test_visits_lost_to_underflow_are_not_called_exact():
    n, p = 200, Fraction(1, 1000)
    state = np.repeat(np.arange(n), 2)
    mdp = ic.MDP.from_branches(state, 0 * state, np.tile([0.001, 0.999], n), np.stack([np.minimum(np.arange(n) + 1, n - 1), np.zeros(n, int)], 1).ravel(), 0 * state, np.tile([False, True], n), n_states=n, initial=0)
    for gamma in (Fraction(1), Fraction(9, 10)):
        visits = ic.occupancy(mdp, np.ones(n), discount=gamma).state
        for s in (0, 1, 50, 150, 190):
            exact = (p * gamma) ** s * (1 if gamma == 1 else 1 - gamma)
            assert abs(Fraction(float(visits.value[s])) - exact) <= Fraction(float(visits.error[s]))


def test_sparse_rewards_keep_their_own_width():
    from scipy.sparse import csr_array

    ones = csr_array(np.ones((1, 1)))
    mdp = ic.MDP.from_arrays([ones], [csr_array(np.full((1, 1), 0.1, dtype=np.float32))], axes="ass", initial=0)
    assert mdp.rewards.values == (Fraction(1, 10),)


def test_a_discount_with_an_absurd_exponent_is_refused_at_once():
    with pytest.raises(ValueError, match="exponent"):
        ic.return_law(ic.examples.coin(), [1.0], horizon=2, discount="1e-999999999")


def test_an_infinite_tolerance_does_not_accept_every_row():
    with pytest.raises(ic.ModelError, match="tolerance"):
        ic.MDP.from_branches([0], [0], [0.6], [0], [0], n_states=1, initial=0, tolerance=np.inf)


def test_epsilon_too_small_for_float64_is_not_taken_for_zero():
    with pytest.raises(ic.PolicyError, match="epsilon"):
        ic.policies.epsilon_greedy(ic.examples.two_arms(), [0], "1e-400")


def test_an_environment_in_place_of_the_model_is_told_so():
    with pytest.raises(TypeError, match="from_gymnasium"):
        ic.credit("FrozenLake-v1", [1.0], horizon=1)


def test_first_states_far_apart_have_room():
    mdp = ic.MDP.from_branches([0, 1, 2], [0, 0, 0], [1.0] * 3, [0, 1, 2], [0, 1, 1000], [True] * 3, n_states=3, initial=["1/3"] * 3)
    for _ in range(5):
        c = ic.credit(mdp, [1.0] * 3, horizon=1, engine="lattice", base=3)
        assert abs(float(c.return_entropy) - 1) <= float(c.return_entropy.error)
        assert abs(float(c.luck[0]) - 1) <= float(c.luck[0].error)


@pytest.mark.parametrize("call", [
    lambda: ic.MDP.from_branches([0], [0], [1.0], [0], [0], n_states=10**12, initial=0),
    lambda: ic.return_law(ic.examples.coin(), [1.0], horizon=10**12),
    lambda: ic.credit(ic.examples.coin(), [1.0], horizon=10**12),
])  # fmt: skip
def test_absurd_sizes_are_refused_before_they_are_made(call):
    with pytest.raises((ic.ModelError, ic.BudgetError)):
        call()


def test_joint_weights_lost_to_underflow_are_not_listed():
    """Each would have been listed anew, past the end of the table of rewards."""
    n, tiny = 401, 1e-200
    row = np.arange(n)
    p = np.where(row > 0, tiny, 1.0)
    mdp = ic.MDP.from_branches(np.r_[0 * row, row + 1], np.zeros(2 * n, int), np.r_[p / p.sum(), np.ones(n)], np.r_[row + 1, row + 1], np.r_[row % 3, row % 3], np.r_[np.zeros(n, bool), np.ones(n, bool)], n_states=n + 1, initial=0)
    assert float(ic.credit(mdp, np.ones(n + 1), horizon=2).proposition_1.gap.value.max()) < 1e-190


def test_an_action_hardly_ever_played_keeps_its_information():
    mdp = ic.MDP.from_branches([0, 0], [0, 1], [1.0, 1.0], [0, 0], [0, 1], [True, True], n_states=1, initial=0)
    for engine in ("lattice", "keys"):
        found = ic.information_sparsity(mdp, [1e-305, 1 - 1e-305], horizon=1, per_pair=True, engine=engine).per_pair
        assert abs(float(found.value[0, 0]) - 305 * np.log(10)) < 1e-9 and found.error[0, 0] < 1e-9


def test_a_first_state_hardly_ever_taken_is_not_lost_from_the_return():
    mdp = ic.MDP.from_branches([0, 0, 1], [0, 0, 0], [1e-200, 1.0, 1.0], [0, 0, 1], [1, 2, 0], [True] * 3, n_states=2, initial=[1e-200, 1.0])
    for engine in ("lattice", "keys"):
        assert ic.credit(mdp, np.ones(2), horizon=1, engine=engine).return_law.values.tolist() == [0, 1, 2]


def test_growth_counts_what_can_happen_only():
    coin = ic.MDP.from_branches([0, 0], [0, 1], [1.0, 1.0], [0, 0], [0, 1], n_states=1, initial=0)
    always = np.tile([[[1.0, 0.0]], [[0.0, 1.0]]], (20, 1, 1))
    assert ic.return_law(coin, always, horizon=40, discount=0.9).n_atoms == 1
    n = 21
    walk = ic.MDP.from_branches(np.r_[np.arange(20), 20, 20], np.zeros(22, int), np.r_[np.ones(20), 0.5, 0.5], np.r_[np.arange(1, n), 20, 20], np.r_[np.zeros(20, int), 0, 1], n_states=n, initial=0)
    found = ic.credit(walk, np.ones(n), horizon=30, discount=0.9).return_entropy
    assert abs(float(found) - 10 * np.log(2)) <= 1e-12


def test_exact_probabilities_next_to_one_half_are_not_called_exact():
    d = Fraction(1, 2**60)
    mdp = ic.MDP.from_branches([0, 0], [0, 0], [Fraction(1, 2) + d, Fraction(1, 2) - d], [0, 0], [0, 1], n_states=1, initial=0)
    assert mdp.pair_rounding[0] > 0


def test_lattice_of_rewards_far_apart_in_size():
    mdp = ic.MDP.from_branches([0, 1], [0, 0], [1.0, 1.0], [0, 1], ["1e15", "1e-15"], [True, True], n_states=2, initial=0)
    assert ic.return_law(mdp, np.ones(2), horizon=1).state_law(0, 1).values.tolist() == [1e-15]


def test_masked_entries_are_not_read_as_numbers():
    rows = np.ma.array([0.5, 0.5, 9.0], mask=[False, False, True])
    with pytest.raises(ic.ModelError, match="masked"):
        ic.MDP.from_branches([0, 0, 0], [0, 0, 0], rows, [0, 0, 0], [0, 1, 2], n_states=1, initial=0)
    with pytest.raises(ic.PolicyError, match="masked"):
        ic.credit(ic.examples.two_arms(), np.ma.array([1.0, 0.5], mask=[False, True]), horizon=1)


def test_states_without_rows_at_the_end_are_in_some_chunk():
    """With as many entries as chunks hold, the last cut fell before them."""
    from icexact.mdp import chunks

    for pointer in ([0, 2, 4, 4, 4], [0, 4, 4], [0, 0, 2, 2], [0, 1, 2, 3]):
        for size in (1, 2, 3, 4, 100):
            found = chunks(np.array(pointer), size)
            assert [s for begin, end in found for s in range(begin, end)] == list(range(len(pointer) - 1))
