"""Information sparsity without horizon (S4): the return of the whole episode, cut off where next to nothing is left to earn.

Let a state be *done* where no nonzero reward can follow, decided on the graph. From a state s let G_n be what the first n steps gain, D = 1 where the process
is not done after them, and eps = P(D = 1 | s). Where D = 0, G = G_n. So with A the action in s,

    I(A; G) <= I(A; G, G_n, D) = I(A; G_n) + I(A; D | G_n) + I(A; G | G_n, D) <= I(A; G_n) + H(D) + eps ln|A| ,

for given D = 0 nothing is left to be learned from G, and given D = 1 no more than H(A | D = 1) <= ln|A|. The same with G and G_n in each other's place. Hence
|I(A; G) - I(A; G_n)| <= h(eps) + eps ln|A| in every state, each with its own eps, h being the binary entropy. G_n rather than "G, or not done": it is the
return-to-go with n steps to go, for which the engines are there; it costs one h(eps) more, a few steps.
"""

import math
from dataclasses import replace

import numpy as np

from icexact import bounds, kernels
from icexact.chain import branching, merged, merged_states, outcome_labels, restrict
from icexact.errors import AccuracyError, BudgetError, EndingError
from icexact.keys import Keys
from icexact.lattice import Lattice
from icexact.mdp import _frozen
from icexact.progress import Progress
from icexact.stationary import without_horizon
from icexact.support import KeyPlan, choose

WORK = 2e10  #: multiply-adds for finding out how many steps it takes
FLOOR = 2.0**-900  #: what is left is never taken for less, unless nothing is


def sparsity_without_horizon(mdp, policy, gamma, tolerance, budget, engine=None, progress=None):
    """((value, error), (policy entropy, its error), mass Bounded (), method), in nats; EndingError, AccuracyError, BudgetError where it cannot be had."""
    state, mass = without_horizon(mdp, policy, gamma, 1e-6, progress)
    part = restrict(mdp, policy, mdp.n_states + 1)
    model, read = part.mdp, part.policy
    d, d_error = state.value[part.states], state.error[part.states]
    length, length_error = float(mass), float(mass.error)

    entropies = np.empty(model.n_states)
    kernels.entropy.row_entropies(model.pair_ptr, read.at(0).copy(), entropies)
    most = int(np.diff(model.pair_ptr).max())
    spread = entropies * bounds.pivot_rate(read.rounding, most) + (bounds.dust(most) if read.table.min() < 2.0**-999 else 0.0)
    policy_entropy = _average(d, d_error, np.maximum(entropies - spread, 0.0), entropies + spread, length, length_error)

    model, relevant, choosing = _to_earn(mdp, part)
    if not choosing.any():
        return (0.0, 0.0), policy_entropy, mass, "no state has more than one action and something to earn"
    logs = np.where(choosing, np.log(np.maximum(np.diff(model.pair_ptr), 1)) * (1 + 1e-15), 0.0)
    steps, slack = _steps(mdp, part, model, read, relevant, choosing, logs, (d + d_error) / (length - length_error), tolerance)
    try:
        value, error, method = _information(model, read, relevant, steps, gamma, budget, engine, progress)
    except BudgetError as refused:
        raise BudgetError(f"without horizon the return has to be followed for {steps} steps to come within tolerance={tolerance:g} nats, and {refused}; or give a larger tolerance=, or a horizon") from refused
    low, high = np.maximum(value - error - slack, 0.0), np.minimum(value + error + slack, logs)
    result = _average(d, d_error, np.where(choosing, low, 0.0), np.where(choosing, high, 0.0), length, length_error)
    if not result[1] <= tolerance:
        raise AccuracyError(f"the proven error of the information is {result[1]:.1e} nats, above the tolerance of {tolerance:g}: rounding over {steps} steps takes its share; use tolerance={2 * result[1]:.1e}, a horizon or a smaller discount")
    return result, policy_entropy, mass, f"{method}, cut off after {steps} steps"


def _average(weight, weight_error, low, high, length, length_error):
    """(middle, half width) of sum weight * x / length, x between low and high."""
    slip = float(bounds.gamma(8))
    least = math.fsum(np.maximum(weight - weight_error, 0.0) * low) / (length + length_error) * (1 - slip)
    most = math.fsum((weight + weight_error) * high) / (length - length_error) * (1 + slip)
    return (least + most) / 2, (most - least) / 2 * (1 + slip) + most * slip


def _closure(start, after, seed):
    """bool [S]: what can be reached from `seed` over the arrows start -> after."""
    order = np.argsort(start, kind="stable")
    ptr = np.append(0, np.cumsum(np.bincount(start, minlength=len(seed))))
    found, front = seed.copy(), np.flatnonzero(seed)
    while len(front):
        n = ptr[front + 1] - ptr[front]
        at = np.repeat(ptr[front] - np.append(0, np.cumsum(n)[:-1]), n) + np.arange(int(n.sum()))
        new = np.unique(after[order[at]])
        front = new[~found[new]]
        found[front] = True
    return found


def _to_earn(mdp, part):
    """(the model with branches to done states as ends, the states whose laws are needed, those with a choice among them); EndingError where earning never ends."""
    model = part.mdp
    state = np.repeat(model.pair_state, np.diff(model.branch_ptr))
    on = ~model.ends
    pays = np.array([v != 0 for v in model.rewards.values])[model.rewards.index]
    seed = np.zeros(model.n_states, dtype=np.bool_)
    seed[state[pays]] = True
    earning = _closure(model.next_state[on], state[on], seed)
    ends = model.ends | ~earning[model.next_state]
    stops = np.zeros(model.n_states, dtype=np.bool_)
    stops[state[ends]] = True
    onward, back = state[~ends], model.next_state[~ends]
    stops = _closure(back, onward, stops & earning)
    choosing = earning & (np.diff(model.pair_ptr) > 1)
    relevant = _closure(onward, back, choosing) & earning
    stuck = part.states[relevant & ~stops]
    if len(stuck):
        names = ", ".join(mdp.name_state(s) for s in stuck[:10]) + (f" and {len(stuck) - 10} more" if len(stuck) > 10 else "")
        raise EndingError(f"episodes go on earning for ever from {names}: the return has no last reward, so its law cannot be cut off with a proven error; give a horizon (discounted rewards far ahead weigh little: horizon=200, say, with the same discount)")
    return replace(model, ends=_frozen(ends)), relevant, choosing


def _slack(left, logs):
    """h(eps) + eps ln|A|, rounded up."""
    e = np.minimum(left, 0.5)
    rest = np.log1p(-e)
    return (np.where(e > 0, -e * np.log(np.where(e > 0, e, 1.0)), 0.0) - (1 - e) * rest + np.minimum(left, 1.0) * logs) * (1 + 1e-12)


def _steps(mdp, part, model, read, relevant, choosing, logs, share, tolerance):
    """(the steps after which what is cut off moves the average by less than 0.9 tolerance, the slack of each state then)."""
    from scipy.sparse import csr_array

    chain = merged_states(model, read.at(0))
    # entries no smaller than 2^-100, so that nothing underflows and what is left is 0 only where it is
    flow = csr_array((np.maximum(chain.weight, 2.0**-100), chain.entry, chain.ptr), shape=(model.n_states, model.n_states))
    once = read.rounding + int(model.pair_rounding.max()) + chain.most + 2 + chain.longest
    left = relevant.astype(np.float64)
    step = 0
    while True:
        step += 1
        left = flow @ left
        left[~relevant] = 0.0
        np.maximum(left, FLOOR, out=left, where=left > 0)
        if step % max(1, step // 64) == 0:
            bound = np.where(choosing, left * (1 + float(bounds.gamma(step * once))), 0.0)
            slack = _slack(bound, logs)
            if float(share @ slack) <= 0.9 * tolerance:
                return step, slack
            if step * max(1, flow.nnz) > WORK:
                s = int(np.argmax(bound))
                raise AccuracyError(f"after {step} steps the chance that there is still something to earn is {bound[s]:.1e} from {mdp.name_state(part.states[s])}: episodes take too long to be followed to their end; give a horizon, a smaller discount with few rewards, or a larger tolerance=")


def _information(model, read, relevant, steps, gamma, budget, engine, progress):
    """(I(A; G_n | s) [S], its error, method) of the relevant states."""
    possible = relevant[model.pair_state]
    plan = choose(model, possible, steps, gamma, engine, budget, what="return laws of all states")
    walk = Lattice(plan, steps) if plan is not None else Keys(KeyPlan(model.rewards.values, gamma), model.n_states, steps, budget)
    states, n_labels, b = np.flatnonzero(relevant), len(model.rewards.values) + 1, branching(model)
    chain = merged(model, read.at(0), outcome_labels(model, n_labels))
    terms, nothing, entropy = np.zeros((12, model.n_states)), np.zeros(model.n_states + 1), np.zeros(model.n_states + 1)
    with Progress(progress, steps, "information without horizon") as bar:
        for _ in range(steps - 1):
            walk.step(states, chain, n_labels)
            bar.advance()
        # with tau 0 every information is a sum of divergences, and entropies of later laws are not asked for
        walk.credit_step(states, b, read.at(0), nothing, entropy, 1.0, 0.0, terms)
    pair = int(model.pair_rounding.max())
    later = (steps - 1) * (read.rounding + pair + 1 + chain.most + bounds.mixture_depth(chain.longest))
    least = float(model.probability.min()) * float(read.table[read.table > 0].min())
    risk = bounds.may_underflow(1.0, least, steps)
    if risk:
        later += bounds.underflow_count(steps, chain.longest * chain.most + b.largest_state)
    q = later + pair + 1 + bounds.mixture_depth(b.largest_pair)
    v = q + read.rounding + 1 + bounds.mixture_depth(b.most_actions)
    value, _, bregman, weight = terms[:4]
    error = bounds.difference_error(value, 0.0, bregman, weight, q, v, 0.0, walk.width) + value * float(bounds.gamma(read.rounding + b.most_actions + 4))
    return value, error * (1 + 1e-9) + (4 * bounds.dust(walk.width) if risk else 0.0), "integer lattice" if plan is not None else "exact keys"
