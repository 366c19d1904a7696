"""What can be refused, one class a reason, all of them `ValueError`s whose message is a sentence for a person."""


class ModelError(ValueError):
    """A model that is no Markov decision process: the message names the first offender and what is allowed."""


class PolicyError(ValueError):
    """A policy that is no distribution over the available actions of some state."""


class BudgetError(ValueError):
    """Work that would not fit the budget: the message says what was predicted and what would fit."""


class AccuracyError(ValueError):
    """A number that float64 cannot hold to a proven error."""


class EndingError(ValueError):
    """A quantity without horizon, asked of a model that need not end: the message names the states that never end."""
