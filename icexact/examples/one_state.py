"""One state: a bandit and a coin."""

from icexact.mdp import MDP


def two_arms():
    """Two arms of equal mean 0: arm 0 pays -6 with probability 1/4, else 2; arm 1 pays 1 or -1. One pull ends it.

    The return tells the arm, 1 bit, although no arm is better (spec, section 4).

    >>> import icexact as ic
    >>> ic.examples.two_arms()
    MDP(two_arms, S=1, K=2, B=4)
    """
    return MDP.from_branches(
        [0, 0, 0, 0], [0, 0, 1, 1], [0.25, 0.75, 0.5, 0.5], [0, 0, 0, 0], [-6, 2, 1, -1], [True] * 4,
        n_states=1, initial=0, action_names=("arm 0", "arm 1"), source={"name": "two_arms"},
    )


def coin():
    """One state that never ends, one action, reward 0 or 1 by a fair coin.

    With discount 1/2 the return after H steps has 2^H equally likely atoms k 2^(1-H) (spec, section 4).

    >>> import icexact as ic
    >>> ic.examples.coin()
    MDP(coin, S=1, K=1, B=2)
    """
    return MDP.from_branches([0, 0], [0, 0], [0.5, 0.5], [0, 0], [0, 1], n_states=1, initial=0, action_names=("toss",), source={"name": "coin"})
