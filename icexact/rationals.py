"""Exact numbers at the border: rewards and discounts are rationals, whatever form they come in.

A float is read by its shortest decimal (0.1 is 1/10), as design.md section 5 has it; ints, `Fraction`, `Decimal` and
decimal strings ("0.1", "1/3") are taken as they stand.
"""

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational

import numpy as np


def fraction(number, what="number"):
    """The rational that `number` stands for.

    >>> fraction(0.1), fraction("1/3"), fraction(-2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(-2, 1))
    """
    if isinstance(number, (Integral, np.integer, np.bool_)):
        return Fraction(int(number))
    if isinstance(number, (str, Decimal)):
        power = re.search(r"[eE]([+-]?\d+)", str(number).replace("_", ""))
        if power and (len(power[1]) > 6 or abs(int(power[1])) > 4000):
            raise ValueError(f"{what} {number!r} has an exponent beyond what can be worked with, 4000 digits")
    if isinstance(number, (Rational, str, Decimal)):
        try:
            return Fraction(number)
        except (ValueError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(f"{what} {number!r} is not a finite rational: write it as 3, 0.25, '0.25' or '1/4'") from error
    if isinstance(number, (float, np.floating)):
        if not np.isfinite(number):
            raise ValueError(f"{what} {number!r} is not finite")
        # str of a NumPy scalar is the shortest decimal in its own precision, so a float32 0.1 is 1/10 too
        return Fraction(str(number))
    raise ValueError(f"{what} {number!r} of type {type(number).__name__} is not a number: pass an int, float, Fraction or decimal string")


def nearest(value):
    """The float64 nearest to a `Fraction`; ValueError beyond the range of float64."""
    try:
        return value.numerator / value.denominator
    except OverflowError as error:
        sign = "-" if value < 0 else ""
        raise ValueError(f"a number of about {sign}2^{abs(value.numerator).bit_length() - value.denominator.bit_length()} is beyond the range of float64") from error


def discount(gamma):
    """The discount as a `Fraction` in (0, 1].

    >>> discount(0.9)
    Fraction(9, 10)
    """
    g = fraction(gamma, "discount")
    if not 0 < g <= 1:
        raise ValueError(f"discount {gamma!r} is outside (0, 1]: 1 means undiscounted")
    return g


def is_exact_column(column):
    """Whether an array holds Python objects (Fractions, strings, ints too large for int64) rather than machine numbers."""
    return column.dtype.kind in "OUS"
