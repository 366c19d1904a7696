"""Compiled loops over flat arrays. Each module is loaded at its first use: Numba is a third of a second that a plain import need not pay."""

from importlib import import_module

_MODULES = ("beliefs", "branches", "chain", "entropy", "episode", "information", "keys", "lattice", "local", "logarithm", "occupancy", "pooled", "reward_entropy", "rows", "values")


def __getattr__(name):
    if name in _MODULES:
        return import_module(f"icexact.kernels.{name}")
    raise AttributeError(f"module 'icexact.kernels' has no attribute {name!r}")
