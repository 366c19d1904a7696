"""Models whose values are known, or whose size can be dialled."""

from icexact.examples.credit import delayed_effect, shortcut, umbrella
from icexact.examples.garnet import garnet
from icexact.examples.gridworld import gridworld
from icexact.examples.one_state import coin, two_arms

__all__ = ["coin", "delayed_effect", "garnet", "gridworld", "shortcut", "two_arms", "umbrella"]
