"""Small tasks with a known answer to the question which action earned the return (spec, section 4)."""

from icexact.mdp import MDP, _count


def umbrella(L):
    """L steps: the first action matches a fair hidden need or not, which pays +1 or -1 at the last step; every other step
    pays +-1 by a fair coin. Take horizon L.

    State 2 t + flag at step t. The flag is the need at t = 0 (the agent sees it; an observer of returns does not), later
    whether action 0 met it. Both actions can be taken at every step, only the first matters. With the uniform policy and
    discount 1, I(A_0; G_0 | S_0) = H(Bin(L, 1/2)) - H(Bin(L-1, 1/2)), and 0 at later steps.

    >>> import icexact as ic
    >>> ic.examples.umbrella(3)
    MDP(umbrella, S=6, K=12, B=20)
    """
    L = _count(L, "L")
    rows = []
    for t in range(L):
        for flag in (0, 1):
            for a in (0, 1):
                met = int(a == flag) if t == 0 else flag
                if t == L - 1:
                    rows.append((2 * t + flag, a, 1.0, 0, 1 if met else -1, True))
                else:
                    rows += [(2 * t + flag, a, 0.5, 2 * t + 2 + met, coin, False) for coin in (1, -1)]
    names = ["sun", "rain"] + [f"step {t}, {what}" for t in range(1, L) for what in ("missed", "met")]
    return MDP.from_branches(
        *zip(*rows), n_states=2 * L, initial=[0.5, 0.5] + [0] * (2 * L - 2),
        state_names=names, action_names=("leave", "take"), source={"name": "umbrella", "L": L},
    )


def shortcut():
    """Cells 0..4, start 0: action 0 jumps to cell 4, action 1 goes one on; with probability 0.1 any step goes to cell 4.
    A step pays -1, or +1 where it enters cell 4, which ends. Over for certain after 4 steps.

    With the uniform policy and discount 1, P(Z = 1, 0, -1, -2) = 0.55, 0.2475, 0.111375, 0.091125.

    >>> import icexact as ic
    >>> ic.examples.shortcut()
    MDP(shortcut, S=5, K=8, B=11)
    """
    rows = []
    for s in range(4):
        for a, target in ((0, 4), (1, s + 1)):
            if target == 4:
                rows.append((s, a, 1.0, 4, 1, True))
            else:
                rows += [(s, a, 0.9, target, -1, False), (s, a, 0.1, 4, 1, True)]
    return MDP.from_branches(*zip(*rows), n_states=5, initial=0, action_names=("jump", "walk"), source={"name": "shortcut", "grid": [1, 5]})


def delayed_effect(m):
    """m steps: the first of two actions decides the reward, +1 for action 0 and -1 for action 1, paid at the last step.
    Take horizon m. Both actions can be taken at every step, only the first matters.

    With the uniform policy, I(A_0; G_0 | S_0) is 1 bit, and 0 at later steps.

    >>> import icexact as ic
    >>> ic.examples.delayed_effect(3)
    MDP(delayed_effect, S=5, K=10, B=10)
    """
    m = _count(m, "m")
    rows = []
    for t in range(m):
        for side in (0, 1) if t else (None,):
            for a in (0, 1):
                chosen = a if t == 0 else side
                s = 2 * t - 1 + side if t else 0
                last = t == m - 1
                rows.append((s, a, 1.0, 0 if last else 2 * t + 1 + chosen, (1 - 2 * chosen) if last else 0, last))
    return MDP.from_branches(*zip(*rows), n_states=2 * m - 1, initial=0, source={"name": "delayed_effect", "m": m})
