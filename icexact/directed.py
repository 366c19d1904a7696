"""Directed information (D1)-(D5): what one sequence tells about another as time goes on, and the paper's I(tau^H -> Z^H)."""

from dataclasses import dataclass, field

import numpy as np

from icexact import policies
from icexact.intervals import Bracket
from icexact.rationals import discount as read_discount
from icexact.results import Bounded, Result, check_horizon, log_base, provenance, unit
from icexact.sequences import MAX_NODES, Sequences, read_options, shown

#: (source, target) -> whether the source's symbol of a step comes after the target's, so that it can only tell about the next one
COMBINATIONS = {
    ("trajectory", "return"): False,
    ("action", "reward"): False, ("state", "reward"): False, ("pair", "reward"): False, ("state", "action"): False,
    ("action", "state"): True, ("reward", "action"): True, ("reward", "state"): True, ("reward", "pair"): True,
    ("trajectory", "reward"): False, ("trajectory", "action"): False, ("trajectory", "state"): False, ("trajectory", "pair"): False, ("pair", "action"): False, ("pair", "state"): False,
}  # fmt: skip
KINDS = ("action", "state", "pair", "reward", "trajectory", "return")


@dataclass(frozen=True, eq=False, repr=False)
class DirectedInformation(Result):
    """See `directed_information`.

    `value` (), `per_step` [H], or [H-1] where `delayed`. `target_entropy` and `causal_entropy`, of the same steps: H(Y_h | Y^{h-1}), and the same given the source too; `per_step` is
    their difference. `method` says how it was had, `nodes` (a dictionary of int64 [H] by filter) how many nodes each step had, `width` what `value` leaves open.
    """

    value: Bounded
    per_step: Bounded
    target_entropy: Bounded
    causal_entropy: Bounded
    source_name: str
    target_name: str
    delayed: bool
    method: str
    nodes: dict
    horizon: int
    base: float | None
    source: dict = field(default_factory=dict)

    @property
    def width(self):
        """Of the interval that `value` is proven to lie in."""
        return 2 * float(self.value.error)

    def summary(self):
        """One screen of text."""
        name = f"I({self.source_name} -> {self.target_name})"
        lines = [f"Directed information over {self.horizon} steps, in {unit(self.base)}", f"  {name} = {shown(self.value)}"]
        steps = len(self.per_step)
        lines += [f"  step {h + self.delayed}: {self.per_step[h]}" for h in range(min(steps, 8))]
        if steps > 8:
            lines.append(f"  .. and {steps - 8} later steps")
        lines.append(f"  {self.method}" + "".join(f"; at most {int(n.max(initial=0))} nodes a step ({what})" for what, n in self.nodes.items()))
        return "\n".join([*lines, self.footer()])


def directed_information(mdp, policy, *, horizon, source, target, discount=1, base=None, tolerance=None, max_nodes=MAX_NODES, merge=0.0, dust=0.0, window=None, budget=4 << 30, progress=None):
    """Directed information I(X^H -> Y^H), exact where it can be had, else as a proven bracket.

    source "trajectory", target "return": the paper's I(tau^H -> Z^H) (Propositions 3 and 4), read from the last step to the first: `per_step`[h] = H(G_h | G_{h+1}, .., G_{H-1})
    = H(R_h | R_{h+1}, .., R_{H-1}), whose sum is I(tau; G_0, .., G_{H-1}) = H(R_0, .., R_{H-1}) (D1). The discount changes none of it.

    The others are Massey's, forward in time (D2). In a step the state comes first, then the action, then the reward. Where the source comes first, `per_step`[h] = I(X^h; Y_h | Y^{h-1}),
    [H]: ("state", "action"), ("state", "reward"), ("action", "reward"), ("pair", "reward"), and a sequence that holds the target, as ("trajectory", "reward"). Where the target comes
    first the source tells about the next step only: `per_step`[h] = I(X^h; Y_{h+1} | Y^h), [H-1], the delayed reverse: ("action", "state") (D3), ("reward", "action"),
    ("reward", "state"), ("reward", "pair"). Both directions add up to I(X^H; Y^H). The end of an episode is a state, with a null action and reward 0.

    tolerance, max_nodes, merge, dust, window, budget, progress: as in `sequence_entropy`. Raises BudgetError, PolicyError, ValueError.

    >>> import icexact as ic
    >>> mdp = ic.examples.delayed_effect(2)
    >>> policy = ic.policies.uniform(mdp)
    >>> ic.directed_information(mdp, policy, horizon=2, source="action", target="reward", base=2).per_step
    Bounded([0 1.000000000000])
    >>> ic.directed_information(mdp, policy, horizon=2, source="trajectory", target="return", base=2).per_step
    Bounded([0 1.000000000000])
    """
    horizon = check_horizon(horizon)
    read_discount(discount)
    scale = log_base(base)
    check(source, target)
    options = read_options(tolerance, max_nodes, merge, dust, window, budget, scale * (0.5 if {source, target} == {"action", "reward"} else 1.0))
    found = Sequences(mdp, policies.read(mdp, policy, horizon), horizon, options, progress)
    return make_directed(mdp, found, source, target, base)


def check(source, target):
    """Whether that is defined."""
    for name, x in (("source", source), ("target", target)):
        if x not in KINDS:
            raise ValueError(f"{name} is {x!r}; it must be one of {', '.join(map(repr, KINDS))}")
    if (source, target) not in COMBINATIONS:
        if target == "return":
            raise ValueError(f"towards the returns directed information is that of the whole trajectory (D1): source='trajectory', not {source!r}; for {source!r} ask target='reward'")
        fits = ", ".join(repr(t) for s, t in COMBINATIONS if s == source) or "none"
        raise ValueError(f"source {source!r} and target {target!r}: the target holds the source, or is it; targets of {source!r} are {fits}, and sequence_entropy gives entropies")


def make_directed(mdp, found, source, target, base):
    """`DirectedInformation` from the entropies."""
    scale, delayed = log_base(base), COMBINATIONS[source, target]
    local = found.local
    nodes = {}
    if target == "return":
        whole = found.rewards_backward
        nodes["messages"] = whole.nodes
    else:
        whole = found.entropy(target)
        if whole.nodes is not None:
            nodes[f"beliefs from {target}s"] = whole.nodes
    rest = information = None
    if (source, target) in (("action", "reward"), ("reward", "action")):
        rest = found.joint[source == "action"]
        nodes["beliefs from actions and rewards"] = rest.nodes
    elif (source, target) == ("state", "action"):
        rest = local.actions
    elif (source, target) == ("state", "reward"):
        rest = local.rewards_of_states
    elif (source, target) == ("pair", "reward"):
        rest = local.rewards_of_pairs
    elif delayed:
        information, rest = _of_next_state(local, source, target)
    if delayed:
        whole = whole.after_first()
        rest = rest.after_first()
    if rest is None:
        rest = Bracket.of(np.zeros(len(whole.lower)), np.zeros(len(whole.lower)))
        information = whole
    if information is None:
        information = whole.minus(rest)
    return DirectedInformation(
        information.total(scale), information.per_step(scale), whole.per_step(scale), rest.per_step(scale), source, target, delayed, information.method, nodes, found.horizon, base,
        provenance(mdp, f"directed information, {information.method}"),
    )  # fmt: skip


def _of_next_state(local, source, target):
    """What actions or rewards tell about the state that follows, and the entropy that is left: both by one step."""
    if source == "action":
        return local.action_to_state(), local.next_states("pair")
    if target == "pair":
        return local.reward_to_pair(), local.next_states("step").plus(local.actions)
    return local.reward_to_state(), local.next_states("reward")
