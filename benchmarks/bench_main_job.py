"""Import, the main job in fresh processes, and a model from flat arrays.

    python -m pytest benchmarks/bench_main_job.py --benchmark-only                      # a horizon of 10, a model of 4e4 branches
    ICEXACT_BENCH=full python -m pytest benchmarks/bench_main_job.py --benchmark-only   # FrozenLake with a horizon of 100, 2e7 branches
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import problems
import pytest
import workloads as w

import icexact as ic

ROOT = Path(__file__).resolve().parent.parent
HORIZON = 100 if w.FULL else 10


def run(*arguments, **environment):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run([sys.executable, *arguments], env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True, check=True).stdout


def test_import(benchmark):
    benchmark.group = "import"
    out = benchmark.pedantic(run, ("-c", "import icexact; print(icexact.__version__)"), rounds=5, warmup_rounds=1)
    assert out.strip() == ic.__version__


@pytest.mark.parametrize("cache", ["first-time", "next-process"])
def test_main_job(benchmark, tmp_path, cache):
    pytest.importorskip("gymnasium")
    benchmark.group = f"analyze FrozenLake-v1 --horizon {HORIZON}"
    arguments = ("-m", "icexact", "analyze", "FrozenLake-v1", "--horizon", str(HORIZON), "--json")
    out = benchmark.pedantic(lambda: run(*arguments, ICEXACT_CACHE_DIR=str(tmp_path)), rounds=1 if cache == "first-time" else 3, warmup_rounds=0 if cache == "first-time" else 1)
    json.loads(out)


@pytest.mark.parametrize("n_states", [1_000_000 if w.FULL else 2_000], ids="S={}".format)
def test_model(benchmark, n_states):
    benchmark.group = f"model of {n_states} states, {4 * n_states} pairs, {20 * n_states} branches"
    p = problems.garnet(n_states)
    start = problems.uniform_start(p)
    mdp = benchmark.pedantic(w.model, (p, start), rounds=3, warmup_rounds=1)
    assert (mdp.n_states, mdp.n_pairs, mdp.n_branches) == (n_states, 4 * n_states, 20 * n_states)
    assert np.allclose(np.add.reduceat(mdp.probability, mdp.branch_ptr[:-1]), 1.0, rtol=1e-15, atol=0)
