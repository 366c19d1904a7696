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
