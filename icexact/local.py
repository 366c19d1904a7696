"""What one step alone decides: entropies given the state before, and what actions and rewards tell about the state that follows (D3)."""

from functools import cached_property

import numpy as np

from icexact import bounds, kernels
from icexact.chain import merged, merged_pairs, successors
from icexact.intervals import Bracket


class Local:
    """Numbers [H] in nats, as `Bracket`, of one model under one policy."""

    def __init__(self, mdp, policy, occupied, horizon):
        self.mdp, self.policy, self.occupied, self.horizon = mdp, policy, occupied, horizon
        self._pair = np.repeat(np.arange(mdp.n_pairs), np.diff(mdp.branch_ptr))
        self._n = mdp.n_states + 1

    @cached_property
    def actions(self):
        """H(A_h | S_h)."""
        return self._entropy(np.zeros_like(self._pair), self._pair, self.mdp.n_pairs)

    @cached_property
    def rewards_of_states(self):
        """H(R_h | S_h)."""
        return self._entropy(np.zeros_like(self._pair), self.mdp.rewards.index, len(self.mdp.rewards.values))

    @cached_property
    def rewards_of_pairs(self):
        """H(R_h | S_h, A_h)."""
        return self._entropy(self._pair, self.mdp.rewards.index, len(self.mdp.rewards.values))

    def next_states(self, given):
        """H(S_h | S_{h-1}), or given the "pair", state and "reward", or the whole "step" (S, A, R) before; for h = 0, H(S_0)."""
        rewards = self.mdp.rewards
        part = {"state": np.zeros_like(self._pair), "pair": self._pair, "reward": rewards.index, "step": self._pair * len(rewards.values) + rewards.index}[given]
        if not self.horizon:
            return Bracket.of(np.zeros(0), np.zeros(0))
        start = self.mdp.initial[self.mdp.initial > 0]
        first = np.zeros(1)
        if len(start) > 1:
            kernels.entropy.row_entropies(np.array([0, len(start)]), start, first)
        first_error = first * bounds.pivot_rate(self.mdp.initial_rounding + 1, len(start)) + self._lost(len(start))
        later = self._entropy(part, successors(self.mdp), self._n, self.horizon - 1)
        return Bracket.joined(Bracket.of(first, first_error), later)

    def action_to_state(self):
        """I(A_h; S_{h+1} | S_h), h = 0 .. H-2."""
        return self._information(self._pair)

    def reward_to_state(self):
        """I(R_h; S_{h+1} | S_h), h = 0 .. H-2."""
        return self._information(self.mdp.rewards.index)

    def reward_to_pair(self):
        """I(R_h; S_{h+1} | S_h, A_h), h = 0 .. H-2: what I(R^h; (S, A)_{h+1} | (S, A)^h) comes to."""
        return self._information(self.mdp.rewards.index, by_pair=True)

    def _lost(self, width):
        """What entries below the range of the logarithm can hide."""
        least = min(float(self.mdp.probability.min()) * float(self.policy.table[self.policy.table > 0].min()), float(self.mdp.initial[self.mdp.initial > 0].min()))
        return bounds.dust(width) if least < 2.0**-990 or self.occupied.lost else 0.0

    def _steps(self, rows, count, horizon):
        """(sum over the states of d_h times rows(h), its relative rounding), h = 0 .. horizon-1, for rows that stay where the policy does."""
        value, terms = np.zeros(horizon), None
        forward = self.occupied.forward
        for h in range(horizon):
            if terms is None or len(self.policy.table) > 1:
                terms = np.ascontiguousarray(rows(h)[None, :])
            kernels.entropy.weighted_sums(forward.state[h], terms, forward.support[h], value[h : h + 1])
        return value, bounds.gamma(forward.count[:horizon] + count + 6)

    def _entropy(self, part, what, n, horizon=None):
        horizon = self.horizon if horizon is None else horizon
        if not horizon:
            return Bracket.of(np.zeros(0), np.zeros(0))
        seen = {}

        def rows(h):
            chain = merged(self.mdp, self.policy.at(h), part * n + what)
            seen["count"], seen["width"] = max(seen.get("count", 0), self._entry_count(chain)), max(seen.get("width", 1), chain.longest)
            out = np.empty(self.mdp.n_states)
            kernels.local.conditional_entropies(chain.ptr, chain.entry, n, chain.weight, out)
            return out

        value, relative = self._steps(rows, 0, horizon)
        error = value * (bounds.pivot_rate(4 * (seen["count"] + seen["width"]), seen["width"]) + relative) + self._lost(seen["width"])
        return Bracket.of(value, error)

    def _entry_count(self, chain):
        return self.policy.rounding + int(self.mdp.pair_rounding.max()) + 1 + chain.most

    def _information(self, part, by_pair=False):
        horizon, n, mdp = max(self.horizon - 1, 0), self._n, self.mdp
        if not horizon:
            return Bracket.of(np.zeros(0), np.zeros(0))
        follows = successors(mdp)
        seen = {"count": 0, "width": 1, "several": 0.0}

        def rows(h):
            weights = self.policy.at(h)
            parts = merged_pairs(mdp, part * n + follows) if by_pair else merged(mdp, weights, part * n + follows)
            whole = merged_pairs(mdp, follows) if by_pair else merged(mdp, weights, follows)
            seen["count"] = max(seen["count"], self._entry_count(parts), self._entry_count(whole))
            seen["width"] = max(seen["width"], parts.longest)
            rows_there = np.flatnonzero(np.diff(parts.ptr))
            if (parts.entry[parts.ptr[rows_there]] // n != parts.entry[parts.ptr[rows_there + 1] - 1] // n).any():
                seen["several"] = 1.0
            out = np.empty(len(parts.ptr) - 1)
            kernels.local.informations(parts.ptr, parts.entry, n, parts.weight, whole.ptr, whole.entry, whole.weight, out)
            # a pair's information counts with the chance of its action
            return np.bincount(mdp.pair_state, weights * out, minlength=mdp.n_states) if by_pair else out

        value, relative = self._steps(rows, 0, horizon)
        p, q = seen["count"], 2 * seen["count"] + seen["width"] + 2
        actions = int(np.diff(mdp.pair_ptr).max())
        error = bounds.difference_error(value, 0.0, value, np.full(horizon, seen["several"]), p, q, 0.0, seen["width"] * actions) + value * (relative + float(bounds.gamma(self.policy.rounding + actions + 4)))
        return Bracket.of(value, error + self._lost(seen["width"]))
