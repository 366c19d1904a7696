"""Gymnasium's tabular environments (toy_text and whatever has the same tables)."""

import sys
from operator import index

import numpy as np

from icexact.errors import ModelError
from icexact.mdp import MDP


def from_gymnasium(env_or_id, **make_kwargs):
    """Read `env.unwrapped.P` and `env.unwrapped.initial_state_distrib`, branch by branch.

    env_or_id: an environment, which is neither reset nor changed nor closed; or an id, for which `gymnasium.make(id,
    **make_kwargs)` is called. P[s][a] lists (probability, next state, reward, terminated). The flag belongs to the branch:
    it ends the episode there, and rows of states that are terminal in other tools' eyes are kept as they are. Equal
    outcomes are added, different rewards kept apart. P knows no time limit: the horizon is yours to give.

    `source` of the model holds the id, the package and its version, the arguments, and the grid where the environment
    is one.

    Raises ModelError: an unknown id, an environment without such tables, a row that is no law (with state and action);
    ImportError where gymnasium is not installed.

    >>> import icexact as ic
    >>> ic.from_gymnasium("FrozenLake-v1", map_name="8x8")
    MDP(FrozenLake-v1, S=64, K=256, B=674)
    """
    if not isinstance(env_or_id, str):
        if make_kwargs:
            raise TypeError(f"from_gymnasium was given an environment and arguments to make one: {', '.join(make_kwargs)}; pass them with an id")
        return _read(env_or_id)
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("gymnasium is not installed; install it with: pip install icexact[gym]") from error
    try:
        env = gymnasium.make(env_or_id, **make_kwargs)
    except Exception as error:  # environments let whatever they stumble over through: FrozenLake a KeyError for an unknown map
        said = repr(error) if isinstance(error, KeyError) else error
        raise ModelError(f"gymnasium cannot make {env_or_id!r}{f' with {make_kwargs}' if make_kwargs else ''}: {said}") from error
    try:
        return _read(env)
    finally:
        env.close()


def _read(env):
    inner = getattr(env, "unwrapped", env)
    source = _source(env, inner)
    name = source.get("id") or source["name"]
    table = getattr(inner, "P", None)
    if table is None:
        raise ModelError(f"{name} has no table of transitions (env.unwrapped.P), so it cannot be read exactly; build the model with MDP.from_branches")
    initial = getattr(inner, "initial_state_distrib", None)
    if initial is None:
        raise ModelError(
            f"{name} does not say where episodes start (env.unwrapped.initial_state_distrib): "
            "set it on the environment, or build the model with MDP.from_branches(..., initial=)"
        )
    try:
        initial = np.array(initial)
        if initial.ndim != 1:
            raise ValueError(f"it has shape {initial.shape}")
    except ValueError as error:
        raise ModelError(f"{name}: env.unwrapped.initial_state_distrib is no law over the states: {error}") from error
    rows = [(s, a, *_branch(s, a, branch)) for s, actions in _entries(table, "P") for a, branches in _entries(actions, f"P[{s}]") for _, branch in _entries(branches, f"P[{s}][{a}]")]
    if not rows:
        raise ModelError(f"{name} has an empty table of transitions (env.unwrapped.P)")
    state, action, probability, next_state, reward, ends = zip(*rows)
    shape = getattr(inner, "desc", None)
    shape = getattr(inner, "shape", None) if shape is None else np.shape(shape)
    if shape is not None and len(shape) == 2 and shape[0] * shape[1] == initial.size:
        source["grid"] = [int(n) for n in shape]
    top = getattr(getattr(inner, "action_space", None), "n", None)
    return MDP.from_branches(
        state, action, _numbers(probability), next_state, _numbers(reward), ends,
        n_states=initial.size, initial=initial, n_actions=None if top is None else int(top), source=source,
    )


def _entries(table, what):
    """(number, entry) of a dict or a list, numbers as Python ints."""
    if not hasattr(table, "items") and not isinstance(table, (list, tuple, np.ndarray)):
        raise ModelError(f"{what} is {table!r}; it must be a dict or a list, one entry a state or action")
    for key, entry in table.items() if hasattr(table, "items") else enumerate(table):
        try:
            yield index(key), entry
        except TypeError as error:
            raise ModelError(f"{what} has the key {key!r}; states and actions are the integers 0, 1, ..") from error


def _branch(s, a, branch):
    try:
        probability, next_state, reward, ends = branch
        next_state = index(next_state)
    except (TypeError, ValueError) as error:
        raise ModelError(f"state {s}, action {a}: branch {branch!r} is not (probability, next state as an integer, reward, terminated)") from error
    if ends not in (False, True):
        raise ModelError(f"state {s}, action {a}: the flag of branch {branch!r} is not True or False")
    return probability, next_state, reward, bool(ends)


def _numbers(column):
    """A column that keeps each number's own precision: a float32 0.1 among float64s is still 1/10."""
    narrow = any(isinstance(x, np.floating) and not isinstance(x, float) for x in column)
    return np.array(column, dtype=object) if narrow else np.asarray(column)


def _source(env, inner):
    spec = getattr(env, "spec", None)
    source = {"name": type(inner).__name__} if spec is None else {"id": spec.id}
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None and isinstance(inner, gymnasium.Env):
        source |= {"package": "gymnasium", "version": gymnasium.__version__}
    if spec is not None:
        source["kwargs"] = {key: _plain(value) for key, value in spec.kwargs.items()}
    return source


def _plain(value):
    """What a JSON file can hold of an argument."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(x) for x in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
