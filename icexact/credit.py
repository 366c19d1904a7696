"""The credit of a step (C1): how much of the entropy of the return each step's action, transition and reward put in; Propositions 1 and 2; the variance in the same coordinates."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from icexact import bounds, policies
from icexact.backward import backward
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, check_budget, check_horizon, in_base, log_base, provenance, unit
from icexact.returns import Law


@dataclass(frozen=True, eq=False)
class Proposition:
    """Both sides of a proposition of the paper for each step, and the gap between them (>= 0), worked out for itself: Bounded [H] each."""

    left: Bounded
    right: Bounded
    gap: Bounded


@dataclass(frozen=True, eq=False)
class Variance:
    """(C6): Var(Z) split into skill, luck and noise [H], each with its weight gamma^{2h}, so that they add up to `total` ()."""

    skill: Bounded
    luck: Bounded
    noise: Bounded
    total: Bounded


@dataclass(frozen=True, eq=False)
class ByState:
    """Skill, luck and noise by the state in which they arise, summed over the steps: Bounded [S] each. Luck is that of the transition which leaves the state; that of the first state is in none."""

    skill: Bounded
    luck: Bounded
    noise: Bounded


@dataclass(frozen=True, eq=False, repr=False)
class Credit(Result):
    """See `credit`."""

    skill: Bounded
    luck: Bounded
    noise: Bounded
    total: Bounded
    return_entropy: Bounded
    policy_entropy: Bounded
    proposition_1: Proposition
    proposition_2: Proposition
    variance: Variance
    mean: Bounded
    by_state: ByState
    return_law: Law
    horizon: int
    discount: Fraction
    base: float | None
    laws: object = None
    source: dict = field(default_factory=dict)

    def summary(self):
        """One screen: H(Z) and what put it there."""
        return "\n".join([*credit_lines(self), self.footer()])


def credit_lines(c):
    """H(Z), its parts and the busiest steps, for a screen."""
    name = unit(c.base)
    sums = {part: getattr(c, part).total() for part in ("skill", "luck", "noise")}
    whole = c.return_entropy
    lines = [f"Credit over {c.horizon} steps, discount {c.discount}, in {name}", f"  H(Z)   {whole}"]
    for part, what in (("skill", "actions"), ("luck", "transitions"), ("noise", "rewards")):
        share = f"{100 * float(sums[part]) / float(whole):5.1f} %" if float(whole) > 0 else ""
        lines.append(f"  {part:<6} {sums[part]!s:<22} {share}  put in by {what}")
    if c.horizon:
        busiest = np.argsort(-c.total.value, kind="stable")[:5]
        lines.append("  step   skill / luck / noise")
        lines += [f"  {h:<6} {c.skill[h]} / {c.luck[h]} / {c.noise[h]}" for h in np.sort(busiest)]
    return lines


def _of(pair, scale):
    return in_base(pair[0], pair[1], scale)


def make_credit(mdp, b, horizon, gamma, base, laws=None):
    """`Credit` from what the passes found."""
    scale = log_base(base)
    parts = [in_base(b.value[i], b.error[i], scale) for i in range(3)]
    skill, luck, noise = parts
    total = _added(*parts)
    chance = _added(luck, noise)
    p1 = [in_base(b.proposition_1[0][i], b.proposition_1[1][i], scale) for i in range(3)]
    variance = [Bounded(b.variance[0][i], b.variance[1][i]) for i in range(3)]
    states = [in_base(b.by_state[i], b.by_state_error[i], scale) for i in range(3)]
    return Credit(
        skill, luck, noise, total, _of(b.entropy, scale), _of(b.policy_entropy, scale), Proposition(*p1), Proposition(total, skill, chance),
        Variance(*variance, Bounded(*b.variance_total)), Bounded(*b.mean), ByState(*states), make_law(b), horizon, gamma, base, laws, provenance(mdp, f"credit, {b.method}"),
    )  # fmt: skip


def make_law(b):
    """The law of Z that the backward pass ended in."""
    keys, p = b.law.row(0)
    return Law(b.law.values(keys), Bounded(p, p * bounds.gamma(b.law_count) + b.law_underflow))


def _added(*terms):
    value = sum(t.value for t in terms)
    return Bounded(value, (sum(t.error for t in terms) + value * float(bounds.gamma(2))) * (1 + 1e-15))


def credit(mdp, policy, *, horizon, discount=1, base=None, keep="none", budget=4 << 30, engine=None, progress=None):
    """Split the entropy of the return Z, exactly, into what actions (skill), transitions (luck) and reward noise put in at each step.

    skill_h = I(Z; A_h | tau^{h-1}, S_h), luck_h = I(Z; S_h | tau^{h-1}), noise_h = I(Z; R_h | tau^{h-1}, S_h, A_h), total_h = I(Z; tau_h | tau^{h-1}) (C1); over
    all steps they add up to `.return_entropy` = H(Z) (C2). All are `Bounded` [H], in nats, or in the unit of `base`.

    `.proposition_1`, `.proposition_2`: both sides of the paper's propositions and the gap, [H] each (C4), (C3). `.variance`: the same split of Var(Z) (C6).
    `.by_state`: where credit arises [S]. `.return_law`: the law of Z; `.mean` E[Z]; `.policy_entropy` H(A_h | S_h) [H].

    keep="all" also keeps every law (`.laws`, a `return_law` over all steps). budget: bytes, predicted before the work; engine, progress: as in `return_law`.

    Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.delayed_effect(2)
    >>> c = ic.credit(mdp, ic.policies.uniform(mdp), horizon=2, base=2)
    >>> c.skill, c.return_entropy
    (Bounded([1.000000000000 0]), 1.000000000000)
    """
    horizon, gamma, budget = check_horizon(horizon), read_discount(discount), check_budget(budget)
    log_base(base)
    if keep not in ("none", "all"):
        raise ValueError(f"keep is {keep!r}; it must be 'none' or 'all'")
    laws = None
    if keep == "all":
        from icexact.returns import return_law

        laws = return_law(mdp, policy, horizon=horizon, discount=discount, keep="all", budget=budget, engine=engine, progress=progress)
    found = backward(mdp, policies.read(mdp, policy, horizon), horizon, gamma, budget=budget, engine=engine, progress=progress)
    return make_credit(mdp, found, horizon, gamma, base, laws)
