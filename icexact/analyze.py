"""The main job: occupancy, the law of the return, information sparsity and credit from one forward and one backward pass."""

from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction

import numpy as np

from icexact import bounds, policies
from icexact.backward import backward
from icexact.credit import Credit, credit_lines, make_credit
from icexact.occupancy import Occupancy
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, check_budget, check_horizon, log_base, provenance
from icexact.returns import Law
from icexact.sparsity import InformationSparsity, make_sparsity


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Result):
    """See `analyze`: `occupancy`, `return_law` (values and probabilities of Z), `sparsity` and `credit`."""

    occupancy: Occupancy
    return_law: Law
    sparsity: InformationSparsity
    credit: Credit
    n_states: int
    n_pairs: int
    n_branches: int
    horizon: int
    discount: Fraction
    base: float | None
    grid: tuple | None = None
    source: dict = field(default_factory=dict)

    def to_dict(self):
        """All numbers as plain lists, each Bounded as {"value": .., "error": ..}: ready for JSON. Occupancy is left to `.occupancy`."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name != "occupancy"} | {"alive": plain(self.occupancy.alive)}

    def summary(self):
        """One screen: the model, the return, H(Z) and what put it there, each with its proven digits."""
        c = self.credit
        values = self.return_law.values
        lines = [
            f"{self.source.get('name') or 'MDP'}: {self.n_states} states, {self.n_pairs} pairs, {self.n_branches} branches",
            f"  E[Z]   {c.mean}   Var(Z) {c.variance.total}",
            f"  Z has {len(values)} atoms from {values[0]:.12g} to {values[-1]:.12g}" if len(values) > 1 else f"  Z is {values[0]:.12g} with certainty",
            f"  I(A; Z | S) = {self.sparsity.value}, alive at the last step {self.occupancy.alive[-1] if self.horizon else 1}",
            *credit_lines(c),
            f"  skill + luck + noise - H(Z) = {self.gap().value:.1e} (proven to be 0 within {self.gap().error:.1e})",
            self.footer(),
        ]
        return "\n".join(lines)

    def gap(self):
        """What (C2) misses in floating point: sum of the credit minus H(Z), with the error that both sides allow."""
        c = self.credit
        total, whole = c.total, c.return_entropy
        value = float(total.value.sum()) - float(whole.value)
        return Bounded(value, float(total.error.sum() + whole.error) + float(whole.value) * float(bounds.gamma(self.horizon + 3)))


def plain(x):
    """Results as dictionaries, lists and numbers."""
    if isinstance(x, Bounded):
        return {"value": x.value.tolist(), "error": x.error.tolist()}
    if isinstance(x, Law):
        return {"values": x.values.tolist(), "probabilities": plain(x.probabilities)}
    if isinstance(x, np.ndarray):
        return x.tolist()
    if isinstance(x, Fraction):
        return str(x)
    if is_dataclass(x):
        return {f.name: plain(getattr(x, f.name)) for f in fields(x) if not f.name.startswith("_")}
    if isinstance(x, tuple):
        return [plain(y) for y in x]
    return x


def analyze(mdp, policy, *, horizon, discount=1, base=None, budget=4 << 30, engine=None, progress=None):
    """Everything about one policy over one horizon: see `occupancy`, `return_law`, `information_sparsity` and `credit`, from one pass forward and one back.

    `print` it for a screen; `.to_dict()` for JSON, `.save(path)` for `.npz`. Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.shortcut()
    >>> ic.analyze(mdp, ic.policies.uniform(mdp), horizon=4, base=2).credit.return_entropy
    1.640559785215
    """
    horizon, gamma, budget = check_horizon(horizon), read_discount(discount), check_budget(budget)
    log_base(base)
    read = policies.read(mdp, policy, horizon)
    found = backward(mdp, read, horizon, gamma, budget=budget, engine=engine, progress=progress)
    state = np.zeros((horizon, mdp.n_states))
    state[:, found.states] = found.forward.state
    forward = found.forward
    state = Bounded.relative(state, forward.factor(), forward.underflow)
    c = make_credit(mdp, found, horizon, gamma, base)
    grid = mdp.source.get("grid")
    return Analysis(
        Occupancy(state, found.forward.alive(), horizon, Fraction(1), provenance(mdp, "occupancy"), read, mdp.pair_state), c.return_law, make_sparsity(mdp, found, horizon, gamma, base), c,
        mdp.n_states, mdp.n_pairs, mdp.n_branches, horizon, gamma, base, tuple(grid) if grid else None, provenance(mdp, f"analysis, {found.method}"),
    )  # fmt: skip
