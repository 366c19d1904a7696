"""Occupancy of every step, and discounted: from flat arrays, and on a built model, against scipy.sparse.

    python -m pytest benchmarks/bench_occupancy.py --benchmark-only                      # small sizes, seconds
    ICEXACT_BENCH=full python -m pytest benchmarks/bench_occupancy.py --benchmark-only   # 1e5 and 1e6 states: minutes, 5 GiB

scipy-products has its matrix ready; ours on a built model still averages the policy in and turns the chain round.
"""

import contestants
import pytest
import workloads as w

ROUNDS = 3
GAMMA, LEFT = 0.95, 1e-12


class Prepared:
    """A case with what the contestants that start from a prepared form need."""

    def __init__(self, name):
        self.case = w.occupancy_case(name, w.FULL)
        self.mdp = w.model(self.case.problem, self.case.start)
        self.back = w.back_matrix(self.case.problem)


def _title(name):
    size = name.split("_")[1]
    return name if w.FULL else name.replace(size, f"{int(float(size)) // 50}")


@pytest.fixture(scope="module", params=w.OCCUPANCY, ids=_title)
def ready(request):
    return Prepared(request.param)


CONTESTANTS = {
    "icexact": lambda r: w.our_occupancy(r.case),
    "icexact-built-model": lambda r: w.our_occupancy(r.case, r.mdp),
    "scipy": lambda r: contestants.occupancy(*r.case.problem, r.case.horizon, r.case.start),
    "scipy-products": lambda r: w.bare_products(r.back, r.case),
}


@pytest.mark.parametrize("who", CONTESTANTS)
def test_occupancy(benchmark, ready, who):
    benchmark.group = f"occupancy, {ready.case.title}"
    found = benchmark.pedantic(CONTESTANTS[who], (ready,), rounds=ROUNDS, warmup_rounds=1)
    if who.startswith("icexact"):
        w.check_occupancy(found, w.bare_products(ready.back, ready.case))
    else:
        w.check_occupancy(w.our_occupancy(ready.case, ready.mdp), found)


DISCOUNTED = {
    "icexact": lambda r: w.our_discounted(r.case, GAMMA),
    "icexact-built-model": lambda r: w.our_discounted(r.case, GAMMA, r.mdp),
    "scipy-power": lambda r: contestants.discounted_occupancy_power(*r.case.problem, GAMMA, r.case.start, LEFT),
}


@pytest.fixture(scope="module", params=[name for name in w.OCCUPANCY if "1e5" in name], ids=_title)
def stationary(request):
    return Prepared(request.param)


@pytest.mark.parametrize("who", DISCOUNTED)
def test_discounted(benchmark, stationary, who):
    benchmark.group = f"discounted occupancy, {stationary.case.title}"
    found = benchmark.pedantic(DISCOUNTED[who], (stationary,), rounds=ROUNDS, warmup_rounds=1)
    if who.startswith("icexact"):
        w.check_discounted(found, DISCOUNTED["scipy-power"](stationary), LEFT)
    else:
        w.check_discounted(DISCOUNTED["icexact-built-model"](stationary), found, LEFT)
