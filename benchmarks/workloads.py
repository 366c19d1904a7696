"""The problems that are raced, ours from flat arrays, and the checks that ours and the contestants agree.

Each case is small (seconds for all of them) unless full=True is asked for; the sizes are in the titles, which are also the tests' ids.
"""

import os
from functools import cache
from typing import NamedTuple

import contestants
import numpy as np
import problems

import icexact as ic

FULL = os.environ.get("ICEXACT_BENCH") == "full"  #: what bench_*.py use; table.py has --quick instead


class Case(NamedTuple):
    title: str
    problem: problems.Problem
    horizon: int
    start: np.ndarray


@cache
def laws_case(name, full):
    side, h = (100, 100) if full else (12, 12)
    s, g = (10_000, 50) if full else (200, 10)
    if name == "grid_goal":
        title, problem, horizon = f"gridworld {side}x{side}, rewards {{0, 1}}, H={h}", problems.gridworld(side, "goal"), h
    elif name == "grid_cells":
        title, problem, horizon = f"gridworld {side}x{side}, rewards -1..10, H={h}", problems.gridworld(side, "cells"), h
    else:
        title, problem, horizon = f"Garnet S={s} A=4 b=5, rewards -1..10 a pair, H={g}", problems.garnet(s), g
    return Case(title, problem, horizon, problems.uniform_start(problem))


LAWS = ("grid_goal", "grid_cells", "garnet")


def occupancy_case(name, full):
    """Not cached: the large ones are 2e7 branches."""
    kind, size, start = name.split("_")
    n, horizon = {"1e5": (100_000, 100), "1e6": (1_000_000, 20 if start == "uniform" else 100)}[size]
    if not full:
        n, horizon = n // 50, 20
    problem = problems.occupancy_garnet(n) if kind == "garnet" else problems.occupancy_grid(n)
    what = "Garnet A=2 b=5" if kind == "garnet" else "gridworld"
    middle = problem.n_states // 2 + int(problem.n_states**0.5) // 2
    beta = problems.uniform_start(problem) if start == "uniform" else problems.point_start(problem, middle)
    return Case(f"{what} S={problem.n_states}, {start} start, H={horizon}", problem, horizon, beta)


OCCUPANCY = ("garnet_1e5_uniform", "grid_1e5_uniform", "garnet_1e6_uniform", "grid_1e6_uniform", "grid_1e6_point")


# ---------------------------------------------------------------- ours

def model(problem, start):
    p = problem
    return ic.MDP.from_branches(p.state, p.action, p.probability, p.next_state, p.reward, p.ends, n_states=p.n_states, initial=start)


def our_laws(case):
    return ic.return_law(model(case.problem, case.start), case.problem.policy, horizon=case.horizon, progress=False)


def our_credit(case):
    return ic.credit(model(case.problem, case.start), case.problem.policy, horizon=case.horizon, progress=False)


def our_occupancy(case, mdp=None):
    return ic.occupancy(mdp or model(case.problem, case.start), case.problem.policy, horizon=case.horizon, progress=False)


def our_discounted(case, gamma, mdp=None):
    return ic.occupancy(mdp or model(case.problem, case.start), case.problem.policy, discount=gamma, progress=False)


# ---------------------------------------------------------------- theirs that need no function of their own

def back_matrix(problem):
    """P_pi^T, equal entries added: the set-up of the contestants' occupancy."""
    p = problem
    return contestants._backward_matrix(p.state, p.action, p.probability, p.next_state, p.ends, p.n_states, p.policy)


def bare_products(back, case):
    return contestants._forward(back, case.start, case.horizon)


def merged_entries(problem):
    """Entries (s, r, s') of the chain with the policy averaged in."""
    return sum(m.nnz for _, m in contestants._merged(tuple(problem))[0])


# ---------------------------------------------------------------- agreement

def dense(law, low, shape):
    """Our laws of all states as the contestants hand them out: [S, W], first atom `low`."""
    out = np.zeros(shape)
    for s in range(shape[0]):
        values, p = law.state_law(0, s)
        out[s, values.astype(np.int64) - low] = p.value
    return out


def check_laws(ours, theirs):
    low, v = theirs
    difference = float(np.abs(dense(ours, low, v.shape) - v).max())
    assert difference < 1e-13, difference
    return difference


def check_credit(ours, theirs):
    difference = max(float(np.abs(getattr(ours, part).value - getattr(theirs, part)).max()) for part in ("skill", "luck", "noise"))
    # theirs are differences of entropies of up to some nats
    assert difference < 1e-11, difference
    assert abs(float(ours.return_entropy) - theirs.entropy) < 1e-11
    # (C2)
    assert abs(float(ours.total.value.sum() - ours.return_entropy.value)) <= float(ours.total.error.sum() + ours.return_entropy.error) + 1e-12
    return difference


def check_occupancy(ours, theirs):
    """Within 1e-11 of the larger of the two, entry by entry; our own bound is part of it."""
    value = ours.state.value
    for mine, other in zip(np.atleast_2d(value), np.atleast_2d(theirs)):
        assert np.allclose(mine, other, rtol=1e-11, atol=1e-300)


def check_discounted(ours, theirs, left):
    """The contestant leaves out a mass of at most `left`."""
    assert float(np.abs(ours.state.value - theirs).sum()) <= left + float(ours.state.error.sum()) + 1e-13
