"""The laws of many states at one step, packed one after the other, with exact keys."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from icexact.support import values_of


@dataclass(frozen=True, eq=False)
class Laws:
    """Row s is data[start[s] : start[s]+count[s]], k steps to go. On the lattice its first atom is at point low[s] and atoms may be 0; with keys the atoms' keys are table[rank].

    possible, where atoms may have underflowed: flags [S, W] of the lattice points, from `floor` on, that can be taken.
    """

    start: np.ndarray
    count: np.ndarray
    data: np.ndarray
    low: np.ndarray = None
    rank: np.ndarray = None
    table: np.ndarray = None
    plan: object = None
    k: int = 0
    possible: np.ndarray = None
    floor: int = 0

    def row(self, s):
        """(keys, probabilities) of row s: int64 or Python integers, ascending; the atoms that can be, and no others."""
        piece = slice(self.start[s], self.start[s] + self.count[s])
        p = self.data[piece]
        if self.low is None:
            return self.table[self.rank[piece]], p
        if self.possible is not None:
            first = self.low[s] - self.floor
            at = np.flatnonzero(self.possible[s, first : first + self.count[s]])
        else:
            at = np.flatnonzero(p > 0)
        return at + self.low[s], p[at]

    def denominator(self):
        """Keys are numerators over this, once `numerators` has brought them there."""
        return self.plan.denominator(self.k) if self.low is None else (self.plan.step.denominator * self.plan.base.denominator)

    def numerators(self, keys):
        """Integers n such that n / denominator() is the return that a key stands for."""
        if self.low is None:
            return keys
        step, base = self.plan.step, self.plan.base
        slope, offset = step.numerator * base.denominator, self.k * base.numerator * step.denominator
        if max(abs(slope), 1) * max(1, int(np.abs(keys).max()) if len(keys) else 0) + abs(offset) < 1 << 62:
            return keys * slope + offset
        return np.array([int(z) * slope + offset for z in keys], dtype=object)

    def values(self, keys):
        """The returns as float64, correctly rounded."""
        return values_of(self.numerators(keys), self.denominator())

    def fractions(self, keys):
        """The returns as exact `Fraction`s."""
        d = self.denominator()
        return [Fraction(int(n), d) for n in self.numerators(keys)]

    @property
    def nbytes(self):
        size = self.start.nbytes + self.count.nbytes + self.data.nbytes
        if self.low is not None:
            return size + self.low.nbytes
        # a Python integer is an object of its own
        each = 8 if self.table.dtype != object else 8 + 32 + max(abs(int(self.table[0])), abs(int(self.table[-1]))).bit_length() // 7
        return size + self.rank.nbytes + each * len(self.table)
