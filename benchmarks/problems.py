"""Benchmark models as flat branch arrays, NumPy only, fixed seeds.

A problem unpacks into the first arguments of every contestant:
    contestants.return_laws(*gridworld(100), horizon=100)
Branches are sorted by state, then action. Equal successors of a pair are not merged.
"""
from typing import NamedTuple

import numpy as np


class Problem(NamedTuple):
    state: np.ndarray        # int32, one entry a branch
    action: np.ndarray       # int32
    probability: np.ndarray  # float64
    next_state: np.ndarray   # int32
    reward: np.ndarray       # int32
    ends: np.ndarray         # bool
    n_states: int
    policy: np.ndarray       # (S, A)


def _problem(n_states, n_actions, branches, probability, next_state, reward):
    pair = np.repeat(np.arange(n_states * n_actions, dtype=np.int32), branches)
    return Problem(
        pair // n_actions, pair % n_actions,
        np.ascontiguousarray(probability, dtype=np.float64).ravel(),
        np.ascontiguousarray(next_state, dtype=np.int32).ravel(),
        np.ascontiguousarray(reward, dtype=np.int32).ravel(),
        np.zeros(pair.size, dtype=bool), n_states,
        np.full((n_states, n_actions), 1.0 / n_actions))


def gridworld(size=100, rewards="goal", goals=None, slip=0.2, seed=0):
    """size x size cells, actions up, right, down, left; a wall keeps the agent where it is.

    The intended direction has probability 1 - slip, each side slip / 2. The reward belongs to the cell
    entered: "goal" pays 1 there (`goals`: cell numbers, the middle cell by default) and goes on,
    "cells" pays an integer from -1 .. 10 drawn for each cell.
    """
    n = size * size
    row, col = np.divmod(np.arange(n), size)
    moves = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
    to = np.stack([np.clip(row + dr, 0, size - 1) * size + np.clip(col + dc, 0, size - 1)
                   for dr, dc in moves], axis=1)
    order = (np.arange(4)[:, None] + np.array([0, 1, 3])) % 4      # ahead, right, left
    next_state = to[:, order]
    if rewards == "goal":
        of_cell = np.zeros(n, dtype=np.int32)
        of_cell[[(size // 2) * size + size // 2] if goals is None else goals] = 1
    elif rewards == "cells":
        of_cell = np.random.default_rng(seed).integers(-1, 11, n, dtype=np.int32)
    else:
        raise ValueError("rewards must be 'goal' or 'cells'")
    probability = np.broadcast_to([1.0 - slip, slip / 2, slip / 2], next_state.shape)
    return _problem(n, 4, 3, probability, next_state, of_cell[next_state])


def garnet(n_states=10_000, n_actions=4, branching=5, rewards="pair", low=-1, high=10, seed=0):
    """Garnet: distinct random successors, probabilities from sorted uniform cuts.

    rewards "pair" draws one integer low .. high for each (state, action), "branch" one for each branch.
    """
    rng = np.random.default_rng(seed)
    k = n_states * n_actions
    next_state = rng.integers(n_states, size=(k, branching), dtype=np.int32)
    todo = np.arange(k)
    while todo.size:                       # draw again where two successors are equal
        rows = np.sort(next_state[todo], axis=1)
        todo = todo[(rows[:, 1:] == rows[:, :-1]).any(axis=1)]
        next_state[todo] = rng.integers(n_states, size=(todo.size, branching), dtype=np.int32)
    cuts = np.zeros((k, branching + 1))
    cuts[:, 1:-1] = np.sort(rng.random((k, branching - 1)), axis=1)
    cuts[:, -1] = 1.0
    shape = {"pair": (k, 1), "branch": (k, branching)}[rewards]
    reward = np.broadcast_to(rng.integers(low, high + 1, size=shape, dtype=np.int32), next_state.shape)
    return _problem(n_states, n_actions, branching, np.diff(cuts, axis=1), next_state, reward)


def occupancy_garnet(n_states=100_000, seed=0):
    """The occupancy problems of 1e5 and 1e6 states: no structure to use."""
    return garnet(n_states, n_actions=2, branching=5, seed=seed)


def occupancy_grid(n_states=100_000):
    """The same sizes as a grid (316 or 1000 cells a side): five diagonals."""
    return gridworld(int(n_states ** 0.5))


def uniform_start(problem):
    return np.full(problem.n_states, 1.0 / problem.n_states)


def point_start(problem, state=0):
    beta = np.zeros(problem.n_states)
    beta[state] = 1.0
    return beta
