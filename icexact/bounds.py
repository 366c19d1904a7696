"""Operation counts and what they prove (exactness.md section 1).

Everything here is computed from nonnegative numbers by + and x. A value whose formation takes n roundings on its deepest
path then lies within a factor (1 +- u)^n of the exact one, u = 2^-53, whatever the order of the sums and whether or not multiply and add are fused:
`gamma(n)` bounds the relative error. Counts add at a product, and take the larger plus one at a sum.

What the bounds assume: IEEE doubles rounded to nearest with gradual underflow; `log` right to `LOG` units u, `divergence` to
`DIVERGENCE` units (both measured against 40-digit references by the tests, with margin).
"""

import math

import numpy as np

UNIT = 2.0**-53
LOG = 4  #: units u: 2 ulp; measured 0.8 ulp
DIVERGENCE = 40  #: units u; measured 21
TINY_EXPONENT = -1000  #: atoms below 2^-1000 count as 0 in information sums
_SLACK = 1 + 1e-9  #: for the rounding of the bounds themselves


def gamma(n):
    """n u / (1 - n u), the relative error that n roundings can leave; n may be an array."""
    nu = np.asarray(n, dtype=np.float64) * UNIT
    if (nu > 0.01).any():
        raise OverflowError("more than 9e13 roundings: no useful bound")
    return nu / (1 - nu) * _SLACK


def row_depth(n):
    """Additions on the deepest path of a row sum of n terms (kernels.entropy)."""
    return min(n + 16, 64) + math.ceil(n / 1024)


def mixture_depth(n):
    """Additions on the deepest path of `kernels.rows.mix` over n rows: five at once, then four at a time."""
    return max(0, n - 1) if n <= 5 else 4 + 4 * math.ceil((n - 5) / 4)


def entropy_rate(mixing, width, shares=0):
    """rate such that a difference of entropies H(mix) - sum share H(part) is evaluated to within rate * scale, scale = H(mix) + sum share H(part) + 2.

    Without the 2 where all these laws have their largest atom, above 1/2, at one place and are read as 1 less their other atoms there (kernels.entropy.by_rest): the mixture of
    laws read so is read so itself, and roundings e of its other atoms m_i move its entropy by sum e_i m_i ln(top / m_i), no more than that share of it.

    This is the evaluation alone, of the parts as they were computed: `mixing` roundings make the mixture from them, `shares` are those of the weights and of
    their sum. What the parts' own errors do to the difference is `law_error`, which vanishes with the value: they move the mixture along with them.
    """
    eps = float(gamma(mixing))
    return (eps * (1 + eps) + float(gamma(row_depth(width) + LOG + 6 + shares)) * (1 + eps)) * _SLACK


def pivot_rate(count, width):
    """Relative error of `kernels.entropy.pivot_entropy`: the largest atom speaks through the others (exactness.md section 1.2)."""
    return float(gamma(count) + gamma(2 * width + 2 * LOG + 12)) * _SLACK


def law_error(value, weight, p_count, q_count):
    """What the errors of the laws can do to a weighted sum of Kullback-Leibler divergences (exactness.md section 1.3); arrays broadcast.

    value: (an upper bound of) the exact sum; weight: the sum of its weights. Atoms of p and q have p_count and q_count roundings. The total variation is bounded
    by Pinsker's inequality, averaged by Jensen's: sum w TV <= sqrt(weight * value / 2). It holds for a difference of entropies too, since that is the
    divergence of its parts from their mixture, exactly so for unnormalised laws as well.
    """
    p = math.expm1(p_count * UNIT * _SLACK)
    q = q_count * UNIT * _SLACK
    weight = np.asarray(weight, dtype=np.float64) * _SLACK
    value = np.asarray(value, dtype=np.float64)
    variation = np.sqrt(weight * value / 2)
    return (p * (value + 2 * variation) + 2 * q * variation + weight * (p * p * (1 + p) + q * q + 2 * p * q)) * _SLACK


def difference_error(value, scale, bregman, weight, p_count, q_count, rate, width):
    """Error of a weighted sum of information terms, of which `bregman` was summed in Bregman form and the rest as entropies with that rate and scale."""
    value = np.asarray(value, dtype=np.float64)
    evaluation = (rate * np.asarray(scale) + float(gamma(row_depth(width) + DIVERGENCE + 8)) * np.asarray(bregman)) * _SLACK
    exact = value + evaluation
    # the bound is in terms of the exact value, so it is iterated from the computed one
    for _ in range(60):
        error = evaluation + law_error(exact, weight, p_count, q_count) * (1 + 1e-6)
        grown = value + error
        if (grown <= exact * (1 + 1e-12)).all():
            break
        exact = np.maximum(exact, grown)
    else:
        error = 2 * error
    return np.where(np.asarray(weight) > 0, error, 0.0)


def may_underflow(least_start, least_weight, steps):
    """Whether a product of `steps` weights may fall below 2^-1000, so that relative bounds need an absolute term.

    By the smallest weight alone: where it says yes of laws, `chain.least_path` looks at the paths there are.
    """
    if min(least_start, least_weight) <= 0.0:  # a product that is below the range of float64 already
        return True
    return math.log2(least_start) + steps * math.log2(least_weight) < TINY_EXPONENT


def underflow(steps, terms):
    """What gradual underflow can have cost one atom (absolute): half a unit 2^-1074 a product, carried through the steps."""
    return (steps * (terms + 2)) * 2.0**-1074


def underflow_count(steps, terms):
    """The same relative to atoms of at least 2^-1000, in roundings."""
    return math.ceil(steps * (terms + 2) * 2.0**-21)


def dust(width):
    """What atoms below 2^-1000, left out of a row's sums, can add to an entropy or divergence."""
    return width * 2.0**-980
