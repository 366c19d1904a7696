"""Laws and full credit in one go, set-up included: `icexact.credit` against NumPy's laws and credit; and the laws alone.

    python -m pytest benchmarks/bench_credit.py --benchmark-only                      # small sizes, seconds
    ICEXACT_BENCH=full python -m pytest benchmarks/bench_credit.py --benchmark-only   # the sizes of README, minutes

Ours also proves a bound for every number and makes Propositions 1 and 2 and the split of the variance; the contestants do not.
"""

import contestants
import pytest
import workloads as w

ROUNDS = 3


@pytest.fixture(scope="module", params=w.LAWS, ids=lambda name: w.laws_case(name, w.FULL).title)
def case(request):
    return w.laws_case(request.param, w.FULL)


@pytest.fixture(scope="module")
def credit(case):
    return w.our_credit(case)


def test_icexact(benchmark, case):
    benchmark.group = f"laws and credit, {case.title}"
    credit = benchmark.pedantic(w.our_credit, (case,), rounds=ROUNDS, warmup_rounds=1)
    w.check_credit(credit, contestants.laws_and_credit(*case.problem, case.horizon, case.start))


def test_icexact_laws_alone(benchmark, case):
    benchmark.group = f"laws and credit, {case.title}"
    law = benchmark.pedantic(w.our_laws, (case,), rounds=ROUNDS, warmup_rounds=1)
    w.check_laws(law, contestants.return_laws(*case.problem, case.horizon))


@pytest.mark.parametrize("public", [False, True], ids=["numpy-inplace", "numpy-public"])
def test_rival(benchmark, case, credit, public):
    benchmark.group = f"laws and credit, {case.title}"
    found = benchmark.pedantic(
        contestants.laws_and_credit, (*case.problem, case.horizon, case.start), {"public": public}, rounds=1 if w.FULL else ROUNDS, warmup_rounds=0 if w.FULL else 1
    )
    w.check_credit(credit, found)
