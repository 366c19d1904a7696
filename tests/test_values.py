"""Section 4 of the spec through the public API: closed forms, the stated error being the tolerance."""

from fractions import Fraction
from math import comb, log

import numpy as np
import pytest
from oracle import MP, within

import icexact as ic

PARTS = ("skill", "luck", "noise")


def inside(answer, exact):
    """Each entry of a Bounded within its error of the exact number (int, Fraction or mpf)."""
    value, error = np.atleast_1d(answer.value), np.atleast_1d(answer.error)
    exact = exact if isinstance(exact, list) else [exact]
    assert value.shape == (len(exact),)
    for v, e, x in zip(value, error, exact):
        assert within(v, e, x), (v, e, x)
        assert e <= 1e-11 * max(abs(float(x)), 1e-300) or x == 0


def bits(law):
    """Entropy of Fractions in bits, to 80 digits."""
    return -sum(MP.mpf(p.numerator) / p.denominator * MP.log(MP.mpf(p.numerator) / p.denominator, 2) for p in law if p)


def binomial(n):
    return [Fraction(comb(n, k), 2**n) for k in range(n + 1)]


@pytest.mark.parametrize(
    "L, printed", [(1, "1.0000000000"), (2, "0.5000000000"), (3, "0.3112781245"), (5, "0.1675533488"), (10, "0.0765014591"), (20, "0.0370393995")]
)
@pytest.mark.parametrize("engine", ["lattice", "keys"])
def test_umbrella(L, printed, engine):
    mdp = ic.examples.umbrella(L)
    found = ic.information_sparsity(mdp, ic.policies.uniform(mdp), horizon=L, base=2, engine=engine)
    exact = bits(binomial(L)) - bits(binomial(L - 1))
    inside(found.per_step[0], exact)
    assert f"{float(found.per_step[0]):.10f}" == printed
    assert (found.per_step.value[1:] == 0.0).all()
    inside(found.value, exact / L)
    c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=L, base=2, engine=engine)
    inside(c.return_entropy, bits(binomial(L)))
    # the coin of step h, with L - 2 - h coins still to come and what the last step pays known
    inside(c.noise, [bits(binomial(n)) - bits(binomial(n - 1)) for n in range(L - 1, 0, -1)] + [0])


def test_shortcut():
    mdp = ic.examples.shortcut()
    policy = ic.policies.uniform(mdp)
    law = ic.return_law(mdp, policy, horizon=4)
    values, p = law.law()
    F = Fraction
    assert values.tolist() == [-2.0, -1.0, 0.0, 1.0] and law.exact_values() == [-2, -1, 0, 1]
    inside(p, [F("0.091125"), F("0.111375"), F("0.2475"), F("0.55")])
    c = ic.credit(mdp, policy, horizon=4)
    inside(c.variance.total, F(61449399, 64000000))
    inside(c.variance.skill, [F("0.552978140625"), F("0.1915903125"), F("0.04100625"), 0])
    inside(c.variance.noise, [F("0.12288403125"), F("0.042575625"), F("0.0091125"), 0])
    assert (c.variance.luck.value <= c.variance.luck.error).all() and (c.luck.value == 0.0).all()
    entropy = bits([F("0.091125"), F("0.111375"), F("0.2475"), F("0.55")])
    inside(c.return_entropy, entropy * MP.log(2))
    inside(ic.credit(mdp, policy, horizon=4, base=2).return_entropy, entropy)
    inside(ic.credit(mdp, policy, horizon=4, base=10).return_entropy, entropy * MP.log(2) / MP.log(10))


@pytest.mark.parametrize("m", [2, 3, 7])
def test_delayed_effect(m):
    mdp = ic.examples.delayed_effect(m)
    c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=m, base=2)
    inside(c.skill[0], 1)
    assert (c.skill.value[1:] == 0.0).all() and (c.luck.value == 0.0).all() and (c.noise.value == 0.0).all()
    inside(c.return_entropy, 1)


def test_two_arms_of_equal_mean():
    mdp = ic.examples.two_arms()
    c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=1, base=2)
    inside(c.skill[0], 1)
    inside(c.noise[0], (bits([Fraction(1, 4), Fraction(3, 4)]) + 1) / 2)
    # the advantage is 0, so the variance sees no skill
    assert c.variance.skill.value[0] <= c.variance.skill.error[0] < 1e-12
    inside(c.variance.total, Fraction(13, 2))
    assert abs(float(c.mean)) <= float(c.mean.error) < 1e-12


@pytest.mark.parametrize("H", range(1, 13))
def test_coin_at_discount_one_half(H):
    mdp = ic.examples.coin()
    law = ic.return_law(mdp, ic.policies.uniform(mdp), horizon=H, discount=0.5)
    values, p = law.law()
    assert law.exact_values() == [k * Fraction(2, 2**H) for k in range(2**H)]
    assert values.tolist() == [k * 2.0 ** (1 - H) for k in range(2**H)]
    inside(p, [Fraction(1, 2**H)] * 2**H)
    c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=H, discount="1/2", base=2)
    inside(c.return_entropy, H)
    inside(c.noise, [1] * H)
    # Var = sum 4^-h / 4
    inside(c.variance.noise, [Fraction(1, 4 ** (h + 1)) for h in range(H)])


def test_frozen_lake_over_100_steps():
    pytest.importorskip("gymnasium")
    mdp = ic.from_gymnasium("FrozenLake-v1")
    policy, H = ic.policies.uniform(mdp), 100
    found = ic.analyze(mdp, policy, horizon=H)
    c = found.credit

    # E[Z] by the law, by the occupancy and by plain value iteration
    v = np.zeros(mdp.n_states)
    for _ in range(H):
        q = np.zeros(mdp.n_pairs)
        for k in range(mdp.n_pairs):
            b = slice(mdp.branch_ptr[k], mdp.branch_ptr[k + 1])
            q[k] = np.dot(mdp.probability[b], mdp.reward[b] + np.where(mdp.ends[b], 0.0, v[mdp.next_state[b]]))
        v = np.bincount(mdp.pair_state, q / 4, mdp.n_states)
    occ = ic.occupancy(mdp, policy, horizon=H)
    reward = np.add.reduceat(mdp.probability * mdp.reward, mdp.branch_ptr[:-1])
    by_law = ic.return_law(mdp, policy, horizon=H).mean()
    for mean in (float(np.dot(occ.pair.value.sum(axis=0), reward)), mdp.initial @ v, float(by_law), float(found.return_law.probabilities[1])):
        assert abs(mean - float(c.mean)) <= float(c.mean.error) + 1e-15
    assert abs(float(c.mean) - 0.0139397962) < 1e-6
    assert c.mean.error < 1e-12 * float(c.mean)

    # luck + skill + noise = H(Z)
    total = sum(getattr(c, part).value.sum() for part in PARTS)
    room = sum(getattr(c, part).error.sum() for part in PARTS) + float(c.return_entropy.error)
    assert abs(total - float(c.return_entropy)) <= room < 1e-11 * total
    assert abs(float(found.gap())) <= float(found.gap().error)
    p = float(c.mean)
    assert abs(float(c.return_entropy) + p * log(p) + (1 - p) * np.log1p(-p)) < 1e-14
    # five steps at least to the goal, where alone a reward is paid
    assert (c.noise.value[:5] == 0.0).all() and (c.noise.value[5:] > 0.0).all()
