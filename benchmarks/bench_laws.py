"""Return laws of all states, set-up included: ours against the NumPy/SciPy formulations.

    python -m pytest benchmarks/bench_laws.py --benchmark-only                      # small sizes, seconds
    ICEXACT_BENCH=full python -m pytest benchmarks/bench_laws.py --benchmark-only   # the sizes of README, minutes

(`pytest benchmarks/ --benchmark-only` runs every bench_*.py; ratios that can be trusted, from interleaved rounds, are table.py's.)
"""

import contestants
import pytest
import workloads as w

RIVALS = {
    "scipy-public": lambda *p: contestants.return_laws(*p, public=True),
    "scipy-inplace": contestants.return_laws,
    "scipy-per-reward": contestants.return_laws_per_symbol,
    "scipy-plain": contestants.return_laws_plain,
}
ROUNDS = 3


@pytest.fixture(scope="module", params=w.LAWS, ids=lambda name: w.laws_case(name, w.FULL).title)
def case(request):
    return w.laws_case(request.param, w.FULL)


@pytest.fixture(scope="module")
def exact(case):
    return w.our_laws(case)


def bench_group(benchmark, case):
    benchmark.group = f"return laws, {case.title}"


def test_icexact(benchmark, case):
    bench_group(benchmark, case)
    law = benchmark.pedantic(w.our_laws, (case,), rounds=ROUNDS, warmup_rounds=1)
    w.check_laws(law, contestants.return_laws(*case.problem, case.horizon))


@pytest.mark.parametrize("rival", RIVALS)
def test_rival(benchmark, case, exact, rival):
    bench_group(benchmark, case)
    slow = rival == "scipy-plain" and w.FULL
    found = benchmark.pedantic(RIVALS[rival], (*case.problem, case.horizon), rounds=1 if slow else ROUNDS, warmup_rounds=0 if slow else 1)
    w.check_laws(exact, found)
