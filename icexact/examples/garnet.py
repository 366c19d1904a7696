"""Random models of a given size."""

import numpy as np

from icexact.errors import ModelError
from icexact.mdp import MDP, _count


def garnet(n_states, n_actions, branching, *, rewards=(0, 1), seed=0, reward_on="pair", start="uniform"):
    """A Garnet: each pair has `branching` distinct successors, uniform among all such sets, and no episode ends.

    Probabilities are the gaps between sorted uniform cuts of [0, 1]. Rewards are drawn uniformly from `rewards`, one for
    each pair, or with reward_on="branch" one for each branch. The first state is uniform, or the number `start`. Equal
    arguments and seed give the equal model (NumPy's default generator).

    Raises ModelError: branching above n_states, no rewards to draw from.

    >>> import icexact as ic
    >>> ic.examples.garnet(100, 4, 5)
    MDP(garnet, S=100, K=400, B=2000)
    """
    S, A, b = _count(n_states, "n_states"), _count(n_actions, "n_actions"), _count(branching, "branching")
    if b > S:
        raise ModelError(f"branching is {b}, but there are only {S} states to go to")
    values = np.asarray(rewards)
    if values.ndim != 1 or values.size == 0:
        raise ModelError(f"rewards has shape {values.shape}; it must list the values to draw from")
    if reward_on not in ("pair", "branch"):
        raise ModelError(f"reward_on is {reward_on!r}; it must be 'pair' or 'branch'")
    if isinstance(start, str) and start != "uniform":
        raise ModelError(f"start is {start!r}; it must be a state or 'uniform'")
    rng = np.random.default_rng(seed)
    K = S * A

    # Floyd's way to draw a set: the i-th draw is among the first top + 1 states, and top itself where it was drawn before
    next_state = np.empty((K, b), dtype=np.int64)
    for i, top in enumerate(range(S - b, S)):
        drawn = rng.integers(top + 1, size=K)
        again = (next_state[:, :i] == drawn[:, None]).any(axis=1)
        drawn[again] = top
        next_state[:, i] = drawn
    probability = np.ones((K, b))
    probability[:, :-1] = rng.random((K, b - 1))
    probability.sort(axis=1)
    # differences of multiples of 2^-53 below 1 are exact: each row sums to exactly 1
    probability[:, 1:] -= probability[:, :-1].copy()
    pick = rng.integers(len(values), size=K if reward_on == "pair" else K * b)
    reward = values[np.repeat(pick, b) if reward_on == "pair" else pick]
    source = {"name": "garnet", "n_states": S, "n_actions": A, "branching": b, "rewards": [str(v) for v in values], "reward_on": reward_on}
    source["seed"] = int(seed) if isinstance(seed, (int, np.integer)) else repr(seed)
    return MDP.from_branches(
        np.repeat(np.arange(S), A * b),
        np.tile(np.repeat(np.arange(A), b), S),
        probability.ravel(),
        next_state.ravel(),
        reward,
        n_states=S,
        initial=np.full(S, 1.0 / S) if isinstance(start, str) else start,
        source=source,
    )
