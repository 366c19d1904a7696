"""`Bounded` numbers and the helpers that print only digits that are sure."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext

import numpy as np

_EXACT = Context(prec=1200)  # every float64 and every sum of two is exact
_UNIT = {None: "nats", 2: "bits", 10: "hartleys"}


def unit(base):
    """The name of the unit that a logarithm's base stands for.

    >>> unit(None), unit(2), unit(3)
    ('nats', 'bits', 'units of log 3')
    """
    if base is not None and base == math.e:
        return "nats"
    return _UNIT.get(base, f"units of log {base:g}" if base is not None else "nats")


def sure_digits(value, error, most=12):
    """`value` as text, with only those decimals that hold for every number within `error` of it.

    >>> sure_digits(0.0139397962, 3e-9), sure_digits(2.0, 0.0), sure_digits(1e-20, 1e-33), sure_digits(0.0, 1e-30)
    ('0.0139398', '2', '1.00000000000e-20', '0 +- 1.1e-30')
    """
    value, error = float(value), float(error)
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if math.isnan(error) or math.isinf(error):
        return f"{value:.3g} +- {error}"
    if value == 0 and error == 0:
        return "0"
    with localcontext(_EXACT):
        exact = Decimal(value)
        if error == 0:
            text = f"{value:.{most}g}"
            return text if Decimal(text) == exact else repr(value)
        low, high = exact - Decimal(error), exact + Decimal(error)
        lead = exact.adjusted() if value else 0
        # the finest decimal place at which both ends still round alike
        place = max(lead - most, Decimal(error).adjusted())
        while value and place <= lead:
            step = Decimal((0, (1,), place))
            if low.quantize(step) == high.quantize(step):
                if -5 <= lead < 15 and place <= 0:
                    return f"{value:.{-place}f}"
                return f"{value:.{lead - place}e}"
            place += 1
        # no digit is sure: an interval that holds all that the number may be
        middle = f"{value:.1g}" if value else "0"
        return f"{middle} +- {_round_up(max(Decimal(middle) - low, high - Decimal(middle)))}"


def _round_up(size):
    """Two digits, rounded up."""
    rounded = size.quantize(Decimal((0, (1,), size.adjusted() - 1)), ROUND_CEILING)
    digits = rounded.as_tuple().digits
    return f"{digits[0]}.{digits[1]}e{rounded.adjusted():+03d}"


class Bounded:
    """A number or array with its proven error: the true value lies within `error` of `value`, entry by entry.

    `.value` and `.error` are read-only float64 of one shape; `.lower` and `.upper` are the ends. `float()` and
    `np.asarray()` give the value; `repr` prints only digits that are sure.

    >>> x = Bounded(0.25, 1e-12)
    >>> x.value, float(x), x
    (array(0.25), 0.25, 0.25000000000)
    """

    __slots__ = ("_value", "_error", "absolute", "factor")

    def __init__(self, value, error):
        value = np.array(value, dtype=np.float64)
        error = np.array(error, dtype=np.float64)
        if error.shape != value.shape:
            error = np.broadcast_to(error, value.shape).copy()
        if not (error >= 0).all():
            raise ValueError("an error bound must be >= 0 everywhere")
        value.setflags(write=False)
        error.setflags(write=False)
        self._value, self._error, self.factor, self.absolute = value, error, None, 0.0

    @classmethod
    def relative(cls, value, factor, absolute=0.0):
        """`value` (not copied: hand it over) with error factor * |value| + absolute; both broadcast, and the error is made at need."""
        self = cls.__new__(cls)
        value = np.asarray(value, dtype=np.float64)
        value.setflags(write=False)
        self._value, self._error, self.factor, self.absolute = value, None, factor, absolute
        return self

    value = property(lambda self: self._value)

    @property
    def error(self):
        """float64, the shape of `value`."""
        if self._error is None:
            error = np.abs(self._value) * self.factor
            error += self.absolute
            error = np.asarray(error)
            error.setflags(write=False)
            return error
        return self._error

    shape = property(lambda self: self._value.shape)
    ndim = property(lambda self: self._value.ndim)
    dtype = property(lambda self: self._value.dtype)

    @property
    def lower(self):
        """The lower end, rounded down; an exact number (error 0) is its own end."""
        return self._end(-1)

    @property
    def upper(self):
        """The upper end, rounded up."""
        return self._end(1)

    def _end(self, sign):
        error = self.error
        return np.where(error == 0, self._value, np.nextafter(self._value + sign * error, sign * np.inf))

    def __getitem__(self, index):
        value = self._value[index]
        if self._error is None:
            return Bounded(value, np.abs(value) * np.broadcast_to(self.factor, self._value.shape)[index] + np.broadcast_to(self.absolute, self._value.shape)[index])
        return Bounded(value, self._error[index])

    def __len__(self):
        return len(self._value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def total(self):
        """The sum of all entries, a `Bounded` ().

        >>> Bounded([1.0, 2.0], [1e-9, 1e-9]).total()
        3.00000000
        """
        rounding = (self._value.size + 4) * 2.0**-53 * (1 + 1e-6)
        return Bounded(self._value.sum(), self.error.sum() * (1 + rounding) + np.abs(self._value).sum() * rounding)

    def __float__(self):
        return float(self._value)

    def __array__(self, dtype=None, copy=None):
        if copy is False and dtype not in (None, self._value.dtype):
            raise ValueError("a Bounded holds float64: another dtype needs a copy")
        return np.array(self._value, dtype=dtype) if copy or dtype is not None else self._value

    def __eq__(self, other):
        raise TypeError("two bounded numbers are not compared by ==: compare .value, or .lower and .upper")

    __hash__ = None

    def __reduce__(self):
        return (Bounded.relative, (self._value, self.factor, self.absolute)) if self._error is None else (Bounded, (self._value, self._error))

    def __str__(self):
        if self.ndim == 0:
            return sure_digits(self._value, self.error)
        return np.array2string(_texts(self), formatter={"all": str}, max_line_width=100)

    def __repr__(self):
        return str(self) if self.ndim == 0 else f"Bounded({self})"


def _texts(bounded):
    """The entries' sure digits; only those that np.array2string would show are worked out."""
    v, e = bounded.value, bounded.error
    if v.size <= 1000:
        flat = [sure_digits(x, d) for x, d in zip(v.ravel(), e.ravel())]
        return np.array(flat, dtype=object).reshape(v.shape)
    out = np.empty(v.shape, dtype=object)
    edge = 3
    keep = np.ix_(*[np.unique(np.r_[0 : min(edge, n), max(n - edge, 0) : n]) for n in v.shape])
    picked = np.array([sure_digits(x, d) for x, d in zip(v[keep].ravel(), e[keep].ravel())], dtype=object)
    out[keep] = picked.reshape(v[keep].shape)
    return out


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What every result has: `source`, where it comes from, and one screen of text as its repr."""

    def __repr__(self):
        return self.summary()

    def save(self, path):
        """Write it as `.npz` (no pickle); `icexact.load` reads it back equal."""
        from icexact.io.npz import save

        save(self, path)

    def summary(self):
        """One screen of text."""
        return type(self).__name__

    def footer(self):
        """The line that says by what, and of what, the numbers are."""
        s = self.source
        return f"{s['method']}; icexact {s['version']}, model {s['model']}" + (f" ({s['name']})" if s.get("name") else "")


def provenance(mdp, method):
    """Where a result comes from: method, version, hash and name of the model."""
    from icexact._version import __version__

    name = mdp.source.get("id") or mdp.source.get("name")
    return {"method": method, "version": __version__, "model": mdp.hash, "name": name}


def check_horizon(horizon):
    """`horizon` as an int >= 0."""
    if isinstance(horizon, (bool, np.bool_)) or not isinstance(horizon, (int, np.integer)) or horizon < 0:
        raise ValueError(f"horizon is {horizon!r}; it must be the number of steps, an integer >= 0")
    return int(horizon)


def check_budget(budget):
    """A budget in bytes, from a number or from text such as '2 GiB'."""
    if isinstance(budget, str):
        number, name = budget.strip().rstrip("bBiI"), 1
        powers = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
        if number and number[-1].lower() in powers:
            number, name = number[:-1], powers[number[-1].lower()]
        try:
            budget = int(float(number) * name)
        except (ValueError, OverflowError):
            raise ValueError(f"budget {budget!r} is not a size: write it in bytes, or as '2 GiB'") from None
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer)) or not 0 < budget < math.inf:
        raise ValueError(f"budget is {budget!r}; it must be a number of bytes > 0")
    return int(budget)


def bytes_text(n):
    """A size for a person: 84 MiB.

    >>> bytes_text(88080384)
    '84.0 MiB'
    """
    for name in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or name == "TiB":
            return f"{n:.0f} bytes" if name == "bytes" else f"{n:.1f} {name}"
        n /= 1024


def log_base(base):
    """ln(base) for an optional base, None for nats."""
    if base is None:
        return 1.0
    if isinstance(base, bool) or not isinstance(base, (int, float, np.integer, np.floating)) or not base > 1 or (isinstance(base, int) and base.bit_length() > 1023) or not math.isfinite(base):
        raise ValueError(f"base is {base!r}; it must be a number > 1: 2 for bits, None for nats")
    return math.log(base) if base != math.e else 1.0


def in_base(value, error, scale):
    """Nats as units of that logarithm: the error covers the division and the scale's own rounding."""
    value, error = np.asarray(value, dtype=np.float64), np.asarray(error, dtype=np.float64)
    if scale == 1.0:
        return Bounded(value, error)
    return Bounded(value / scale, (error / scale + np.abs(value / scale) * 2.0**-51) * (1 + 2.0**-50))
