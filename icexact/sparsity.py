"""Information sparsity (the paper's Definition 1): what an action tells about the return-to-go, (S1) and (S2)."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from icexact import bounds, policies
from icexact.backward import TAU, _Counts, backward
from icexact.chain import branching
from icexact.endless import sparsity_without_horizon
from icexact.keys import Keys
from icexact.lattice import Lattice
from icexact.pooled import pooled as pooled_information
from icexact.progress import Progress
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, check_budget, check_horizon, in_base, log_base, provenance, unit
from icexact.support import KeyPlan, choose


@dataclass(frozen=True, eq=False, repr=False)
class InformationSparsity(Result):
    """`value` () is the paper's I(A; Z | S), `per_step` [H] is I(A_h; G_h | S_h), `policy_entropy` [H] its bound H(A_h | S_h), `per_pair` [H, K] or None (S1), `pooled` () or None (S3).

    Without horizon (S4) `per_step` is None, `policy_entropy` () the bound of `value`, the average of H(A | S = s), and `alive` () the mass of the occupancy.
    """

    value: Bounded
    per_step: Bounded | None
    policy_entropy: Bounded
    alive: Bounded
    per_pair: Bounded | None
    horizon: int | None
    discount: Fraction
    base: float | None
    source: dict = field(default_factory=dict)
    pooled: Bounded | None = None  #: (), see `information_sparsity`

    def summary(self):
        """One screen of text."""
        if self.horizon is None:
            return "\n".join([f"Information sparsity without horizon, discount {self.discount}, in {unit(self.base)}", f"  I(A; Z | S) = {self.value} of at most H(A | S) = {self.policy_entropy}", self.footer()])
        lines = [f"Information sparsity over {self.horizon} steps, discount {self.discount}, in {unit(self.base)}", f"  I(A; Z | S) = {self.value}"]
        lines += [f"  step {h}: I(A_h; G_h | S_h) = {self.per_step[h]} of at most H(A_h | S_h) = {self.policy_entropy[h]}" for h in range(min(self.horizon, 8))]
        if self.horizon > 8:
            lines.append(f"  .. and {self.horizon - 8} later steps")
        if self.pooled is not None:
            lines.insert(2, f"  without a clock: I(A; G | S) = {self.pooled}")
        return "\n".join([*lines, self.footer()])


def make_sparsity(mdp, b, horizon, gamma, base, per_pair=None, pooled=None):
    """`InformationSparsity` from what the passes found."""
    scale = log_base(base)
    alive = b.forward.alive()
    if horizon:
        # (S2) over the expected episode length
        top, length = float(b.value[0].sum()), float(alive.value.sum())
        relative = float(bounds.gamma(2 * horizon + 3))
        top_error, length_error = float(b.error[0].sum()) + top * relative, float(alive.error.sum()) + length * relative
        value = top / length
        error = (top_error + value * length_error) / (length - length_error) + value * float(bounds.gamma(2))
    else:
        value = error = 0.0
    return InformationSparsity(
        in_base(value, error, scale), in_base(b.value[0], b.error[0], scale), in_base(*b.policy_entropy, scale), alive,
        None if per_pair is None else in_base(*per_pair, scale), horizon, gamma, base, provenance(mdp, f"information sparsity, {b.method}"),
        None if pooled is None else in_base(*pooled, scale),
    )  # fmt: skip


def information_sparsity(mdp, policy, *, horizon=None, discount=1, base=None, per_pair=False, pooled=False, tolerance=1e-9, budget=4 << 30, engine=None, progress=None):
    """How much an action tells, on average, about what is gained from it on: the paper's I(A; Z | S).

    `.value`: sum over h of (S2), over the expected episode length; `.per_step` [H]: I(A_h; G_h | S_h) (S2), never more than `.policy_entropy` [H]. With
    `per_pair=True` also `.per_pair` [H, K]: KL(q_h(. | s, a) || v_h(. | s)) (S1), for every state whether it can be occupied or not; infinite where an
    action that is never played reaches a return that the others cannot (nan +- inf where underflow leaves that open). In nats, or in the unit of `base`. A horizon of 0 gives 0.

    With `pooled=True` also `.pooled` (): I(A; G | S) of (S_h, A_h, G_h) at a step h drawn uniformly from 0 .. H-1 (S3), what an observer without a clock sees. The end
    counts as a state with one null action there, so it adds 0 but has its share of the draws: the weights are d_h(s, a) / H, which sum to
    (alive mass over all steps) / H, whereas `.value` divides by the alive mass. Returns of different steps are one value where they are equal as exact numbers. For a policy
    that is the same at every step the clock can only help: `.pooled` <= sum of `.per_step` / H <= `.value`. One that changes with the step may be seen through
    the return: then `.pooled` can be larger.

    Without horizon (S4): the discounted occupancy (O2), or for discount 1 the expected visits (O3), in place of d_h, and the return of the whole episode. `.value` is divided by the
    mass of the occupancy (`.alive`); `.policy_entropy` () is its bound. The law of the return is followed until what may still be earned moves `.value` by less than `tolerance` (in the unit of `base`),
    and the error covers what was cut off (`icexact.endless` has the proof). That needs a policy that is the same at every step, and earning that ends: with certainty, though not by any given step.
    `.per_step` is None; `per_pair` and `pooled` need a horizon.

    Raises BudgetError, PolicyError, ValueError; without horizon also EndingError, naming the states from which episodes never end or go on earning for ever, and AccuracyError.

    >>> import icexact as ic
    >>> mdp = ic.examples.umbrella(2)
    >>> ic.information_sparsity(mdp, ic.policies.uniform(mdp), horizon=2, base=2).per_step
    Bounded([0.5000000000000 0])
    >>> mdp = ic.examples.shortcut()
    >>> ic.information_sparsity(mdp, ic.policies.uniform(mdp), horizon=None, base=2).value
    0.718647745938
    """
    gamma, budget, scale = read_discount(discount), check_budget(budget), log_base(base)
    if horizon is None:
        if per_pair or pooled:
            raise ValueError(f"{'per_pair' if per_pair else 'pooled'}=True needs a horizon: {'each pair has a divergence at each step' if per_pair else 'the step is drawn uniformly from 0 .. horizon-1'}")
        if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, np.integer, np.floating)) or not 0 < tolerance < np.inf:
            raise ValueError(f"tolerance is {tolerance!r}; it must be a number > 0: the error that the value may have, 1e-9 by default")
        value, entropy, mass, method = sparsity_without_horizon(mdp, policies.read(mdp, policy), gamma, float(tolerance) * scale, budget, engine, progress)
        return InformationSparsity(in_base(*value, scale), None, in_base(*entropy, scale), mass, None, None, gamma, base, provenance(mdp, f"information sparsity without horizon, {method}"))
    horizon = check_horizon(horizon)
    read = policies.read(mdp, policy, horizon)
    # the pairs of all states first: what does not fit is refused by the larger need
    pairs = _per_pair(mdp, read, horizon, gamma, budget, engine, progress) if per_pair else None
    without_clock = pooled_information(mdp, read, horizon, gamma, budget, engine, progress) if pooled else None
    found = backward(mdp, read, horizon, gamma, budget=budget, engine=engine, progress=progress)
    return make_sparsity(mdp, found, horizon, gamma, base, pairs, without_clock)


def _per_pair(mdp, read, horizon, gamma, budget, engine, progress):
    """(S1) for every pair of every state, with its error."""
    value, error = np.zeros((horizon, mdp.n_pairs)), np.zeros((horizon, mdp.n_pairs))
    if horizon == 0:
        return value, error
    b = branching(mdp)
    counts = _Counts(mdp, read, b, horizon)
    plan = choose(mdp, np.ones(mdp.n_pairs, dtype=np.bool_), horizon, gamma, engine, budget, lambda plan, k: plan.apart().bytes(k) - plan.bytes(k) + 16 * k * mdp.n_pairs, "the information of each pair", read)
    if plan is not None:
        # the step's laws are read beside the later ones: two whole tables
        plan = plan.apart()
        walk = Lattice(plan, horizon)
    else:
        walk = Keys(KeyPlan(mdp.rewards.values, gamma), mdp.n_states, horizon, budget)
    states = np.flatnonzero(np.diff(mdp.pair_ptr) > 0)
    terms, entropy, later = np.zeros((12, mdp.n_states)), np.zeros(mdp.n_states + 1), np.zeros(mdp.n_states + 1)
    with Progress(progress, horizon, "information of each pair") as bar:
        for h in range(horizon - 1, -1, -1):
            walk.credit_step(states, b, read.at(h), later, entropy, counts.rate(walk.width), TAU, terms)
            entropy, later = later, entropy
            walk.pair_step(states, b, read.at(h), value[h])
            finite = np.isfinite(value[h])
            if counts.risk and not finite.all():
                # an atom lost to underflow looks like one that cannot be: no number then
                value[h, ~finite], error[h, ~finite] = np.nan, np.inf
            error[h, finite] = bounds.difference_error(value[h, finite], 0.0, value[h, finite], np.ones(int(finite.sum())), int(counts.q[h]), int(counts.v[h]), 0.0, walk.width) + (bounds.dust(walk.width) if counts.risk else 0.0)
            bar.advance()
    return value, error
