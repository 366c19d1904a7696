"""The same answers from compiled kernels, from kernels that check every index, and from plain Python."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = """
import sys
import numpy as np
import icexact as ic
import models

out = []
for seed in range(int(sys.argv[1])):
    model, policy, H, gamma = models.problem(seed, limit=300)
    args, kwargs = models.columns(model)
    mdp, table = ic.MDP.from_branches(*args, **kwargs), models.policy_table(model, policy, H)
    for engine in ("lattice", "keys") if gamma == 1 else ("keys",):
        try:
            c = ic.credit(mdp, table, horizon=H, discount=gamma, engine=engine)
            law = ic.return_law(mdp, table, horizon=H, discount=gamma, engine=engine, keep="all")
            pairs = ic.information_sparsity(mdp, table, horizon=H, discount=gamma, engine=engine, per_pair=True).per_pair
        except ic.BudgetError:
            continue
        for x in (c.skill, c.luck, c.noise, c.proposition_1.gap, c.variance.luck, c.return_entropy, c.mean, pairs, law.law().probabilities, ic.occupancy(mdp, table, horizon=H).pair):
            out += [x.value.ravel(), x.error.ravel()]
    out += [ic.occupancy(mdp, models.policy_table(model, policy, H)[0] if H else ic.policies.uniform(mdp), discount=0.9).state.value]
np.save(sys.argv[2], np.concatenate(out))
"""


@pytest.mark.parametrize("setting", [{"NUMBA_BOUNDSCHECK": "1"}, {"NUMBA_DISABLE_JIT": "1"}], ids=lambda s: "".join(s))
def test_kernels_agree_with_their_checked_and_interpreted_forms(setting, tmp_path):
    found = {}
    for name, more in (("plain", {}), ("other", setting)):
        here = Path(__file__).parent
        path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
        cache = {"ICEXACT_CACHE_DIR": str(tmp_path / "cache")} if more else {}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT, "12", str(tmp_path / f"{name}.npy")], env=os.environ | {"PYTHONPATH": path} | more | cache, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        found[name] = np.load(tmp_path / f"{name}.npy")
    a, b = found["plain"], found["other"]
    assert len(a) > 1000 and len(a) == len(b)
    # sums may be taken in another order
    assert np.array_equal(np.isfinite(a), np.isfinite(b))
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    assert (np.abs(a - b) <= 1e-12 * np.maximum(np.abs(a), 1e-3)).all()
