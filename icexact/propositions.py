"""The paper's propositions about one model, policy and horizon: whether each identity holds there, and by how much it misses."""

from dataclasses import dataclass

from icexact import bounds
from icexact.results import Bounded, Result, in_base, log_base, unit


@dataclass(frozen=True, eq=False, repr=False)
class Identity(Result):
    """One proposition: its two sides and `miss`, the right side off the left, each summed over the steps.

    `holds`: True (proven), False (proven not to), None where float64 cannot tell a miss from none. `fails` counts the steps that are proven to miss.
    """

    number: str
    statement: str
    left: Bounded
    right: Bounded
    miss: Bounded
    holds: bool | None
    fails: int
    steps: int
    why: str
    base: float | None

    def verdict(self):
        """What is to be said of it, in one sentence."""
        if self.holds:
            return "holds" if float(self.miss.error) == 0 else f"holds; the two sides, worked out apart, differ by {float(self.miss):.1e} (proven to be 0 within {float(self.miss.error):.1e})"
        if self.holds is None:
            return f"cannot be told from holding: it misses by at most {float(self.miss.upper):.1e} {unit(self.base)}"
        return f"misses by {self.miss} {unit(self.base)}, at {self.fails} of {self.steps} steps: {self.why}"

    def summary(self):
        """Two lines."""
        return f"Proposition {self.number}, {self.statement}\n  {self.left} = {self.right}? {self.verdict()}"


def propositions(credit, sequences=None):
    """`Identity` of each: 1 (C4) and 2 (C3) from a `Credit`; 3 and 4, where `Sequences` are given, by both ways through (D1)."""
    base = credit.base
    found = [
        _by_step("1", "I(Z; tau_h | tau^-h) = H(R_h | tau^{h-1})", credit.proposition_1, base, "S_{h+1} tells more of the reward than the past does"),
        _by_step("2", "I(Z; tau_h | tau^{h-1}) = E[log h(A_h | S_h, Z) / pi(A_h | S_h)]", credit.proposition_2, base, "transitions and rewards put entropy into the return too"),
    ]
    if sequences is not None:
        scale = log_base(base)
        one, two = sequences.rewards_backward, sequences.rewards
        left, right = one.total(scale), two.total(scale)
        low, high = one.total_lower - two.total_upper, one.total_upper - two.total_lower
        slack = float(bounds.gamma(4)) * (one.total_upper + two.total_upper)
        miss = in_base((low + high) / 2, (high - low) / 2 + slack, scale)
        why = "a theorem for every model, so this would be a fault of icexact"
        agree = low - slack <= 0 <= high + slack
        found.append(Identity("3 and 4", "I(tau; G_0, .., G_{H-1}) = I(tau^H -> Z^H) = H(R_0, .., R_{H-1})", left, right, miss, agree, 0 if agree else 1, sequences.horizon, why, base))
    return tuple(found)


def _by_step(number, statement, sides, base, why):
    gap = sides.gap
    fails = int((gap.lower > 0).sum())
    holds = False if fails else True if not gap.upper.any() else None
    return Identity(number, statement, sides.left.total(), sides.right.total(), gap.total(), holds, fails, len(gap), why, base)
