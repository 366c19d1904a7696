"""The main job: occupancy, the law of the return, information sparsity and credit from one forward and one backward pass, and directed information."""

from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction

import numpy as np

from icexact import bounds, policies
from icexact.backward import backward
from icexact.credit import Credit, credit_lines, make_credit
from icexact.directed import DirectedInformation, make_directed
from icexact.occupancy import Occupancy
from icexact.propositions import Identity, propositions
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, check_budget, check_horizon, log_base, provenance, unit
from icexact.returns import Law
from icexact.sequences import Sequences, affordable, check_room, read_options, shown
from icexact.sparsity import InformationSparsity, make_sparsity

#: what is shown beside the credit: (source, target) and how a line calls them
DIRECTIONS = {
    ("trajectory", "return"): "I(trajectory -> return)",
    ("action", "reward"): "I(actions -> rewards)",
    ("state", "reward"): "I(states -> rewards)",
    ("pair", "reward"): "I(pairs -> rewards)",
    ("state", "action"): "I(states -> actions)",
    ("action", "state"): "I(actions -> states)",
}


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Result):
    """See `analyze`: `occupancy`, `return_law` (values and probabilities of Z), `sparsity`, `credit`, `directed` (a `DirectedInformation` for each of DIRECTIONS) and `propositions`."""

    occupancy: Occupancy
    return_law: Law
    sparsity: InformationSparsity
    credit: Credit
    directed: tuple[DirectedInformation, ...]
    propositions: tuple[Identity, ...]
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
            *directed_lines(self),
            "The paper's propositions, here",
            *(line for p in self.propositions for line in (f"  {p.number}: {p.statement}", f"     {p.verdict()}")),
            self.footer(),
        ]
        return "\n".join(lines)

    def gap(self):
        """What (C2) misses in floating point: sum of the credit minus H(Z), with the error that both sides allow."""
        c = self.credit
        total, whole = c.total, c.return_entropy
        value = float(total.value.sum()) - float(whole.value)
        return Bounded(value, float(total.error.sum() + whole.error) + float(whole.value) * float(bounds.gamma(self.horizon + 3)))


def directed_lines(analysis):
    """The totals of directed information, for a screen."""
    if not analysis.directed:
        return []
    lines = [f"Directed information over {analysis.horizon} steps, in {unit(analysis.base)}"]
    for d in analysis.directed:
        most = max((int(n.max(initial=0)) for n in d.nodes.values()), default=0)
        lines.append(f"  {DIRECTIONS[d.source_name, d.target_name]:<23}  {shown(d.value):<22}  {d.method}" + (f", {most} node{'s' if most != 1 else ''}" if most and "bracket" not in d.method else ""))
    return lines


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
    if isinstance(x, dict):
        return {key: plain(y) for key, y in x.items()}
    if isinstance(x, tuple):
        return [plain(y) for y in x]
    return x


def analyze(mdp, policy, *, horizon, discount=1, base=None, directed=True, tolerance=None, max_nodes=None, budget=4 << 30, engine=None, progress=None):
    """Everything about one policy over one horizon: see `occupancy`, `return_law`, `information_sparsity`, `credit` and `directed_information`, from one pass forward and one back each.

    `.directed`: I(trajectory -> return) and five more; `tolerance` and `max_nodes` as there, except that max_nodes=None takes as many as cost about a second, at most 256;
    directed=False leaves all that out. `.propositions`: for each of the paper's propositions whether the identity holds here, and by how much it misses.

    `print` it for a screen; `.to_dict()` for JSON, `.save(path)` for `.npz`. Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.shortcut()
    >>> a = ic.analyze(mdp, ic.policies.uniform(mdp), horizon=4, base=2)
    >>> a.credit.return_entropy, a.directed[0].value
    (1.640559785215, 1.640559785215)
    >>> print(a.propositions[1].verdict())
    misses by 0.387507609203 bits, at 3 of 4 steps: transitions and rewards put entropy into the return too
    """
    horizon, gamma, budget = check_horizon(horizon), read_discount(discount), check_budget(budget)
    scale = log_base(base)
    read = policies.read(mdp, policy, horizon)
    sequences = None
    if directed:
        options = read_options(tolerance, affordable(mdp, horizon) if max_nodes is None else max_nodes, 0.0, 0.0, None, budget, scale)
        check_room(mdp, budget)
        sequences = Sequences(mdp, read, horizon, options, progress)
    found = backward(mdp, read, horizon, gamma, budget=budget, engine=engine, progress=progress)
    state = np.zeros((horizon, mdp.n_states))
    state[:, found.states] = found.forward.state
    forward = found.forward
    state = Bounded.relative(state, forward.factor(), forward.underflow)
    c = make_credit(mdp, found, horizon, gamma, base)
    grid = mdp.source.get("grid")
    return Analysis(
        Occupancy(state, found.forward.alive(), horizon, Fraction(1), provenance(mdp, "occupancy"), read, mdp.pair_state), c.return_law, make_sparsity(mdp, found, horizon, gamma, base), c,
        tuple(make_directed(mdp, sequences, s, t, base) for s, t in DIRECTIONS) if directed else (), propositions(c, sequences),
        mdp.n_states, mdp.n_pairs, mdp.n_branches, horizon, gamma, base, tuple(grid) if grid else None, provenance(mdp, f"analysis, {found.method}"),
    )  # fmt: skip
