"""The model: states, pairs and branches as flat arrays, checked once at the border."""

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from icexact import kernels
from icexact.errors import ModelError
from icexact.rationals import fraction, is_exact_column, nearest

UNIT_ROUNDOFF = 2.0**-53
CHUNK = 1 << 22  #: entries that a kernel call works through
SMALLEST_NORMAL = 2.0**-1022


@dataclass(frozen=True, eq=False)
class RewardTable:
    """The distinct rewards as rationals, ascending, and which one each branch pays (int64 [B])."""

    values: tuple
    index: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class MDP:
    """A tabular Markov decision process in the form state -> pair -> branch (S states, K pairs, B branches).

    Pairs are the available (state, action), ordered by state and action: those of state s are
    `pair_ptr[s] : pair_ptr[s+1]`. The branches of pair k are `branch_ptr[k] : branch_ptr[k+1]`, ordered by reward, end
    flag and next state; outcomes equal in all three are one branch, impossible ones are none. After a branch whose `ends`
    is set the episode is over, whatever `next_state` says. All arrays are read-only.

    Build one with `MDP.from_arrays`, `MDP.from_branches`, `icexact.from_gymnasium` or `icexact.examples`.

    >>> import icexact as ic
    >>> mdp = ic.MDP.from_branches([0, 0], [0, 1], [1, 1], [0, 0], [0, 1], [True, True], n_states=1, initial=0)
    >>> mdp
    MDP(S=1, K=2, B=2)
    """

    pair_ptr: np.ndarray  #: int64 [S+1]
    pair_action: np.ndarray  #: int64 [K]
    branch_ptr: np.ndarray  #: int64 [K+1]
    next_state: np.ndarray  #: int64 [B]
    probability: np.ndarray  #: float64 [B]
    reward: np.ndarray  #: float64 [B], the exact reward correctly rounded
    ends: np.ndarray  #: bool [B]
    initial: np.ndarray  #: float64 [S]
    n_actions: int  #: actions are 0 .. n_actions-1, not all available everywhere
    pair_rounding: np.ndarray = None  #: int32 [K]: the true probabilities of pair k lie within that many units 2^-53 (relative)
    initial_rounding: int = 1  #: the same for `initial`
    largest_change: float = 0.0  #: by how much the row that needed it most was away from 1 before it was normalised
    state_names: tuple = None
    action_names: tuple = None
    source: dict = field(default_factory=dict)  #: where the model comes from: environment id and version, file, grid, ..
    exact_rewards: RewardTable = None  #: given rationals; where None, floats are read by their shortest decimal at first need

    def __post_init__(self):
        # built by hand, past the border: at least no array is read beyond its end
        sizes = {"pair_action": self.n_pairs, "pair_rounding": self.n_pairs, "probability": self.n_branches, "reward": self.n_branches, "ends": self.n_branches, "initial": self.n_states}
        wrong = [name for name, n in sizes.items() if getattr(self, name) is None or len(getattr(self, name)) != n]
        if wrong or len(self.branch_ptr) != self.n_pairs + 1 or self.pair_ptr[-1] != self.n_pairs or self.branch_ptr[-1] != self.n_branches:
            raise ModelError(f"the arrays do not fit together ({', '.join(wrong) or 'pointers'}): build a model with MDP.from_arrays or MDP.from_branches")

    @property
    def n_states(self):
        """S."""
        return len(self.pair_ptr) - 1

    @property
    def n_pairs(self):
        """K."""
        return len(self.pair_action)

    @property
    def n_branches(self):
        """B."""
        return len(self.next_state)

    @cached_property
    def pair_state(self):
        """int64 [K]: the state of each pair."""
        return _frozen(np.repeat(np.arange(self.n_states), np.diff(self.pair_ptr)))

    @cached_property
    def rewards(self):
        """The exact rewards (`RewardTable`)."""
        if self.exact_rewards is not None:
            return self.exact_rewards
        distinct, index = _distinct(self.reward)
        return RewardTable(tuple(fraction(float(r), "reward") for r in distinct), _frozen(index))

    @cached_property
    def hash(self):
        """SHA-256 over the arrays, 16 hex digits: equal models in the caller's numbering have equal hashes."""
        digest = hashlib.sha256(str(self.n_actions).encode())
        for array in (self.pair_ptr, self.pair_action, self.branch_ptr, self.next_state, self.probability, self.reward, self.ends, self.initial):
            digest.update(np.ascontiguousarray(array).view(np.uint8))
        table = self.exact_rewards
        if table is not None and any(fraction(nearest(x)) != x for x in table.values):  # floats do not tell these rewards apart
            digest.update(repr(table.values).encode() + np.ascontiguousarray(table.index).tobytes())
        return digest.hexdigest()[:16]

    def __setstate__(self, state):
        # a pickle brings arrays back writable, which would be new types to the kernels
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)

    def __repr__(self):
        name = self.source.get("id") or self.source.get("name")
        return f"MDP({name + ', ' if name else ''}S={self.n_states}, K={self.n_pairs}, B={self.n_branches})"

    def pair(self, state, action):
        """The index of the pair (state, action); ModelError where there is none."""
        state = self.check_state(state)
        first, last = self.pair_ptr[state], self.pair_ptr[state + 1]
        if isinstance(action, (bool, np.bool_)) or not isinstance(action, (int, np.integer)):
            raise ModelError(f"action {action!r} of state {state} is not an action's number, an integer")
        at = first + np.searchsorted(self.pair_action[first:last], action)
        if at >= last or self.pair_action[at] != action:
            allowed = ", ".join(map(str, self.pair_action[first:last])) or "none"
            raise ModelError(f"action {action} is not available in {self.name_state(state)}; available: {allowed}")
        return int(at)

    def check_state(self, state):
        """`state` as an int; ModelError where it is out of range (negative indices are not wrapped)."""
        if not isinstance(state, (int, np.integer)) or isinstance(state, bool) or not 0 <= state < self.n_states:
            raise ModelError(f"state {state!r} is not in 0..{self.n_states - 1}")
        return int(state)

    def name_state(self, state):
        """How messages call a state."""
        return f"state {state}" + (f" ({self.state_names[state]})" if self.state_names else "")

    def save(self, path):
        """Write the model as `.npz`; `icexact.load` reads it back equal."""
        from icexact.io.npz import save

        save(self, path)

    @classmethod
    def from_branches(cls, state, action, probability, next_state, reward, ends=None, *, n_states, initial, terminal=None, n_actions=None, tolerance=1e-9, state_names=None, action_names=None, source=None):
        """Build a model from flat columns, one row a branch, in any order.

        state, action, next_state: integers [rows]; probability, reward: floats, or exact numbers (`Fraction`, decimal
        strings) [rows]; ends: bool [rows], None for never. initial: law of the first state [S], or the number of one
        state. terminal: states that end the episode when entered (bool [S] or a list of numbers); they have no rows.
        A float reward is read by its shortest decimal, 0.1 as 1/10.

        Rows equal in all but probability are added; rows of probability 0 are left out, whatever they pay. A pair's sum
        may miss 1 by `tolerance` and is then normalised; sums of exact numbers have to be 1.

        Raises ModelError, naming the first offender: an index out of range, NaN, a negative probability, a sum that is
        not 1, a state that can be entered alive but has no actions.

        >>> import icexact as ic
        >>> mdp = ic.MDP.from_branches([0, 0, 1], [0, 0, 0], [0.5, 0.5, 1], [0, 1, 0], [0, 1, 2], [False, False, True], n_states=2, initial=0)
        >>> mdp.n_pairs, mdp.n_branches
        (2, 3)
        """
        n_states, tolerance = _count(n_states, "n_states"), _check_tolerance(tolerance)
        columns = {"state": _integers(state, "state"), "action": _integers(action, "action"), "next_state": _integers(next_state, "next_state")}
        rows = len(columns["state"])
        columns["probability"] = _column(probability, "probability")
        columns["reward"] = _column(reward, "reward")
        columns["ends"] = np.zeros(rows, dtype=np.bool_) if ends is None else _flags(ends, "ends")
        for name, column in columns.items():
            if len(column) != rows:
                raise ModelError(f"column {name} has {len(column)} rows, column state has {rows}: every column needs one entry a branch")
        if rows == 0:
            raise ModelError("a model without branches: at least one row is needed")
        for name in ("state", "next_state"):
            _within(columns[name], n_states, name, columns)
        if columns["action"].min() < 0:
            row = int(np.argmax(columns["action"] < 0))
            raise ModelError(f"state {columns['state'][row]} (row {row}): action {columns['action'][row]} is negative; actions are 0, 1, ..")
        if terminal is None and n_states > 2 * rows:
            # more states than rows and ends can account for: said before anything of that length is made
            s = int(np.setdiff1d(np.arange(2 * rows + 1), np.concatenate([columns["state"], columns["next_state"]]))[0])
            raise ModelError(f"state {s} has no actions and is not declared terminal: n_states is {n_states}, but there are only {rows} rows; give it rows, name it in terminal=, or lower n_states")
        top = int(columns["action"].max()) + 1
        n_actions = top if n_actions is None else _count(n_actions, "n_actions")
        if top > n_actions:
            row = int(np.argmax(columns["action"] >= n_actions))
            raise ModelError(f"state {columns['state'][row]} (row {row}): action {columns['action'][row]} is not in 0..{n_actions - 1}")
        if n_states * n_actions >= 2**63:
            raise ModelError(f"{n_states} states times {n_actions} actions is beyond int64: number the actions 0, 1, ..")

        exact_probability, least_rounding = is_exact_column(columns["probability"]), 0
        if exact_probability:
            rationals = [_row_fraction(p, "probability", i, columns) for i, p in enumerate(columns["probability"])]
            _exact_sums(columns, rationals)
            columns["probability"] = np.array([nearest(p) for p in rationals], dtype=np.float64)
            # 1/2 + 2^-60 looks like 1/2 once it is rounded
            least_rounding = 2 * (not _lossless(columns["probability"], rationals))
            small = (columns["probability"] == 0) & np.array([p != 0 for p in rationals])
            columns["probability"][small] = SMALLEST_NORMAL / 2  # refused below
        p = columns["probability"] = columns["probability"].astype(np.float64, copy=False)
        if not _all_at_least_zero(p):
            row = int(np.argmax(~((p >= 0) & np.isfinite(p))))
            raise ModelError(f"{_where(columns, row)}: probability {p[row]} is not a number in [0, 1]")

        end_states = _mask(terminal, n_states, "terminal")
        if end_states.any():
            inside = end_states[columns["state"]] & (p > 0)
            if inside.any():
                row = int(np.argmax(inside))
                raise ModelError(f"{_where(columns, row)}: the state is declared terminal, and a terminal state has no rows: leave them out, or take it out of `terminal`")
            columns["ends"] = columns["ends"] | end_states[columns["next_state"]]

        possible = p > 0
        small = possible & (p < SMALLEST_NORMAL)
        if small.any():
            raise ModelError(f"{_where(columns, int(np.argmax(small)))}: the probability is below the range in which float64 keeps its digits (2^-1022)")
        if not possible.all():
            columns = {name: column[possible] for name, column in columns.items()}
            if not len(columns["state"]):
                raise ModelError("all branches have probability 0")
            missing = _pairs_lost(state, action, possible | end_states[np.asarray(state)], columns)
            if missing is not None:
                raise ModelError(f"state {missing[0]}, action {missing[1]}: the probabilities sum to 0, they must sum to 1; leave the rows of an unavailable action out")
        key, table = _reward_keys(columns)
        return cls._assemble(columns, key, table, n_states, n_actions, end_states, initial, tolerance, state_names, action_names, source, least_rounding)

    @classmethod
    def _assemble(cls, columns, key, table, n_states, n_actions, end_states, initial, tolerance, state_names, action_names, source, least_rounding=0):
        """Sort, merge, normalise and check columns whose every row is possible and in range."""
        # let go of what is no longer needed: two columns less at the peak
        code = columns.pop("state") * n_actions
        code += columns.pop("action")
        order, pair_code, pointer = _group(code, n_states * n_actions)
        del code
        rows, pairs = len(order), len(pair_code)
        for begin, end in chunks(pointer):
            kernels.branches.sort_rows(pointer, begin, end, order, key, columns["ends"], columns["next_state"], columns["probability"])
        branch_ptr = np.empty(pairs + 1, dtype=np.int64)
        p, r = np.empty(rows), np.empty(rows)
        e, n = np.empty(rows, dtype=np.bool_), np.empty(rows, dtype=np.int64)
        merged = np.empty(pairs, dtype=np.int32)
        size = kernels.branches.merge_rows(pointer, order, columns["probability"], key, columns["ends"], columns["next_state"], branch_ptr, p, r, e, n, merged)
        del order, key
        if size < rows:
            p, r, e, n = p[:size].copy(), r[:size].copy(), e[:size].copy(), n[:size].copy()
        index = None
        if table is not None:
            index = r.astype(np.int64)
            r = np.array([nearest(x) for x in table], dtype=np.float64)[index]

        pair_state, pair_action = np.divmod(pair_code, n_actions)
        pair_ptr = np.zeros(n_states + 1, dtype=np.int64)
        np.cumsum(np.bincount(pair_state, minlength=n_states), out=pair_ptr[1:])
        rounding, change = _normalise(branch_ptr, p, tolerance, lambda k, total: f"state {pair_state[k]}, action {pair_action[k]}: the probabilities sum to {total!r}, they must sum to 1 (within {tolerance:g}; a file with rounded numbers can be read with a larger tolerance=)")
        # m rows added: m - 1 roundings in the branch, as many again in the sum it is divided by, and of rationals one more
        rounding = np.maximum(rounding, least_rounding)
        rounding += np.where(merged > 1, 2 * merged - 1, 0)
        _check_actions(pair_ptr, e, n, end_states)
        law, initial_rounding, initial_change = _initial(initial, n_states, tolerance)
        stuck = (law > 0) & (np.diff(pair_ptr) == 0)
        if stuck.any():
            s = int(np.argmax(stuck))
            raise ModelError(f"state {s}: an episode starts there with probability {law[s]}, but it has no actions: give it some, or start elsewhere")
        return cls(
            _frozen(pair_ptr), _frozen(pair_action), _frozen(branch_ptr), _frozen(n), _frozen(p), _frozen(r), _frozen(e), _frozen(law), int(n_actions),
            pair_rounding=_frozen(rounding.astype(np.int32)),
            initial_rounding=initial_rounding,
            largest_change=max(change, initial_change),
            state_names=_names(state_names, n_states, "state_names"),
            action_names=_names(action_names, n_actions, "action_names"),
            source=_source(source),
            exact_rewards=None if table is None else RewardTable(tuple(table), _frozen(index)),
        )

    @classmethod
    def from_arrays(cls, transitions, rewards, *, axes, initial, terminal=None, available=None, tolerance=1e-9, state_names=None, action_names=None, source=None):
        """Build a model from dense tables, or from scipy.sparse matrices.

        transitions: (S, A, S) with axes="sas" or (A, S, S) with axes="ass"; or a list of sparse matrices, one (S, S)
        per action ("ass") or one (A, S) per state ("sas"). rewards: (S,), paid on leaving the state; (S, A); or one
        for each transition, in the order of `transitions`. The order is never guessed.
        initial: law of the first state [S], or the number of one state. terminal: states that end the episode when
        entered; their rows have to be zeros or an unpaid loop. available: bool (S, A), False where an action does
        not exist; its row is not read.

        Raises ModelError, naming the first offender. The arrays given are not changed.

        >>> import icexact as ic, numpy as np
        >>> T = np.array([[[0.5, 0.5], [0, 1]], [[0, 0], [0, 0]]])
        >>> ic.MDP.from_arrays(T, np.zeros((2, 2)), axes="sas", initial=0, terminal=[1])
        MDP(S=2, K=2, B=3)
        """
        state, action, probability, next_state, n_states, n_actions = _read_transitions(transitions, axes)
        end_states = _mask(terminal, n_states, "terminal")
        allowed = np.ones((n_states, n_actions), dtype=np.bool_)
        if available is not None:
            allowed = _table(available, "available")
            if allowed.shape != (n_states, n_actions) or allowed.dtype != np.bool_:
                raise ModelError(f"available has shape {allowed.shape} and type {allowed.dtype}; it must be bool of shape (S, A) = ({n_states}, {n_actions})")
        reward = _read_rewards(rewards, axes, state, action, next_state, n_states, n_actions)
        keep = allowed[state, action]
        live = end_states[state] & keep
        if live.any():
            for i in np.flatnonzero(live & (probability != 0)):
                r = reward[i]
                if next_state[i] != state[i] or not _is_zero(r):
                    raise ModelError(f"state {state[i]} is declared terminal, but action {action[i]} leads to {next_state[i]} with reward {r}: a terminal state earns nothing and stays; put the reward on the branches that enter it, or take it out of `terminal`")
            keep = keep & ~live
        if not keep.all():
            state, action, probability, next_state, reward = (x[keep] for x in (state, action, probability, next_state, reward))
        if probability.dtype != object:
            have = np.zeros((n_states, n_actions), dtype=np.bool_)
            positive = probability > 0
            have[state[positive], action[positive]] = True
            lost = allowed & ~have & ~end_states[:, None]
            if lost.any() and not (probability < 0).any() and not np.isnan(probability).any():
                s, a = np.argwhere(lost)[0]
                raise ModelError(f"state {s}, action {a}: the probabilities sum to 0, they must sum to 1; mark an action that does not exist in available=, a state that ends the episode in terminal=")
        return cls.from_branches(state, action, probability, next_state, reward, n_states=n_states, initial=initial, terminal=end_states, n_actions=n_actions, tolerance=tolerance, state_names=state_names, action_names=action_names, source=source)


def _is_zero(reward):
    try:
        return fraction(reward) == 0
    except ValueError:
        return False


def _table(given, what):
    """`given` as an array; ModelError where it is no rectangular one."""
    if np.ma.is_masked(given):
        raise ModelError(f"{what} has masked entries: fill them in, or leave their rows out")
    try:
        return np.asarray(given)
    except ValueError as error:
        raise ModelError(f"{what} is no rectangular table: its rows differ in length") from error


def _check_tolerance(tolerance):
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, Fraction, np.integer, np.floating)) or not 0 <= tolerance < 1:
        raise ModelError(f"tolerance is {tolerance!r}; it must be a number in [0, 1): by how much a row may miss 1")
    return float(tolerance)


def need_model(mdp):
    """TypeError, with the call that mends it, where an environment or anything else is handed in for a model."""
    if not isinstance(mdp, MDP):
        raise TypeError(f"the model is a {type(mdp).__name__}; it must be an icexact.MDP: icexact.from_gymnasium reads an environment or its id, MDP.from_arrays and MDP.from_branches read tables")
    return mdp


def _frozen(array):
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _count(n, what):
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ModelError(f"{what} is {n!r}; it must be an integer >= 1")
    return int(n)


def _as_array(column, name):
    array = _table(column, f"column {name}")
    if array.ndim != 1:
        raise ModelError(f"column {name} has shape {array.shape}; it must be flat, one entry a branch")
    return array


def _integers(column, name):
    array = _as_array(column, name)
    if array.dtype.kind not in "iu" and array.size:
        raise ModelError(f"column {name} has type {array.dtype}; it must hold integers")
    return array.astype(np.int64, copy=False)


def _column(column, name):
    if isinstance(column, (list, tuple)) and any(type(x) in (np.float16, np.float32) for x in column):
        # each by its own shortest decimal, which the common float64 would lose
        column = np.array(column, dtype=object)
    array = _as_array(column, name)
    if array.dtype.kind not in "biufOUS":
        raise ModelError(f"column {name} has type {array.dtype}; it must hold real numbers")
    return array.astype(np.str_).astype(object) if array.dtype.kind in "US" else array


def _flags(column, name):
    array = _as_array(column, name)
    if (array.dtype != np.bool_ and not (array.dtype.kind in "iu" and array.size and 0 <= array.min() and array.max() <= 1)):
        raise ModelError(f"column {name} must hold True or False, one entry a branch; it has type {array.dtype} and shape {array.shape}")
    return array.astype(np.bool_)


def _mask(states, n_states, what):
    """bool [S] from a mask or a list of state numbers."""
    mask = np.zeros(n_states, dtype=np.bool_)
    if states is None:
        return mask
    array = _table(states, what)
    if array.dtype == np.bool_:
        if array.shape != (n_states,):
            raise ModelError(f"{what} has shape {array.shape}; as a mask it must have one entry a state, {n_states}")
        return array.copy()
    array = np.atleast_1d(array)
    if array.size and array.dtype.kind not in "iu":
        raise ModelError(f"{what} must list state numbers or be a bool mask; it has type {array.dtype}")
    for s in array.ravel():
        if not 0 <= s < n_states:
            raise ModelError(f"{what} names state {s}, which is not in 0..{n_states - 1}")
        mask[s] = True
    return mask


def _source(source):
    if source is not None and not isinstance(source, dict):
        raise ModelError(f"source is {source!r}; it must be a dictionary")
    return dict(source or {})


def _names(names, n, what):
    if names is None:
        return None
    if not hasattr(names, "__iter__"):
        raise ModelError(f"{what} is {names!r}; it must be a list of {n} names")
    names = tuple(str(x) for x in names)
    if len(names) != n:
        raise ModelError(f"{what} has {len(names)} entries, {n} are needed")
    return names


def _where(columns, row):
    return f"state {columns['state'][row]}, action {columns['action'][row]} (row {row}, next state {columns['next_state'][row]})"


def _within(column, n_states, name, columns):
    if column.min() < 0 or column.max() >= n_states:
        row = int(np.argmax((column < 0) | (column >= n_states)))
        pair = "" if name == "state" else f"state {columns['state'][row]}, action {columns['action'][row]}, "
        raise ModelError(f"{pair}row {row}: {name} {column[row]} is not in 0..{n_states - 1}")


def _all_at_least_zero(p):
    # one pass each, and NaN fails both; no temporary of the size of the column
    return bool(p.min() >= 0 and p.max() < np.inf)


def _row_fraction(value, what, row, columns):
    try:
        return fraction(value, what)
    except ValueError as error:
        raise ModelError(f"{_where(columns, row)}: {error}") from error


def _lossless(floats, rationals):
    """Whether the floats are the rationals."""
    return all(Fraction(float(x)) == p for x, p in zip(floats, rationals))


def _exact_sums(columns, rationals):
    """Exact probabilities are not normalised: what does not sum to 1 is a mistake."""
    sums = {}
    for s, a, p in zip(columns["state"].tolist(), columns["action"].tolist(), rationals):
        sums[s, a] = sums.get((s, a), 0) + p
    for (s, a), total in sums.items():
        if total != 1:
            raise ModelError(f"state {s}, action {a}: the exact probabilities sum to {total}, they must sum to exactly 1")


def _pairs_lost(state, action, possible, columns):
    """The first pair all of whose rows are impossible, None where there is none."""
    if possible.all():
        return None
    state, action = np.asarray(state, dtype=np.int64)[~possible], np.asarray(action, dtype=np.int64)[~possible]
    n = int(max(action.max(), columns["action"].max())) + 1
    lost = np.setdiff1d(state * n + action, columns["state"] * n + columns["action"])
    return divmod(int(lost[0]), n) if len(lost) else None


def _reward_keys(columns):
    """What rewards are sorted and merged by: (float64 keys, None), or indices into exact values and these values."""
    reward = columns["reward"]
    if reward.dtype.kind in "biu" and reward.dtype.itemsize < 8 or reward.dtype == np.float64:
        keys = reward.astype(np.float64)
    elif reward.dtype.kind in "iu":
        keys = reward.astype(np.float64)
        if np.abs(keys).max() >= 2.0**53:
            return _exact_keys(columns, [fraction(int(r)) for r in reward])
    else:
        # Python objects, and floats of another width than ours: by their own shortest decimals
        return _exact_keys(columns, [_row_fraction(r, "reward", i, columns) for i, r in enumerate(reward)])
    if not np.isfinite(keys.min() + keys.max()):
        row = int(np.argmax(~np.isfinite(keys)))
        raise ModelError(f"{_where(columns, row)}: reward {keys[row]} is not finite")
    keys += 0.0  # -0.0 is 0
    return keys, None


def _exact_keys(columns, rationals):
    table = sorted(set(rationals))
    for value in table:
        nearest(value)  # beyond float64: refused here
    number = {value: i for i, value in enumerate(table)}
    return np.array([number[r] for r in rationals], dtype=np.float64), table


def _distinct(values):
    """np.unique(values, return_inverse=True), quick where there are few distinct values."""
    sample = np.unique(values[:: max(1, len(values) // 4096)])
    if len(sample) <= 4096:
        at = np.searchsorted(sample, values)
        np.minimum(at, len(sample) - 1, out=at)
        if (sample[at] == values).all():
            return sample, at
    return np.unique(values, return_inverse=True)


def _group(code, slots):
    """Rows in the order of their codes (given order kept among equals), the distinct codes, and where each begins."""
    rows = len(code)
    steps = code[1:] >= code[:-1]
    if steps.all():
        order = np.arange(rows)
        first = np.flatnonzero(np.r_[True, code[1:] > code[:-1]])
        return order, code[first], np.append(first, rows)
    if slots <= 4 * rows + 1_000_000:
        counts = np.bincount(code, minlength=slots)
        pair_code = np.flatnonzero(counts)
        starts = np.zeros(slots + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        pointer = np.append(starts[pair_code], rows)
        order = np.empty(rows, dtype=np.int64)
        kernels.branches.counting_sort(code, starts, order)
        return order, pair_code, pointer
    order = np.argsort(code, kind="stable")
    pair_code, first = np.unique(code[order], return_index=True)
    return order, pair_code, np.append(first, rows)


def chunks(pointer, size=None):
    """Ranges of rows of about `size` entries each (CHUNK if None), all rows covered, empty ones at the end too: between two the interpreter can be interrupted."""
    size = size or CHUNK
    cuts = np.searchsorted(pointer, np.arange(0, int(pointer[-1]), size))
    cuts = np.unique(np.concatenate([[0], cuts, [len(pointer) - 1]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist()))


def _normalise(pointer, p, tolerance, message):
    """Check that rows sum to 1, normalise those that miss it, in place; (rounding counts int64 [rows], largest change).

    A row within one unit 2^-53 of 1 stays as it is: so rationals that sum to 1 look after rounding. The count covers both
    readings of such a row, the rationals it was rounded from and its own doubles over their sum.
    """
    rows = len(pointer) - 1
    deviation, dyadic = np.empty(rows), np.empty(rows, dtype=np.bool_)
    kernels.branches.row_sums(pointer, p, deviation, dyadic)
    change = float(np.abs(deviation).max())
    if not change <= tolerance:
        k = int(np.argmax(~(np.abs(deviation) <= tolerance)))
        raise ModelError(message(k, float(1 + deviation[k])))
    off = np.abs(deviation) > UNIT_ROUNDOFF
    rounding = np.where(dyadic & (deviation == 0), 0, 2)
    if off.any():
        p /= np.repeat(np.where(off, 1 + deviation, 1.0), np.diff(pointer))
        rounding[off] = 3
        # the doubles' own sum is 1 again only up to rounding: both readings of the normalised row are within the count
    return rounding, change


def _check_actions(pair_ptr, ends, next_state, end_states):
    """Every state that an episode can be in alive has actions; a state without any was declared terminal."""
    none = np.diff(pair_ptr) == 0
    if not none.any():
        return
    entered_alive = np.zeros(len(none), dtype=np.bool_)
    entered_alive[next_state[~ends]] = True
    entered_ended = np.zeros(len(none), dtype=np.bool_)
    entered_ended[next_state[ends]] = True
    bad = none & (entered_alive | ~(entered_ended | end_states))
    if bad.any():
        s = int(np.argmax(bad))
        raise ModelError(f"state {s} has no actions and is not declared terminal: give it rows, name it in terminal=, or set ends on the branches that enter it")


def _initial(initial, n_states, tolerance):
    if isinstance(initial, (int, np.integer)) and not isinstance(initial, bool):
        if not 0 <= initial < n_states:
            raise ModelError(f"initial state {initial} is not in 0..{n_states - 1}")
        law = np.zeros(n_states)
        law[initial] = 1.0
        return law, 0, 0.0
    least_rounding = 0
    given = _table(initial, "initial")
    if given.shape != (n_states,):
        raise ModelError(f"initial has shape {given.shape}; it must be a law over the {n_states} states, or the number of one state")
    if given.dtype.kind not in "biufOUS":
        raise ModelError(f"initial has type {given.dtype}; it must hold probabilities")
    if is_exact_column(given):
        try:
            rationals = [fraction(p, "initial probability") for p in given]
        except ValueError as error:
            raise ModelError(str(error)) from error
        if sum(rationals) != 1:
            raise ModelError(f"the exact initial probabilities sum to {sum(rationals)}, they must sum to exactly 1")
        given = np.array([nearest(p) for p in rationals])
        least_rounding = 2 * (not _lossless(given, rationals))
        given[(given == 0) & np.array([p != 0 for p in rationals])] = SMALLEST_NORMAL / 2  # refused below
    law = given.astype(np.float64)
    if not (np.isfinite(law) & (law >= 0)).all():
        s = int(np.argmax(~(np.isfinite(law) & (law >= 0))))
        raise ModelError(f"initial: state {s} has probability {law[s]}, which is not a number in [0, 1]")
    law += 0.0
    small = (law > 0) & (law < SMALLEST_NORMAL)
    if small.any():
        raise ModelError(f"initial: the probability of state {int(np.argmax(small))} is below the range in which float64 keeps its digits (2^-1022)")
    rounding, change = _normalise(np.array([0, n_states]), law, tolerance, lambda k, total: f"initial sums to {total!r}, it must sum to 1 (within {tolerance:g})")
    return law, max(int(rounding[0]), least_rounding), change


def _read_transitions(transitions, axes):
    if axes not in ("sas", "ass"):
        raise ModelError(f"axes is {axes!r}; it must be 'sas' for (S, A, S) or 'ass' for (A, S, S): the order cannot be told from the numbers")
    if isinstance(transitions, (list, tuple)) and transitions and all(hasattr(m, "tocoo") for m in transitions):
        outer, shape = len(transitions), transitions[0].shape
        n_states = shape[1]
        n_actions = outer if axes == "ass" else shape[0]
        expected = (n_states, n_states) if axes == "ass" else (n_actions, n_states)
        for i, m in enumerate(transitions):
            if m.shape != expected or (axes == "sas" and outer != n_states):
                raise ModelError(f"sparse matrix {i} has shape {m.shape}; axes='ass' takes one (S, S) matrix per action, axes='sas' one (A, S) matrix per state")
        parts = [m.tocoo() for m in transitions]
        lead = np.repeat(np.arange(outer), [len(m.data) for m in parts])
        row = np.concatenate([np.asarray(m.row, dtype=np.int64) for m in parts])
        column = np.concatenate([np.asarray(m.col, dtype=np.int64) for m in parts])
        values = np.concatenate([m.data for m in parts])
        state, action = (row, lead) if axes == "ass" else (lead, row)
        return state, action, values, column, n_states, n_actions
    if hasattr(transitions, "tocoo"):
        raise ModelError("transitions is one sparse matrix; pass a list of them, one (S, S) per action with axes='ass'")
    table = _table(transitions, "transitions")
    if table.ndim != 3 or table.dtype.kind not in "biufO":
        raise ModelError(f"transitions has shape {table.shape} and type {table.dtype}; it must be numbers of shape (S, A, S) with axes='sas' or (A, S, S) with axes='ass'")
    n_states = table.shape[2]
    n_actions = table.shape[1] if axes == "sas" else table.shape[0]
    expected = (n_states, n_actions, n_states) if axes == "sas" else (n_actions, n_states, n_states)
    if table.shape != expected:
        raise ModelError(f"transitions has shape {table.shape}; with axes={axes!r} it must be {'(S, A, S)' if axes == 'sas' else '(A, S, S)'}, that is {expected} for S = {n_states}")
    at = np.nonzero(table)
    state, action = (at[0], at[1]) if axes == "sas" else (at[1], at[0])
    return state, action, table[at], at[2], n_states, n_actions


def _read_rewards(rewards, axes, state, action, next_state, n_states, n_actions):
    """One reward for each listed transition."""
    if isinstance(rewards, (list, tuple)) and rewards and all(hasattr(m, "tocsr") for m in rewards):
        expected = (n_states, n_states) if axes == "ass" else (n_actions, n_states)
        if len(rewards) != (n_actions if axes == "ass" else n_states) or any(m.shape != expected for m in rewards):
            raise ModelError(f"rewards is a list of sparse matrices of another shape than transitions: {len(rewards)} of {rewards[0].shape}")
        dtype = np.result_type(*(m.dtype for m in rewards))
        if dtype.kind not in "biuf":
            raise ModelError(f"rewards has type {dtype}; it must hold real numbers")
        out = np.zeros(len(state), dtype=dtype)  # of their own width: a float32 0.1 is 1/10, an int64 keeps all its digits
        lead, row = (action, state) if axes == "ass" else (state, action)
        for i, m in enumerate(rewards):
            here = lead == i
            if here.any():
                out[here] = np.asarray(m.tocsr()[row[here], next_state[here]]).ravel()
        return out
    table = _table(rewards.todense() if hasattr(rewards, "todense") else rewards, "rewards")
    if table.dtype.kind not in "biufOUS":
        raise ModelError(f"rewards has type {table.dtype}; it must hold real numbers")
    full = (n_states, n_actions, n_states) if axes == "sas" else (n_actions, n_states, n_states)
    if table.shape == (n_states,):
        return table[state]
    if table.shape == (n_states, n_actions):
        return table[state, action]
    if table.shape == full:
        return table[state, action, next_state] if axes == "sas" else table[action, state, next_state]
    raise ModelError(f"rewards has shape {table.shape}; it must be (S,) = ({n_states},), (S, A) = ({n_states}, {n_actions}) or {'(S, A, S)' if axes == 'sas' else '(A, S, S)'} = {full}")
