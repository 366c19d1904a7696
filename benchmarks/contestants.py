"""The best NumPy/SciPy formulations we could write of what icexact computes. They know nothing of icexact.

Every function takes flat branch arrays (see problems.Problem) and does its own set-up, so that a timing holds
all the work. Rewards are integers, gamma is 1 unless a discount is asked for. One thread.

Laws come as (low, v): v[s, k] = P(G_0 = low + k | S_0 = s), unit steps from low.

scipy's public `csr @ dense` always writes a new table, which then has to be added at its shift: with many reward
values those extra passes cost more than the product. The routine under it, csr_matvecs, adds into the table it is
given. It is not public, but SciPy users can call it, and a benchmark should race the strongest rival; public=True
keeps to the public interface.
"""
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

try:
    from scipy.sparse._sparsetools import csr_matvecs
except ImportError:
    csr_matvecs = None

CHUNK_BYTES = 1 << 20     # a block of rows that stays in L2 while all reward values are added to it


# ---------------------------------------------------------------- set-up

def _with_end_state(state, action, probability, next_state, reward, ends, n_states, policy):
    """Ends become a move to one more state that stays in place with reward 0. Branches of weight 0 go."""
    n_actions = policy.shape[1]
    if np.any(ends):
        state = np.append(state, n_states)
        action = np.append(action, 0)
        probability = np.append(probability, 1.0)
        next_state = np.append(np.where(ends, n_states, next_state), n_states)
        reward = np.append(reward, 0)
        policy = np.vstack([policy, np.eye(1, n_actions)])
        n_states += 1
    live = (probability > 0) & (policy[state, action] > 0)
    if not live.all():
        state, action, probability, next_state, reward = (
            x[live] for x in (state, action, probability, next_state, reward))
    return state, action, probability, next_state, reward, n_states, policy


def _per_symbol(rows, columns, weight, reward, shape):
    """[(shift, CSR)] for each reward value; CSR adds equal entries. Also lowest reward and range."""
    values, code = np.unique(reward, return_inverse=True)
    low = int(values[0])
    out = []
    for i, value in enumerate(values):
        at = np.flatnonzero(code == i)
        out.append((int(value) - low, sp.csr_array((weight[at], (rows[at], columns[at])), shape=shape)))
    return out, low, int(values[-1]) - low


def _merged(model):
    """The chain with the policy averaged in, one CSR a reward value."""
    state, action, probability, next_state, reward, n, policy = _with_end_state(*model)
    weight = policy[state, action] * probability
    return _per_symbol(state, next_state, weight, reward, (n, n)) + (n,)


# ---------------------------------------------------------------- return laws

def return_laws_per_symbol(state, action, probability, next_state, reward, ends, n_states, policy, horizon):
    """One CSR a reward value @ the dense (S, W) table, W growing by step, added at its shift."""
    symbols, low, span, n = _merged((state, action, probability, next_state, reward, ends, n_states, policy))
    parts = []
    for shift, m in symbols:
        rows = np.flatnonzero(np.diff(m.indptr))
        # rewards that few states can gain: only their rows
        parts.append((shift, rows, m[rows]) if rows.size < 0.8 * n else (shift, slice(None), m))
    v = np.ones((n, 1))
    store = [np.empty(n * (horizon * span + 1)) for _ in range(2)]
    for step in range(1, horizon + 1):
        width = v.shape[1]
        out = store[step % 2][:n * (width + span)].reshape(n, width + span)
        out.fill(0.0)
        for shift, rows, m in parts:
            out[rows, shift:shift + width] += m @ v
        v = out
    return horizon * low, v[:n_states]


def return_laws_plain(state, action, probability, next_state, reward, ends, n_states, policy, horizon):
    """What is usually written: one CSR a reward value @ the whole dense (S, K) table at every step, full temporaries."""
    symbols, low, span, n = _merged((state, action, probability, next_state, reward, ends, n_states, policy))
    atoms = horizon * span + 1
    v = np.zeros((n, atoms))
    v[:, 0] = 1.0
    for _ in range(horizon):
        new = np.zeros_like(v)
        for shift, m in symbols:
            new[:, shift:] += (m @ v)[:, :atoms - shift]
        v = new
    return horizon * low, v[:n_states]


def return_laws_stacked(state, action, probability, next_state, reward, ends, n_states, policy, horizon):
    """Layout (W, S): all reward values in one wide CSR, applied to span+1 neighbouring rows of atoms at once.

    No temporary tables at all and public calls only; but it reads the matrix once for every atom.
    """
    state, action, probability, next_state, reward, n, policy = _with_end_state(
        state, action, probability, next_state, reward, ends, n_states, policy)
    weight = policy[state, action] * probability
    low, span = int(reward.min()), int(np.ptp(reward))
    column = (span + low - reward).astype(np.int64) * n + next_state
    m = sp.csr_array((weight, (state, column)), shape=(n, (span + 1) * n))
    m.sort_indices()
    a, b = (np.zeros((horizon * span + 1 + 2 * span, n)) for _ in range(2))   # span rows of zeros at each end
    a[span] = 1.0
    for step in range(1, horizon + 1):
        flat = a.reshape(-1)
        for k in range(step * span + 1):
            b[k + span] = m @ flat[k * n:(k + span + 1) * n]
        a, b = b, a
    return horizon * low, a[span:span + horizon * span + 1].T[:n_states]


def return_laws_slots(state, action, probability, next_state, reward, ends, n_states, policy, horizon):
    """Entries of a state padded to equal length; for each slot the successors' rows, fancy-indexed.

    Rows lie one after another with `span` zeros between, so a row of the overlapping windows view is a
    successor's law already shifted by its reward.
    """
    symbols, low, span, n = _merged((state, action, probability, next_state, reward, ends, n_states, policy))
    rows = np.concatenate([np.repeat(np.arange(n), np.diff(m.indptr)) for _, m in symbols])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    to = np.concatenate([m.indices for _, m in symbols])[order]
    shift = np.repeat([j for j, _ in symbols], [m.nnz for _, m in symbols])[order]
    weight = np.concatenate([m.data for _, m in symbols])[order]
    count = np.bincount(rows, minlength=n)
    slot = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    slots = int(count.max())
    nxt, off, w = np.zeros((slots, n), dtype=np.intp), np.zeros((slots, n), dtype=np.intp), np.zeros((slots, n, 1))
    nxt[slot, rows], off[slot, rows], w[slot, rows, 0] = to, shift, weight

    final = horizon * span + 1
    a, b = (np.zeros(span + n * (final + span) + span) for _ in range(2))
    width = 1
    a[span:span + n * (1 + span)].reshape(n, 1 + span)[:, 0] = 1.0
    for _ in range(horizon):
        new = width + span
        windows = np.lib.stride_tricks.sliding_window_view(a, new)
        out = b[span:span + n * (new + span)].reshape(n, new + span)
        out[:, new:] = 0.0
        start = nxt * (width + span) + (span - off)
        rows = max(1, CHUNK_BYTES // (8 * new))
        for r0 in range(0, n, rows):
            at = slice(r0, r0 + rows)
            total = windows[start[0, at]]
            total *= w[0, at]
            for i in range(1, slots):
                part = windows[start[i, at]]
                part *= w[i, at]
                total += part
            out[at, :new] = total
        a, b = b, a
        width = new
    return horizon * low, a[span:span + n * (width + span)].reshape(n, width + span)[:n_states, :width]


def _add_product(m, r0, r1, stride, x, y, shift, public):
    """Rows r0 .. r1-1 of m @ x, added to the flat block y of rows of length `stride`, `shift` atoms to the right.

    x has at least `shift` zeros at the end of each row, so what runs over into the next row is 0.
    """
    p = m.indptr
    first, last = p[r0], p[r1]
    if first == last:
        return
    if not public:
        csr_matvecs(r1 - r0, m.shape[1], stride, p[r0:r1 + 1], m.indices, m.data, x, y[shift:])
        return
    rows = np.flatnonzero(np.diff(p[r0:r1 + 1]))              # only these can change
    part = sp.csr_array((m.data[first:last], m.indices[first:last], np.append(p[r0 + rows], last) - first),
                        shape=(rows.size, m.shape[1]))
    table = y[:(r1 - r0) * stride].reshape(r1 - r0, stride)[:, shift:]
    table[rows] += (part @ x.reshape(-1, stride))[:, :stride - shift]


def _stride(width, span, final):
    # a tenth of slack: rows are moved to a new stride only now and then
    return min(max(width + span, width * 11 // 10), final)


def return_laws_inplace(state, action, probability, next_state, reward, ends, n_states, policy, horizon):
    """One CSR a reward value, added straight into the shifted place of the new table, by blocks of rows in L2."""
    symbols, low, span, n = _merged((state, action, probability, next_state, reward, ends, n_states, policy))
    final = horizon * span + 1
    a, b = (np.empty(n * final + span) for _ in range(2))
    width = stride = 1
    a[:n] = 1.0
    for _ in range(horizon):
        if width + span > stride:
            a, b, stride = _restride(a, b, n, width, stride, _stride(width, span, final))
        rows = max(1, CHUNK_BYTES // (8 * stride))
        x = a[:n * stride]
        for r0 in range(0, n, rows):
            r1 = min(n, r0 + rows)
            b[r0 * stride:r1 * stride] = 0.0
            y = b[r0 * stride:r1 * stride + span]
            for shift, m in symbols:
                _add_product(m, r0, r1, stride, x, y, shift, False)
        a, b = b, a
        width += span
    return horizon * low, a[:n * stride].reshape(n, stride)[:n_states, :width]


def _restride(a, b, n, width, stride, new):
    out = b[:n * new].reshape(n, new)
    out[:, :width] = a[:n * stride].reshape(n, stride)[:, :width]
    out[:, width:] = 0.0
    return b, a, new


# ---------------------------------------------------------------- laws and credit

class Credit(NamedTuple):
    low: int                # lowest atom
    laws: np.ndarray        # (S, W), v_0
    skill: np.ndarray       # (H,), nats
    luck: np.ndarray
    noise: np.ndarray
    entropy: float          # H(Z)


def _row_entropies(p, work):
    """-sum p log p of each row. np.log is several times faster than scipy.special.entr, and 0 log 1e-300 = 0."""
    t = work[:p.size].reshape(p.shape)
    np.maximum(p, 1e-300, out=t)
    np.log(t, out=t)
    return -np.vecdot(p, t)


def laws_and_credit(state, action, probability, next_state, reward, ends, n_states, policy, horizon, start,
                    public=False):
    """Return laws of all states and skill, luck, noise of each step, from differences of entropies (C1).

    The laws of pairs are made block by block of states and never leave the cache.
    """
    public = public or csr_matvecs is None
    s, a, p, nxt, r, n, policy = _with_end_state(
        state, action, probability, next_state, reward, ends, n_states, policy)
    n_actions = policy.shape[1]
    pair = s.astype(np.int64) * n_actions + a
    n_pairs = n * n_actions
    symbols, low, span = _per_symbol(pair, nxt, p, r, (n_pairs, n))

    # groups (s, a, r): weight p(r|s,a) and the law of the next state. Only groups of several successors in pairs of
    # several rewards need laws of their own; else the law is that of the pair or of the successor.
    key = pair * (span + 1) + (r - low)
    keys, group = np.unique(key, return_inverse=True)
    group_pair = keys // (span + 1)
    to = sp.csr_array((p, (group, nxt)), shape=(keys.size, n))
    p_group = np.bincount(group, p)
    several = (np.bincount(group_pair, minlength=n_pairs) > 1)[group_pair]
    wide = np.flatnonzero(several & (np.diff(to.indptr) > 1))
    narrow = np.flatnonzero(several & (np.diff(to.indptr) == 1))
    narrow_to = to.indices[to.indptr[narrow]]
    own = to[wide]
    own.data /= np.repeat(p_group[wide], np.diff(own.indptr))
    alone = np.flatnonzero(~several)
    p_next = sp.csr_array((p, (pair, nxt)), shape=(n_pairs, n))     # entropy of successors, by pair

    beta = np.zeros(n)
    beta[:n_states] = start
    weight = policy[s, a] * p
    d = _forward(sp.csr_array((weight, (nxt, s)), shape=(n, n)), beta, horizon)

    skill, luck, noise = np.zeros(horizon), np.zeros(horizon), np.zeros(horizon)
    final = horizon * span + 1
    v, new_v = (np.empty(n * final + span) for _ in range(2))
    v[:n] = 1.0
    width = stride = 1
    h_v = np.zeros(n)
    h_q, h_new, h_group = np.empty(n_pairs), np.empty(n), np.empty(keys.size)
    for h in range(horizon - 1, -1, -1):
        if width + span > stride:
            v, new_v, stride = _restride(v, new_v, n, width, stride, _stride(width, span, final))
        x = v[:n * stride]
        # public calls cost 20 us each: larger blocks
        rows = min(n, max(1, (16 if public else 1) * CHUNK_BYTES // (8 * stride * n_actions)))
        q_store = np.empty(rows * n_actions * stride + span)
        work = np.empty(rows * n_actions * stride)
        mix = sp.csr_array((np.ones(rows * n_actions), np.arange(rows * n_actions),
                            np.arange(0, rows * n_actions + 1, n_actions)), shape=(rows, rows * n_actions))
        for r0 in range(0, n, rows):
            r1 = min(n, r0 + rows)
            k0, k1 = r0 * n_actions, r1 * n_actions
            q = q_store[:(k1 - k0) * stride]
            q.fill(0.0)
            for shift, m in symbols:
                _add_product(m, k0, k1, stride, x, q_store, shift, public)
            h_q[k0:k1] = _row_entropies(q.reshape(-1, stride), work)
            block = new_v[r0 * stride:r1 * stride]
            block.fill(0.0)
            mix.data[:k1 - k0] = policy[r0:r1].reshape(-1)
            if r1 - r0 == rows:
                _add_product(mix, 0, rows, stride, q, block, 0, public)
            else:
                np.einsum("sa,saw->sw", policy[r0:r1], q.reshape(r1 - r0, n_actions, stride),
                          out=block.reshape(-1, stride))
            h_new[r0:r1] = _row_entropies(block.reshape(-1, stride), work)
        h_group[alone] = h_q[group_pair[alone]]
        h_group[narrow] = h_v[narrow_to]
        rows = max(1, CHUNK_BYTES // (8 * stride))
        if wide.size:
            work = np.empty(rows * stride)
            store = np.empty(rows * stride)
            for r0 in range(0, wide.size, rows):
                r1 = min(wide.size, r0 + rows)
                law = store[:(r1 - r0) * stride]
                law.fill(0.0)
                _add_product(own, r0, r1, stride, x, law, 0, public)
                h_group[wide[r0:r1]] = _row_entropies(law.reshape(-1, stride), work)
        h_after = np.bincount(group_pair, p_group * h_group, minlength=n_pairs)
        d_pair = (d[h][:, None] * policy).reshape(-1)
        skill[h] = d[h] @ (h_new - np.einsum("sa,sa->s", policy, h_q.reshape(n, n_actions)))
        noise[h] = d_pair @ (h_q - h_after)
        if h + 1 < horizon:
            luck[h + 1] = d_pair @ (h_after - p_next @ h_v)
        v, new_v = new_v, v
        h_v, h_new = h_new, h_v
        width += span
    laws = v[:n * stride].reshape(n, stride)[:n_states, :width]
    z = start @ laws
    entropy = -(z @ np.log(np.maximum(z, 1e-300)))
    if horizon:
        luck[0] = entropy - beta @ h_v
    return Credit(horizon * low, laws, skill, luck, noise, float(entropy))


# ---------------------------------------------------------------- occupancy

def _forward(back, beta, horizon):
    d = np.zeros((horizon, beta.size))
    if horizon:
        d[0] = beta
    for h in range(1, horizon):
        d[h] = back @ d[h - 1]
    return d


def _backward_matrix(state, action, probability, next_state, ends, n_states, policy):
    """P_pi^T with equal entries added; branches that end are left out.

    Measured: COO straight to CSR of the transpose is the fastest to build at 1e5 states and multiplies fastest; at 1e6
    products tie, and the CSR of P_pi read as the CSC of its transpose saves up to half of the set-up.
    """
    weight = policy[state, action]
    weight *= probability
    if np.any(ends):
        live = np.flatnonzero(~ends)
        state, next_state, weight = state[live], next_state[live], weight[live]
    shape = (n_states, n_states)
    if n_states < 300_000 or np.any(state[1:] < state[:-1]):
        return sp.coo_array((weight, (next_state, state)), shape=shape).tocsr()
    pointer = np.zeros(n_states + 1, dtype=next_state.dtype)
    np.cumsum(np.bincount(state, minlength=n_states), out=pointer[1:])
    p = sp.csr_array((weight, next_state.copy(), pointer), shape=shape)    # adding sorts in place: not the caller's
    p.sum_duplicates()
    return p.T


def occupancy(state, action, probability, next_state, reward, ends, n_states, policy, horizon, start, keep=True):
    """d_h for all h as (H, S), or with keep=False their sum over h (expected visits)."""
    back = _backward_matrix(state, action, probability, next_state, ends, n_states, policy)
    if keep:
        return _forward(back, np.asarray(start, dtype=np.float64), horizon)
    total = np.zeros(n_states)
    d = np.asarray(start, dtype=np.float64)
    for h in range(horizon):
        if h:
            d = back @ d
        total += d
    return total


def discounted_occupancy_power(state, action, probability, next_state, reward, ends, n_states, policy, gamma, start,
                               tolerance=1e-12):
    """(1 - gamma) sum_h gamma^h d_h, cut where the mass left, gamma^h, is below the tolerance."""
    if not 0.0 <= gamma < 1.0:
        raise ValueError("gamma must lie in [0, 1)")
    back = _backward_matrix(state, action, probability, next_state, ends, n_states, policy)
    back.data *= gamma
    d = (1.0 - gamma) * np.asarray(start, dtype=np.float64)
    total = d.copy()
    left = gamma
    while left > tolerance:
        d = back @ d
        total += d
        left *= gamma
    return total


# ---------------------------------------------------------------- sampling

def sample_returns(state, action, probability, next_state, reward, ends, n_states, policy, horizon, start_state, n,
                   seed=0, block=16384):
    """n returns from one state, alias tables over the (successor, reward) entries of the merged chain.

    Set-up is inside; blocks keep the vectors in cache.
    """
    symbols, low, span, size = _merged((state, action, probability, next_state, reward, ends, n_states, policy))
    rows = np.concatenate([np.repeat(np.arange(size), np.diff(m.indptr)) for _, m in symbols])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    to = np.concatenate([m.indices for _, m in symbols])[order]
    gain = np.repeat([j + low for j, _ in symbols], [m.nnz for _, m in symbols])[order]
    weight = np.concatenate([m.data for _, m in symbols])[order]
    count = np.bincount(rows, minlength=size)
    slot = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    width = int(count.max())
    prob, nxt, rew = np.zeros((size, width)), np.zeros((size, width), np.int64), np.zeros((size, width), np.int64)
    prob[rows, slot], nxt[rows, slot], rew[rows, slot] = weight, to, gain
    keep, other = _alias(prob / prob.sum(axis=1, keepdims=True))
    base = np.arange(size)[:, None] * width
    # entry 2k: the slot's own branch, 2k+1: its alias. States are held as the first slot of their row
    both = np.stack([np.broadcast_to(np.arange(width), (size, width)), other], axis=2) + base[:, :, None]
    nxt = (nxt.reshape(-1) * width)[both].reshape(-1)
    rew = rew.reshape(-1)[both].reshape(-1)
    keep = keep.reshape(-1)

    rng = np.random.default_rng(seed)
    out = np.zeros(n, dtype=np.int64)
    u, k, c = np.empty(block), np.empty(block, np.int64), np.empty(block)
    at, g = np.empty(block, np.int64), np.empty(block, np.int64)
    for i in range(0, n, block):
        z = out[i:i + block]
        if z.size < block:
            u, k, c, at, g = (x[:z.size] for x in (u, k, c, at, g))
        at[:] = start_state * width
        for _ in range(horizon):
            rng.random(out=u)
            u *= width
            k[:] = u                              # truncation: the slot
            u -= k
            k += at
            np.take(keep, k, out=c, mode="clip")  # clip: no buffering of out; nothing is ever clipped
            k *= 2
            k += u >= c
            np.take(nxt, k, out=at, mode="clip")
            np.take(rew, k, out=g, mode="clip")
            z += g
    return out


def _alias(p):
    """Walker's tables for all rows at once: at most one slot is settled a round, in every row."""
    size, width = p.shape
    left = p * width
    keep, other = np.ones_like(p), np.tile(np.arange(width), (size, 1))
    done = np.zeros(p.shape, dtype=bool)
    r = np.arange(size)
    for _ in range(width - 1):
        small = np.where(done, np.inf, left).argmin(axis=1)
        large = np.where(done, -np.inf, left).argmax(axis=1)
        keep[r, small] = np.minimum(left[r, small], 1.0)
        other[r, small] = large
        left[r, large] -= 1.0 - keep[r, small]
        done[r, small] = True
    return keep, other


def trajectories_needed(laws, kl=1e-3):
    """For each row, the n at which KL(empirical || exact), about (atoms - 1) / (2n), falls to kl.

    Atoms are those expected at least once in n draws, so n is a fixed point; found by bisection on the sorted law.
    """
    p = -np.sort(-np.asarray(laws), axis=1)
    atoms = np.arange(1, p.shape[1] + 1)
    # with m atoms the estimate asks for n = (m-1)/(2 kl); atom m counts if n p_m >= 1
    counts = p * (atoms - 1) / (2 * kl) >= 1.0
    last = np.where(counts.any(axis=1), p.shape[1] - counts[:, ::-1].argmax(axis=1), 1)
    return np.maximum((last - 1) / (2 * kl), 1.0)


def sampling_seconds(laws, trajectories_per_second, kl=1e-3):
    """Seconds to sample every state's law to that KL, at the measured speed of sample_returns."""
    return float(trajectories_needed(laws, kl).sum() / trajectories_per_second)


# ---------------------------------------------------------------- dispatch

# Medians of 3 interleaved rounds, seconds, one thread of a 2-core AVX-512 Xeon, noisy (1.3x is a tie):
#                                         inplace  per_symbol  stacked  slots
#   gridworld 100x100, {0, 1}, H=100        0.12      0.19       0.24    0.45
#   gridworld 100x100, -1..10, H=100        2.8       8.3        4.4     4.5
#   Garnet 1e4, A=4, b=5, a pair, H=50      2.0       3.5        5.5     5.7
#   the same, a branch (2 rounds, best)     2.0       5.5        4.3      -
def public_form(state, action, probability, next_state, reward, ends, n_states, policy):
    """Which of the forms that keep to SciPy's public interface is the fastest for the shape."""
    # adding the rows of a (state, reward) costs more than reading the matrix for each atom where they hold few entries
    entries = np.unique(state.astype(np.int64) * n_states + next_state).size
    rows = np.unique(state.astype(np.int64) * (int(np.ptp(reward)) + 1) + (reward - reward.min())).size
    return return_laws_stacked if 3 * rows > entries else return_laws_per_symbol


def return_laws(state, action, probability, next_state, reward, ends, n_states, policy, horizon, public=False):
    """The fastest of the above for the shape; public=True: the fastest that keeps to SciPy's public interface."""
    model = state, action, probability, next_state, reward, ends, n_states, policy
    if not public and csr_matvecs is not None:
        return return_laws_inplace(*model, horizon)
    return public_form(*model)(*model, horizon)
