"""Occupancy without horizon: (O2) and (O3) as linear systems x = b + gamma P^T x, solved by whatever suits and then bounded by proof.

A = I - gamma P^T is an M-matrix, so A^-1 >= 0. Small systems are factorised; large ones are summed as the series sum_k (gamma P^T)^k b, whose terms are
nonnegative: its rounding is relative, and what is left is bounded by the mass it still has. Where the series is too long a Krylov solver gives x. For an x of
unknown origin the error is bounded by the residual: if y >= 0 satisfies A y >= |b - A x| in every entry, rounding included, then |x - x*| <= y.
"""

import threading

import numpy as np

from icexact import bounds, kernels
from icexact.chain import merged_states, restrict, transposed
from icexact.errors import AccuracyError, EndingError
from icexact.progress import Progress
from icexact.results import Bounded

DENSE = 1200  #: states up to which a dense factorisation is the quicker way
LEFT = 2.0**-64  #: share of the mass at which a series is cut
TINY = 2.0**-1000  #: far above what products can lose to underflow in one residual
WORK = 5e10  #: multiply-adds that a series may take before a Krylov solver is tried


def without_horizon(mdp, policy, gamma, tolerance, progress=None):
    """(state Bounded [S], mass Bounded ()) of (O2) for gamma < 1, of (O3) for gamma = 1."""
    part = restrict(mdp, policy, mdp.n_states + 1)
    system = _System(part.mdp, part.policy, gamma)
    if gamma == 1:
        _check_ending(mdp, part, system)
    with Progress(progress, 100, "occupancy") as bar:
        if system.n <= DENSE:
            value, error = _factorised(system)
        else:
            value, error = _iterated(system, bar)
    mass = float(value.sum())
    if not error.sum() <= tolerance * mass:
        raise AccuracyError(f"the proven error of the occupancy is {error.sum():.1e} of a mass of {mass:.6g}, above the tolerance of {tolerance:g}: episodes take too long for float64 here; use a horizon, a smaller discount, or tolerance={2 * error.sum() / mass:.1e}")
    state, spread = np.zeros(mdp.n_states), np.zeros(mdp.n_states)
    state[part.states], spread[part.states] = value, error
    return Bounded(state, spread), Bounded(mass, float(error.sum()) * (1 + 1e-9) + mass * float(bounds.gamma(bounds.row_depth(system.n) + system.n)))


class _System:
    """P^T as CSR over the states that can be occupied, b, and the roundings of one product."""

    def __init__(self, mdp, policy, gamma):
        from scipy.sparse import csr_array

        self.n = mdp.n_states
        chain = merged_states(mdp, policy.at(0))
        degree = np.bincount(chain.entry, minlength=self.n)
        ptr, column, weight = transposed(chain, degree, self.n)
        self.chain = chain
        self.gamma = float(gamma)
        self.start = mdp.initial * float(1 - gamma) if gamma < 1 else mdp.initial.copy()
        self.weight = weight * self.gamma
        self.matrix = csr_array((self.weight, column, ptr), shape=(self.n, self.n))
        longest = int(degree.max()) if self.n else 0
        # one product: the entries of gamma P^T, a multiplication, the sum of a row
        self.entry_count = policy.rounding + int(mdp.pair_rounding.max()) + chain.most + 3
        self.product_count = self.entry_count + 1 + longest
        self.start_count = mdp.initial_rounding + 2
        self.ends = np.diff(chain.ptr) == 0
        exits = mdp.ends & np.repeat(policy.at(0) > 0, np.diff(mdp.branch_ptr))
        self.ends |= np.bincount(np.repeat(mdp.pair_state, np.diff(mdp.branch_ptr))[exits], minlength=self.n) > 0

    def gather(self, x, out):
        kernels.occupancy.gather(0, self.n, self.matrix.indptr.astype(np.int64, copy=False), self.matrix.indices, self.weight, x, out)

    def residual(self, x):
        """(b - A x, what that and the inputs' rounding can be off by), both [n]."""
        flow = self.matrix @ x
        off = bounds.gamma(self.product_count + 3) * (flow + x + self.start) + bounds.gamma(self.start_count) * self.start + TINY
        return self.start - x + flow, off


def _check_ending(mdp, part, system):
    """Every state that can be occupied has to reach an ending, decided on the graph."""
    reached = system.ends.copy()
    front = np.flatnonzero(reached)
    back = system.matrix
    while len(front):
        # rows of P^T by the state entered: its columns are the predecessors
        before = np.unique(back.indices[np.concatenate([np.arange(back.indptr[t], back.indptr[t + 1]) for t in front])] if len(front) < 64 else back[front].indices)
        front = before[~reached[before]]
        reached[front] = True
    if not reached.all():
        stuck = part.states[~reached]
        names = ", ".join(str(s) for s in stuck[:10]) + (f" and {len(stuck) - 10} more" if len(stuck) > 10 else "")
        raise EndingError(f"ending is not certain: from {'state' if len(stuck) == 1 else 'states'} {names} no episode ever ends under this policy, so expected visits are infinite; give a horizon or a discount below 1")


def _factorised(system):
    """A dense factorisation, one refinement, and the bound by residual."""
    from scipy.linalg import lu_factor, lu_solve

    factors = lu_factor(np.eye(system.n) - system.matrix.toarray(), check_finite=False)
    return _bounded(system, lambda b: lu_solve(factors, b, check_finite=False))


def _bounded(system, solve):
    x = np.maximum(solve(system.start), 0.0)
    for _ in range(2):
        x = np.maximum(x + solve(system.residual(x)[0]), 0.0)
    r, off = system.residual(x)
    wanted = np.abs(r) + off + 2.0**-1000  # products that underflow are far below that
    # room for the rounding of A y, which is relative to y: y stays far below x
    y = np.maximum(solve(wanted * 1.01 + x * (64 * bounds.UNIT * system.product_count)), 0.0)
    flow = system.matrix @ y
    low = y * (1 - 2 * bounds.UNIT) - flow * (1 + bounds.gamma(system.product_count + 3)) - bounds.gamma(3) * (y + flow) - 2.0**-1040
    if np.isfinite(y).all() and (low >= wanted).all():
        return x, y * (1 + 1e-9)
    raise AccuracyError("the occupancy without horizon could not be bounded: the system is too ill-conditioned for float64 (episodes are extremely long); use a horizon or a smaller discount")


def _iterated(system, bar):
    """The series, with what it leaves out; a Krylov solver where the series would be too long."""
    n, gamma = system.n, system.gamma
    half = None
    if gamma == 1:
        half = _half_life(system, int(WORK / 64 / max(1, system.matrix.nnz)))
        sweeps = None if half is None else 64 * half
    else:
        sweeps = int(np.log(LEFT) / np.log(gamma)) + 1
    if sweeps is None or sweeps * system.matrix.nnz > WORK:
        return _krylov(system)
    # the mass still on its way at each term: what is left out is at most `left` of it
    left = 2.0 * half if gamma == 1 else 1 / (1 - gamma)
    term, other = system.start.copy(), np.empty(n)
    total = term.copy()
    mass = float(total.sum())
    count, step = system.start_count, system.product_count
    for k in range(1, 2 * sweeps + 64):
        system.gather(term, other)
        term, other = other, term
        total += term
        count += step
        if k % 8 == 0 or k >= sweeps:
            bar.advance(0)
            remaining = float(term.sum())
            if remaining * left <= LEFT * mass or remaining == 0.0:
                break
    tail = float(term.sum()) * left * (1 + 1e-6)
    return total, total * bounds.gamma(count + 2 * k) + tail + 2.0**-1040


def _half_life(system, most):
    """The least m found with P(alive after m more steps | s) <= 1/2 for every s, None beyond `most` steps: what bounds a tail without discount."""
    from scipy.sparse import csr_array

    forward = csr_array((system.chain.weight, system.chain.entry, system.chain.ptr), shape=(system.n, system.n))
    alive = np.ones(system.n)
    for m in range(1, max(2, most)):
        alive = forward @ alive
        if alive.max() * (1 + float(bounds.gamma(m * (system.product_count + system.chain.longest)))) <= 0.5:
            return m
    return None


def _krylov(system):
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import LinearOperator, gmres, spilu

    matrix = (eye_array(system.n) - system.matrix).tocsc()

    def solver(inner, rounds):
        def solve(b):
            size = float(np.abs(b).max())
            if size == 0:
                return np.zeros_like(b)
            x, _ = gmres(matrix, b / size, rtol=1e-13, atol=0.0, restart=60, maxiter=rounds, M=inner)
            return x * size

        return solve

    # where the chain mixes fast a few vectors do, and a factorisation would fill in beyond all bounds
    try:
        value, error = _bounded(system, solver(None, 4))
        if error.sum() <= 1e-6 * value.sum():
            return value, error
    except AccuracyError:
        pass
    try:
        ilu = _interruptible(lambda: spilu(matrix, drop_tol=1e-5, fill_factor=30))
        inner = LinearOperator(matrix.shape, ilu.solve)
    except RuntimeError:
        inner = None
    return _bounded(system, solver(inner, 40))


def _interruptible(work):
    """work() in a thread of its own, so that Ctrl-C is heard meanwhile: a factorisation is one long call."""
    box = []

    def run():
        try:
            box.append((work(), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    value, error = box[0]
    if error is not None:
        raise error
    return value
