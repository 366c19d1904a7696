"""icexact: exact occupancy measures, return laws and information quantities of tabular Markov decision processes.

>>> import icexact as ic
>>> mdp = ic.examples.umbrella(3)
>>> credit = ic.credit(mdp, ic.policies.uniform(mdp), horizon=3, base=2)
>>> credit.skill
Bounded([0.311278124459 0 +- 1.4e-29 0])
"""

from icexact import examples, policies
from icexact._version import __version__
from icexact.analyze import analyze
from icexact.credit import credit
from icexact.directed import directed_information
from icexact.episode import episode_return
from icexact.errors import AccuracyError, BudgetError, EndingError, ModelError, PolicyError
from icexact.hindsight import hindsight, state_hindsight
from icexact.io.gymnasium import from_gymnasium
from icexact.io.npz import load
from icexact.mdp import MDP
from icexact.occupancy import occupancy
from icexact.results import Bounded
from icexact.returns import return_law
from icexact.sequences import sequence_entropy
from icexact.sparsity import information_sparsity

__all__ = ["MDP", "AccuracyError", "Bounded", "BudgetError", "EndingError", "ModelError", "PolicyError", "__version__", "analyze", "credit", "directed_information", "episode_return", "examples", "from_gymnasium", "hindsight", "information_sparsity", "load", "occupancy", "policies", "return_law", "sequence_entropy", "state_hindsight"]
