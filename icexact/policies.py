"""Policies, and the one place where what a caller hands in as a policy is checked.

A policy is float64 [K] over the model's pairs, or [H, K] where it depends on the step h = 0 .. H-1. Every function of the
package that takes one takes a table (S, A) or (H, S, A) as well.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from icexact import kernels
from icexact.errors import PolicyError
from icexact.mdp import SMALLEST_NORMAL, UNIT_ROUNDOFF, need_model
from icexact.rationals import fraction, is_exact_column, nearest

TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Policy:
    """A checked policy: `table` float64 [T, K] in C order and read-only, T = 1 where it is the same at every step, else T = H.

    The true probabilities lie within `rounding` units 2^-53 (relative) of those in the table.
    """

    table: np.ndarray
    rounding: int

    def at(self, h):
        """float64 [K]: the policy at step h."""
        return self.table[h if len(self.table) != 1 else 0]


def uniform(mdp):
    """Each available action alike: float64 [K].

    >>> import icexact as ic
    >>> ic.policies.uniform(ic.examples.two_arms())
    array([0.5, 0.5])
    """
    return 1.0 / np.diff(need_model(mdp).pair_ptr)[mdp.pair_state]


def deterministic(mdp, actions):
    """One action a state: float64 [K] from `actions` int [S], [H, K] from int [H, S].

    The entries of states without actions are not read. PolicyError where an action is not available, with the state and
    the action.

    >>> import icexact as ic
    >>> ic.policies.deterministic(ic.examples.two_arms(), [1])
    array([0., 1.])
    """
    return _chosen(mdp, actions).astype(np.float64)


def epsilon_greedy(mdp, actions=None, epsilon=None, *, values=None):
    """With probability `epsilon` any available action, else the greedy one: float64 [K] or [H, K].

    The greedy actions are given in one of two ways: `actions` int [S] or [H, S], as `deterministic` takes them; or
    `values`, a number for each action, (S, A), (H, S, A), [K] or [H, K]: the largest among the available ones is
    greedy, and actions whose values are equal to the last bit share its probability evenly. Values of unavailable
    actions are not read. epsilon in [0, 1] is an exact number, 0.1 is 1/10; what is returned is correctly rounded.

    PolicyError: an unavailable action, a NaN among the values, epsilon outside [0, 1].

    >>> import icexact as ic
    >>> ic.policies.epsilon_greedy(ic.examples.two_arms(), [1], 0.1)
    array([0.05, 0.95])
    >>> ic.policies.epsilon_greedy(ic.examples.two_arms(), epsilon=0.1, values=[[3.0, 3.0]])
    array([0.5, 0.5])
    """
    if epsilon is None or (actions is None) == (values is None):
        raise TypeError("epsilon_greedy needs epsilon, and either actions (int [S] or [H, S]) or values= (a number for each action)")
    try:
        e = fraction(epsilon, "epsilon")
    except ValueError as error:
        raise PolicyError(str(error)) from error
    if not 0 <= e <= 1:
        raise PolicyError(f"epsilon is {epsilon!r}; it must be in [0, 1]")
    if 0 < e < SMALLEST_NORMAL * (mdp.n_actions + 1):
        raise PolicyError("epsilon is below the range in which float64 keeps its digits (2^-1022): use 0 or a larger one")
    greedy = _chosen(mdp, actions) if values is None else _maximisers(mdp, values)
    available = np.diff(mdp.pair_ptr)[mdp.pair_state]
    ties = _by_state(mdp, np.add, greedy.astype(np.int64))
    # few distinct pairs of counts: each probability is worked out once, exactly, and rounded once
    width = int(available.max()) + 1
    code = available * width + ties
    kinds, index = np.unique(code, return_inverse=True)
    counts = [divmod(int(c), width) for c in kinds]
    low = np.array([nearest(e / n) for n, m in counts])
    high = np.array([nearest(e / n + (1 - e) / m) for n, m in counts])
    index = index.reshape(code.shape)
    return np.where(greedy, high[index], low[index])


def softmax(mdp, preferences, temperature=1):
    """Probabilities proportional to exp(preference / temperature) over the available actions: float64 [K] or [H, K].

    preferences: (S, A), (H, S, A), [K] or [H, K]; those of unavailable actions are not read. -inf forbids an action, as
    long as another one of its state is finite. PolicyError: NaN or +inf, a state whose actions are all forbidden, a
    temperature that is not positive.

    >>> import icexact as ic, numpy as np
    >>> ic.policies.softmax(ic.examples.two_arms(), [[0.0, np.log(3)]]).round(12)
    array([0.25, 0.75])
    """
    try:
        t = float(temperature)
    except (TypeError, ValueError, OverflowError):
        t = np.nan
    if not (t > 0 and np.isfinite(t)):
        raise PolicyError(f"temperature is {temperature!r}; it must be a finite number > 0 (for the greedy policy use epsilon_greedy with epsilon 0)")
    x = _over_pairs(mdp, preferences, "preferences")
    bad = np.isnan(x) | (x == np.inf)
    if bad.any():
        raise PolicyError(f"{_where(mdp, bad)}: preference {x[_first(bad)]} is not allowed: finite, or -inf to forbid the action")
    top = _by_state(mdp, np.maximum, x)
    if (top == -np.inf).any():
        *h, k = _first(top == -np.inf)
        raise PolicyError(f"{_step(h)}{mdp.name_state(mdp.pair_state[k])}: every preference is -inf, so every action is forbidden: leave one of them finite")
    with np.errstate(over="ignore"):  # a difference too large for float64 is a probability of 0 all the same
        weight = np.exp((x - top) / t)
    return weight / _by_state(mdp, np.add, weight)


def from_table(mdp, table, *, tolerance=TOLERANCE):
    """A policy over pairs from a table: float64 [K] from (S, A) or [K], [H, K] from (H, S, A) or [H, K].

    Entries may be floats, integers, or exact numbers (`Fraction`, decimal strings), whose sums have to be exactly 1.
    The sum of a state's probabilities may miss 1 by `tolerance` and is then normalised: raise it for float32 tables.
    Rows of states without actions are zeros. The table is not changed.

    A two-dimensional table whose shape fits both (S, A) and [H, K] is never ambiguous: its entries sum to the number of
    states with actions in the first reading, to H times that in the second, and H = S.

    Raises PolicyError, naming step, state and action: probability on an unavailable action, a negative or infinite one,
    a sum that is not 1.

    >>> import icexact as ic
    >>> ic.policies.from_table(ic.examples.two_arms(), [[0.25, 0.75]])
    array([0.25, 0.75])
    """
    checked, stationary, _ = _check(mdp, table, tolerance)
    return checked[0] if stationary else checked


def read(mdp, policy, horizon=None):
    """The `Policy` that [K], [H, K], (S, A) or (H, S, A) stands for; PolicyError as in `from_table`.

    With a horizon, a policy that depends on the step must have that many steps; without one it must not depend on it.
    """
    checked, stationary, rounding = _check(mdp, policy, TOLERANCE)
    if not stationary and horizon is None:
        raise PolicyError(
            f"the policy depends on the step ({len(checked)} of them), and without a horizon it must not: pass one [K] or (S, A), or horizon={len(checked)}"
        )
    if not stationary and len(checked) != horizon:
        raise PolicyError(f"the policy has {len(checked)} steps, the horizon is {horizon}: pass one table a step, or a single [K] or (S, A) for all of them")
    checked.setflags(write=False)
    return Policy(checked, rounding)


def _check(mdp, given, tolerance):
    """(float64 [T, K] of our own, whether it is the same at every step, rounding) of a policy in any accepted form."""
    need_model(mdp)
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, np.integer, np.floating)) or not 0 <= tolerance < 1:
        raise PolicyError(f"tolerance is {tolerance!r}; it must be a number in [0, 1): by how much a state's probabilities may miss 1")
    if isinstance(given, str) or callable(given) or given is None:
        raise PolicyError(f"the policy is {given!r}; it must be a table [K], [H, K], (S, A) or (H, S, A), such as icexact.policies.uniform(mdp) makes")
    array = _array(given, "policy")
    form = _form(mdp, array, "policy")
    if form == "either":
        # entries sum to the number of live states as (S, A), to S times as many as [H, K]; with S = 1 both say the same
        live = np.count_nonzero(np.diff(mdp.pair_ptr))
        form = "pairs" if array.sum() > 1.5 * live else "table"
    if form == "table":
        unavailable = np.ones((mdp.n_states, mdp.n_actions), dtype=np.bool_)
        unavailable[mdp.pair_state, mdp.pair_action] = False
        stray = (array != 0) & unavailable
        if stray.any():
            *h, s, a = _first(stray)
            raise PolicyError(
                f"{_step(h)}{mdp.name_state(s)}, action {a}: probability {array[(*h, s, a)]} on an action that is not available there; "
                f"available: {_available(mdp, s)}"
            )
        stationary = array.ndim == 2
        array = array[..., mdp.pair_state, mdp.pair_action]
    else:
        stationary = array.ndim == 1
    steps = array.reshape(-1, mdp.n_pairs)
    exact = is_exact_column(steps)
    table = _from_exact(mdp, steps, stationary) if exact else np.array(steps, dtype=np.float64, order="C")
    bad = ~((table >= 0) & (table < np.inf))
    if bad.any():
        raise PolicyError(f"{_where(mdp, bad[0] if stationary else bad)}: probability {table[_first(bad)]} is not a number in [0, 1]")
    table += 0.0  # -0.0 is 0
    rounding = _normalise(mdp, table, stationary, tolerance)
    if exact and any(Fraction(float(x)) != fraction(y, "probability") for x, y in zip(table.ravel(), steps.ravel())):
        rounding = max(rounding, 2)  # 1/2 + 2^-60 looks like 1/2 once it is rounded
    return table, stationary, rounding


def _normalise(mdp, table, stationary, tolerance):
    """Check that each state's probabilities sum to 1, normalise those that miss it, in place; returns the rounding count.

    As for the model's rows: one within a unit 2^-53 of 1 stays as it is, for so do rationals look after rounding.
    """
    live = np.flatnonzero(np.diff(mdp.pair_ptr))
    pointer = np.append(mdp.pair_ptr[live], mdp.n_pairs)
    deviation, dyadic = np.empty(len(live)), np.empty(len(live), dtype=np.bool_)
    rounding = 0
    for h, row in enumerate(table):
        kernels.branches.row_sums(pointer, row, deviation, dyadic)
        miss = np.abs(deviation)
        if not miss.max() <= tolerance:
            i = int(np.argmax(~(miss <= tolerance)))
            hint = " (for a float32 table: from_table with tolerance=1e-6)" if miss[i] < 1e-5 else ""
            where = _step([] if stationary else [h]) + mdp.name_state(live[i])
            raise PolicyError(f"{where}: the probabilities sum to {float(1 + deviation[i])!r}, they must sum to 1 (within {tolerance:g}){hint}")
        off = miss > UNIT_ROUNDOFF
        if off.any():
            row /= np.repeat(np.where(off, 1 + deviation, 1.0), np.diff(pointer))
            rounding = max(rounding, 3)
            if ((row > 0) & (row < SMALLEST_NORMAL)).any():
                # subnormal numbers cannot follow a small factor; they are off by no more than that factor
                rounding = max(rounding, 3 + int(np.ceil(miss.max() / UNIT_ROUNDOFF)))
        elif not (dyadic.all() and miss.max() == 0):
            rounding = max(rounding, 2)
    return rounding


def _from_exact(mdp, steps, stationary):
    """Correctly rounded float64 of exact numbers; a state's have to sum to exactly 1, for what does not is a mistake."""
    table = np.empty(steps.shape)
    for h, row in enumerate(steps):
        step = _step([] if stationary else [h])
        sums = {}
        for k, given in enumerate(row):
            s = int(mdp.pair_state[k])
            where = f"{step}{mdp.name_state(s)}, action {mdp.pair_action[k]}"
            try:
                p = fraction(given, "probability")
                table[h, k] = nearest(p)
            except ValueError as error:
                raise PolicyError(f"{where}: {error}") from error
            if 0 < p and table[h, k] < SMALLEST_NORMAL:
                raise PolicyError(f"{where}: probability {float(table[h, k]):.3g} is below the range in which float64 keeps its digits (2^-1022)")
            sums[s] = sums.get(s, 0) + p
        for s, total in sums.items():
            if total != 1 and (table[h] >= 0).all():
                raise PolicyError(f"{step}{mdp.name_state(s)}: the exact probabilities sum to {total}, they must sum to exactly 1")
    return table


def _array(given, what):
    if np.ma.is_masked(given):
        raise PolicyError(f"{what} has masked entries: fill them in (0 for an action that is not played)")
    try:
        array = np.asarray(given)
    except ValueError as error:  # nested lists of unequal length
        raise PolicyError(f"{what} is no rectangular table: {error}") from error
    if array.dtype.kind not in "biufOUS":
        raise PolicyError(f"{what} has type {array.dtype}; it must hold real numbers")
    if array.dtype.kind in "US":  # decimal strings
        array = array.astype(np.str_).astype(object)
    if array.dtype == object:
        numbers = np.empty(array.shape, dtype=object)
        for at, value in np.ndenumerate(array):
            try:
                numbers[at] = value if isinstance(value, (float, np.floating)) and not np.isfinite(value) else fraction(value, "entry")
            except ValueError as error:
                raise PolicyError(f"{what}: {error}") from error
        return numbers
    return array


def _form(mdp, array, what):
    """"pairs" for [K] or [H, K], "table" for (S, A) or (H, S, A), "either" where the shape fits both."""
    S, A, K = mdp.n_states, mdp.n_actions, mdp.n_pairs
    pairs = array.ndim in (1, 2) and array.shape[-1] == K
    table = array.ndim in (2, 3) and array.shape[-2:] == (S, A)
    if pairs and table:
        return "either"
    if not pairs and not table:
        raise PolicyError(f"{what} has shape {array.shape}; it must be [K] = ({K},), [H, K] = (H, {K}), (S, A) = ({S}, {A}) or (H, S, A) = (H, {S}, {A})")
    return "pairs" if pairs else "table"


def _over_pairs(mdp, given, what):
    """float64 [K] or [H, K] from numbers in any of the four forms that need not be probabilities."""
    array = _array(given, what)
    form = _form(need_model(mdp), array, what)
    if form == "either":
        if mdp.n_states > 1:
            raise PolicyError(f"{what} has shape {array.shape}, which is (S, A) and [H, K] at once, H = S: pass (H, S, A), or [K] for the same at every step")
        form = "table"
    try:
        array = array.astype(np.float64)
    except OverflowError as error:
        raise PolicyError(f"{what} holds a number beyond the range of float64") from error
    return array[..., mdp.pair_state, mdp.pair_action] if form == "table" else array


def _chosen(mdp, actions):
    """bool [K] or [H, K]: the pairs that `actions`, int [S] or [H, S], picks."""
    need_model(mdp)
    try:
        array = np.asarray(actions)
    except ValueError as error:
        raise PolicyError("actions is no rectangular table: its rows differ in length") from error
    if array.ndim not in (1, 2) or array.shape[-1] != mdp.n_states or array.dtype.kind not in "iu":
        raise PolicyError(
            f"actions has shape {array.shape} and type {array.dtype}; it must hold one integer a state, "
            f"[S] = ({mdp.n_states},) or [H, S] = (H, {mdp.n_states})"
        )
    chosen = array[..., mdp.pair_state] == mdp.pair_action
    missing = ~_by_state(mdp, np.logical_or, chosen)
    if missing.any():
        *h, k = _first(missing)
        s = mdp.pair_state[k]
        raise PolicyError(f"{_step(h)}{mdp.name_state(s)}, action {array[(*h, s)]}: the action is not available there; available: {_available(mdp, s)}")
    return chosen


def _maximisers(mdp, values):
    """bool [K] or [H, K]: the pairs whose value is the largest of their state."""
    x = _over_pairs(mdp, values, "values")
    bad = np.isnan(x)
    if bad.any():
        raise PolicyError(f"{_where(mdp, bad)}: the value is NaN, so no action is greedy")
    return x == _by_state(mdp, np.maximum, x)


def _by_state(mdp, operation, x):
    """[.., K]: `operation` over the pairs of a state, given back to each of them."""
    counts = np.diff(mdp.pair_ptr)
    live = counts > 0
    return np.repeat(operation.reduceat(x, mdp.pair_ptr[:-1][live], axis=-1), counts[live], axis=-1)


def _available(mdp, s):
    return ", ".join(map(str, mdp.pair_action[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]])) or "none"


def _first(mask):
    return tuple(int(i) for i in np.unravel_index(np.argmax(mask), mask.shape))


def _step(h):
    return f"step {h[0]}, " if len(h) else ""


def _where(mdp, mask):
    """How messages call the first pair of a mask [K] or [H, K]."""
    *h, k = _first(mask)
    return f"{_step(h)}{mdp.name_state(mdp.pair_state[k])}, action {mdp.pair_action[k]}"
