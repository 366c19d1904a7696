"""A slippery grid of any size."""

from numbers import Integral

import numpy as np

from icexact.errors import ModelError
from icexact.mdp import MDP, _count
from icexact.rationals import fraction, nearest

MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}


def gridworld(rows=10, columns=None, *, slip=0.2, goals=None, start=0, absorbing=True, cell_rewards=None):
    """rows x columns cells, numbered along the rows; actions up, right, down, left; a step into a wall stays.

    With probability `slip`, an exact number (0.2 is 1/5), the step goes to one of the two sideways directions, half each.
    The reward belongs to the cell entered, and whoever stays at a wall enters the same cell again: 1 in a goal, else 0, or
    what `cell_rewards` [rows, columns] says. Entering a goal ends the episode unless absorbing=False.

    A cell is a number or a tuple (row, column). goals: one cell or a list of them, the last cell by default. start: a
    cell, or "uniform" over the cells from which an episode can start. columns: as many as rows by default.

    Raises ModelError: a cell off the grid, slip outside [0, 1], a start in a goal that ends.

    >>> import icexact as ic
    >>> ic.examples.gridworld(3)
    MDP(gridworld, S=9, K=32, B=90)
    """
    rows = _count(rows, "rows")
    columns = rows if columns is None else _count(columns, "columns")
    S = rows * columns
    try:
        slip = fraction(slip, "slip")
    except ValueError as error:
        raise ModelError(str(error)) from error
    if not 0 <= slip <= 1:
        raise ModelError(f"slip is {slip}; it must be in [0, 1]")

    goal = np.zeros(S, dtype=np.bool_)
    goal[_cells(S - 1 if goals is None else goals, rows, columns, "goals")] = True
    if cell_rewards is None:
        pays = goal.astype(np.int64)
    else:
        pays = np.asarray(cell_rewards)
        if pays.shape not in ((rows, columns), (S,)):
            raise ModelError(f"cell_rewards has shape {pays.shape}; it must be ({rows}, {columns}), one number a cell")
        pays = pays.reshape(S)
    live = np.flatnonzero(~goal) if absorbing else np.arange(S)
    if not len(live):
        raise ModelError("every cell is a goal, and entering one ends the episode: there is nowhere to act")
    if isinstance(start, str):
        if start != "uniform":
            raise ModelError(f"start is {start!r}; it must be a cell or 'uniform'")
        initial = np.zeros(S)
        initial[live] = 1.0 / len(live)
    else:
        initial = _cell(start, rows, columns, "start")
        if absorbing and goal[initial]:
            raise ModelError(f"start {start} is a goal, where the episode is over before it begins: start elsewhere, or pass absorbing=False")

    row, column = np.divmod(live, columns)
    to = np.stack([np.clip(row + dr, 0, rows - 1) * columns + np.clip(column + dc, 0, columns - 1) for dr, dc in MOVES.values()], axis=1)
    outcomes = [(turn, p) for turn, p in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)) if p > 0]
    turns = np.array([turn for turn, _ in outcomes])
    next_state = to[:, (np.arange(4)[:, None] + turns) % 4].ravel()
    width = len(outcomes)
    return MDP.from_branches(
        np.repeat(live, 4 * width),
        np.tile(np.repeat(np.arange(4), width), len(live)),
        np.tile(np.array([nearest(p) for _, p in outcomes]), 4 * len(live)),
        next_state,
        pays[next_state],
        goal[next_state] if absorbing else None,
        n_states=S,
        initial=initial,
        terminal=goal if absorbing else None,
        action_names=tuple(MOVES),
        source={"name": "gridworld", "grid": [rows, columns], "slip": str(slip), "goals": np.flatnonzero(goal).tolist(), "absorbing": bool(absorbing)},
    )


def _cells(cells, rows, columns, what):
    if isinstance(cells, (list, np.ndarray)):
        return [_cell(cell, rows, columns, what) for cell in (cells if isinstance(cells, list) else cells.tolist())]
    return [_cell(cells, rows, columns, what)]


def _cell(cell, rows, columns, what):
    """The number of a cell given by number or as (row, column)."""
    if isinstance(cell, Integral) and not isinstance(cell, bool):
        if 0 <= cell < rows * columns:
            return int(cell)
        raise ModelError(f"{what}: cell {cell} is not in 0..{rows * columns - 1}")
    if isinstance(cell, tuple) and len(cell) == 2 and all(isinstance(x, Integral) for x in cell):
        if 0 <= cell[0] < rows and 0 <= cell[1] < columns:
            return int(cell[0] * columns + cell[1])
        raise ModelError(f"{what}: cell {cell} is not on the grid of {rows} rows and {columns} columns, counted from 0")
    raise ModelError(f"{what}: {cell!r} is not a cell; write its number, or a tuple (row, column)")
