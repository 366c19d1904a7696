"""Numbers by step that are known to lie between two ends, and their sum."""

from dataclasses import dataclass

import numpy as np

from icexact import bounds
from icexact.results import in_base

CLOSED = "closed form"


@dataclass(eq=False)
class Bracket:
    """Numbers by step between lower and upper, and their sum, which may be known better than its parts."""

    lower: np.ndarray
    upper: np.ndarray
    total_lower: float
    total_upper: float
    method: str = CLOSED
    nodes: np.ndarray | None = None

    @classmethod
    def of(cls, value, error, method=CLOSED):
        """Numbers with their errors."""
        lower, upper = np.maximum(value - error, 0.0), value + error
        slack = 1 + float(bounds.gamma(len(value) + 4))
        return cls(lower, upper, float(lower.sum()) / slack, float(upper.sum()) * slack, method)

    def per_step(self, scale):
        return _between(self.lower, self.upper, scale)

    def total(self, scale):
        return _between(self.total_lower, self.total_upper, scale)

    def minus(self, other):
        """self - other, which is known not to be negative."""
        slack = float(bounds.gamma(2))
        lower = np.maximum((self.lower - other.upper) - slack * (self.lower + other.upper), 0.0)
        upper = np.maximum((self.upper - other.lower) + slack * (self.upper + other.lower), 0.0)
        ends = self.total_upper + other.total_upper
        return self._summed(lower, upper, self.total_lower - other.total_upper - slack * ends, self.total_upper - other.total_lower + slack * ends, other)

    def plus(self, other):
        slack = 1 + float(bounds.gamma(2))
        return self._summed((self.lower + other.lower) / slack, (self.upper + other.upper) * slack, (self.total_lower + other.total_lower) / slack, (self.total_upper + other.total_upper) * slack, other)

    def _summed(self, lower, upper, total_lower, total_upper, other):
        slack = 1 + float(bounds.gamma(len(lower) + 4))
        found = [x.method for x in (self, other) if x.method != CLOSED]
        method = next((m for m in found if "bracket" in m), found[0] if found else CLOSED)
        return Bracket(lower, upper, max(total_lower, float(lower.sum()) / slack, 0.0), max(min(total_upper, float(upper.sum()) * slack), 0.0), method)

    def after_first(self):
        """Without step 0."""
        if not len(self.lower):
            return self
        lower, upper = self.lower[1:], self.upper[1:]
        slack = float(bounds.gamma(len(lower) + 4))
        total_lower = max(float(lower.sum()) * (1 - slack), self.total_lower - self.upper[0] - slack * self.total_upper)
        total_upper = min(float(upper.sum()) * (1 + slack), self.total_upper - self.lower[0] + slack * self.total_upper)
        return Bracket(lower, upper, total_lower, total_upper, self.method, self.nodes)

    @classmethod
    def joined(cls, one, two):
        """The steps of one and then those of two."""
        slack = float(bounds.gamma(2))
        return cls(np.append(one.lower, two.lower), np.append(one.upper, two.upper), (one.total_lower + two.total_lower) * (1 - slack), (one.total_upper + two.total_upper) * (1 + slack), two.method)


def _between(lower, upper, scale):
    """`Bounded` that holds every number of the interval."""
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    value = lower + (upper - lower) / 2
    error = np.maximum(upper - value, value - lower) * (1 + 2.0**-50) + np.where(upper > lower, 2.0**-1070, 0.0)
    return in_base(value, error, scale)
