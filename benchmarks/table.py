"""The table of README: everything at full size, ours and the contestants in turn in one process, one thread.

    python benchmarks/table.py                 # all, 20 minutes and 8 GiB; rewrites README between its benchmark markers
    python benchmarks/table.py --print         # only prints
    python benchmarks/table.py --quick         # small sizes, seconds, only prints: a trial run, its numbers say nothing
    python benchmarks/table.py --only laws     # laws, credit, occupancy, discounted, model, processes or sampling; only prints

Times are medians of the rounds; a ratio is the median of the rounds' ratios (theirs / ours), so that a noisy spell hits both sides. Set-up is
in every time unless a row says otherwise: ours goes from the same flat arrays through MDP.from_branches. Compiled kernels are warm, but
for the row that says "first time".
"""

import os

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
for _name in THREADS:
    os.environ[_name] = "1"

import argparse
import datetime
import gc
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout, installed or not

import contestants
import numpy as np
import problems
import scipy
import workloads as w

import icexact as ic

README = ROOT / "README.md"
BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
HEAD = ("workload", "ours", "NumPy/SciPy", "ratio", "goal", "")


# ---------------------------------------------------------------- measuring

def say(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def race(contestants_, rounds):
    """{name: [seconds of each round]}: all in turn, again and again; which goes first changes. What they return is dropped before the next."""
    times = {name: [] for name in contestants_}
    names = list(contestants_)
    for i in range(rounds):
        for name in names[i % len(names):] + names[: i % len(names)]:
            gc.collect()
            begin = time.perf_counter()
            found = contestants_[name]()
            times[name].append(time.perf_counter() - begin)
            del found
    for name, t in times.items():
        say(f"    {name}: {' '.join(f'{x:.4g}' for x in t)}")
    return times


def ratio(times, theirs, ours):
    return statistics.median(b / a for a, b in zip(times[ours], times[theirs]))


def seconds(t):
    t = statistics.median(t) if isinstance(t, list) else t
    if t >= 172800:
        return f"{t / 86400:.3g} days"
    if t >= 7200:
        return f"{t / 3600:.3g} h"
    if t >= 180:
        return f"{t / 60:.3g} min"
    return f"{t:.3g} s" if t >= 1 else f"{1e3 * t:.3g} ms"


def times_text(x):
    return f"{x:.3g}x"


def at_least(x, goal):
    """(goal, verdict) of a ratio theirs / ours."""
    if goal is None:
        return "-", ""
    return f">= {goal}x", "met" if x >= goal else f"falls short: {x / goal:.0%} of it"


def at_most(x, goal, unit):
    return f"<= {goal:g}{unit}", "met" if x <= goal else f"falls short: {x / goal:.2f} times it"


def fresh(code, *arguments, **environment):
    """(stdout, wall seconds) of Python in a new process."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])])
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, *code, *arguments], env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{code}: {done.stderr[-2000:]}")
    return done.stdout, wall


class Table:
    def __init__(self):
        self.rows, self.notes = [], []

    def add(self, workload, ours, theirs="-", ratio_="-", goal=("-", "")):
        row = (workload, ours, theirs, ratio_, *goal)
        self.rows.append(row)
        say("  " + " | ".join(row))

    def note(self, text):
        self.notes.append(text)
        say("  " + text)

    def text(self, full):
        lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
        lines += ["| " + " | ".join(r.replace("|", "\\|") for r in row) + " |" for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)]
        if not full:
            lines.insert(0, "Trial run at small sizes:\n")
        return "\n".join(lines)


# ---------------------------------------------------------------- laws, credit

LAW_GOALS = {"grid_goal": 5, "grid_cells": 15, "garnet": 6}


def laws(table, full):
    for name in w.LAWS:
        _laws(table, w.laws_case(name, full), LAW_GOALS[name])


def _laws(table, case, goal):
    p, h = case.problem, case.horizon
    say(f"laws: {case.title}")
    public = contestants.public_form(*p)
    rivals = {"in place": contestants.return_laws_inplace, "public": public, "per reward": contestants.return_laws_per_symbol, "plain": contestants.return_laws_plain}
    if public is contestants.return_laws_per_symbol:
        del rivals["per reward"]
    ours = w.our_laws(case)
    for rival in rivals.values():
        w.check_laws(ours, rival(*p, h))
    del ours
    times = race({"ours": lambda: w.our_laws(case), **{k: (lambda f=f: f(*p, h)) for k, f in rivals.items() if k != "plain"}}, 5)
    slow = race({"ours": lambda: w.our_laws(case), "plain": lambda: rivals["plain"](*p, h)}, 3)
    spelled = {
        "in place": "one CSR a reward, added in place (private csr_matvecs)",
        "public": f"best public form ({'one CSR a reward' if public is contestants.return_laws_per_symbol else 'rewards stacked in one wide CSR'})",
        "per reward": "one CSR a reward, table growing by step",
    }
    for k, what in spelled.items():
        if k in times:
            x = ratio(times, k, "ours")
            table.add(f"return laws, {case.title}", seconds(times["ours"]), f"{seconds(times[k])} {what}", times_text(x), at_least(x, goal if k != "per reward" else None))
    x = ratio(slow, "plain", "ours")
    table.add(f"return laws, {case.title}", seconds(slow["ours"]), f"{seconds(slow['plain'])} as usually written: one CSR a reward @ the whole dense table", times_text(x))
    entries, span = w.merged_entries(p), int(np.ptp(p.reward))
    work = entries * sum(k * span + 1 for k in range(h))
    rate = "".join(f", {k} {2e-9 * work / statistics.median(times[k]):.2g}" for k in times)
    table.note(f"Laws, {case.title}: {entries:,} entries (state, reward, successor), {work:.3g} multiply-adds over windows that grow by {span} a step; GFLOP/s with set-up{rate}.")


def credit(table, full):
    for name in w.LAWS:
        _credit(table, w.laws_case(name, full), 3 if name == "garnet" else None)


def _credit(table, case, goal):
    p, h = case.problem, case.horizon
    say(f"credit: {case.title}")
    rivals = {
        "in place": lambda: contestants.laws_and_credit(*p, h, case.start),
        "public": lambda: contestants.laws_and_credit(*p, h, case.start, public=True),
    }
    ours = w.our_credit(case)
    gap = 0.0
    for rival in rivals.values():
        gap = max(gap, w.check_credit(ours, rival()))
    del ours
    times = race({"ours": lambda: w.our_credit(case), "laws": lambda: w.our_laws(case), **rivals}, 3)
    for k, what in (("in place", "products added in place (private csr_matvecs)"), ("public", "public SciPy only")):
        x = ratio(times, k, "ours")
        table.add(f"laws and credit, {case.title}", seconds(times["ours"]), f"{seconds(times[k])} {what}", times_text(x), at_least(x, 5))
    x = ratio(times, "ours", "laws")
    table.add(f"laws and credit over our own laws alone, {case.title}", f"{seconds(times['ours'])} and {seconds(times['laws'])}", "-", times_text(x), at_most(x, goal, "x") if goal else ("-", ""))
    table.note(f"Credit, {case.title}: ours and NumPy's skill, luck and noise differ by at most {gap:.0e} nats at any step.")


# ---------------------------------------------------------------- occupancy

def occupancy(table, full):
    for name in w.OCCUPANCY:
        _occupancy(table, w.occupancy_case(name, full))


def _occupancy(table, case):
    p, h = case.problem, case.horizon
    say(f"occupancy: {case.title}")
    mdp, back = w.model(p, case.start), w.back_matrix(p)
    w.check_occupancy(w.our_occupancy(case, mdp), w.bare_products(back, case))
    times = race(
        {
            "ours": lambda: w.our_occupancy(case),
            "ours, model built": lambda: w.our_occupancy(case, mdp),
            "scipy": lambda: contestants.occupancy(*p, h, case.start),
            "scipy, matrix built": lambda: w.bare_products(back, case),
        },
        5 if p.n_states < 500_000 else 3,
    )
    rows = (
        ("ours", "scipy", "from flat arrays", "from flat arrays", 1),
        ("ours, model built", "scipy", "on a built model", "from flat arrays", 1),
        ("ours, model built", "scipy, matrix built", "on a built model", "products alone, matrix ready", 1),
        ("ours", "scipy, matrix built", "from flat arrays", "products alone, matrix ready", None),
    )
    for mine, other, what, against, goal in rows:
        x = ratio(times, other, mine)
        table.add(f"occupancy, {case.title}, {what}", seconds(times[mine]), f"{seconds(times[other])} {against}", times_text(x), at_least(x, goal))
    moved = (h - 1) * (12 * back.nnz + 20 * p.n_states)
    table.note(
        f"Occupancy, {case.title}: {back.nnz:,} entries, at least {moved / 1e9:.3g} GB move (12 B an entry, 20 B a state and step, dense): ours on a built model {1e-9 * moved / statistics.median(times['ours, model built']):.3g} GB/s,"
        f" products alone {1e-9 * moved / statistics.median(times['scipy, matrix built']):.3g} GB/s."
    )


GAMMA, LEFT = 0.95, 1e-12


def discounted(table, full):
    for name in ("garnet_1e5_uniform", "grid_1e5_uniform"):
        _discounted(table, w.occupancy_case(name, full))


def _discounted(table, case):
    p = case.problem
    title = case.title.rsplit(", H=", 1)[0]
    say(f"discounted: {title}")
    mdp = w.model(p, case.start)
    ours = w.our_discounted(case, GAMMA, mdp)
    w.check_discounted(ours, contestants.discounted_occupancy_power(*p, GAMMA, case.start, LEFT), LEFT)
    error = float(ours.state.error.sum())
    times = race(
        {
            "ours": lambda: w.our_discounted(case, GAMMA),
            "ours, model built": lambda: w.our_discounted(case, GAMMA, mdp),
            "scipy": lambda: contestants.discounted_occupancy_power(*p, GAMMA, case.start, LEFT),
        },
        5,
    )
    for mine, what in (("ours", "from flat arrays"), ("ours, model built", "on a built model")):
        x = ratio(times, "scipy", mine)
        table.add(f"discounted occupancy, discount {GAMMA}, {title}, {what}", seconds(times[mine]), f"{seconds(times['scipy'])} power series, mass {LEFT:g} left out, from flat arrays", times_text(x))
    table.note(f"Discounted occupancy, {title}: ours proves an error of {error:.1e} in sum over the states, theirs none.")


# ---------------------------------------------------------------- fresh processes

_MODEL = """
import json, os, resource, sys, time
import numpy as np
import icexact as ic
folder, n = sys.argv[1], int(sys.argv[2])
names = ("state", "action", "probability", "next_state", "reward", "ends")
columns = [np.load(f"{folder}/{x}.npy") for x in names]
state, action, probability, next_state, reward, ends = (c[:20].copy() for c in columns)
ic.MDP.from_branches(state, action, probability, 0 * next_state, reward, ends, n_states=1, initial=np.ones(1))  # kernels loaded
start = np.full(n, 1 / n)
page = os.sysconf("SC_PAGE_SIZE")
with open("/proc/self/statm") as f:
    before = int(f.read().split()[1]) * page
begin = time.perf_counter()
mdp = ic.MDP.from_branches(*columns, n_states=n, initial=start)
took = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
parts = ("pair_ptr", "pair_action", "branch_ptr", "next_state", "probability", "reward", "ends", "initial", "pair_rounding")
size = sum(getattr(mdp, x).nbytes for x in parts)
print(json.dumps([took, peak - before, size, sum(c.nbytes for c in columns), mdp.n_states, mdp.n_pairs, mdp.n_branches]))
"""


def model(table, full):
    n = 1_000_000 if full else 20_000
    say(f"model of {n} states")
    with tempfile.TemporaryDirectory() as folder:
        p = problems.garnet(n)
        for column in ("state", "action", "probability", "next_state", "reward", "ends"):
            np.save(f"{folder}/{column}.npy", getattr(p, column))
        del p
        runs = []
        for _ in range(3):
            runs.append(json.loads(fresh(("-c", _MODEL, folder, str(n)))[0]))
            say(f"    {runs[-1]}")
    took = statistics.median(r[0] for r in runs)
    peak = statistics.median(r[1] for r in runs)
    _, _, size, columns, *counts = runs[0]
    what = "model of {:,} states, {:,} pairs, {:,} branches from flat arrays".format(*counts)
    table.add(what, seconds(took), "-", "-", ("seconds (< 10 s)", "met" if took < 10 else "falls short"))
    table.add(f"the same, peak memory beside the caller's arrays over the size of the model's arrays ({size / 2**20:.0f} MiB)", f"{peak / 2**20:.0f} MiB", "-", times_text(peak / size), at_most(peak / size, 3, "x"))
    table.note(f"Model: the peak holds the finished model itself and was read from the largest resident size of a fresh process; the caller's own columns ({columns / 2**20:.0f} MiB) come on top. Data generated beforehand.")


_IMPORT = "import time; t = time.perf_counter(); import icexact; print(time.perf_counter() - t)"


def processes(table, full):
    say("import")
    fresh(("-c", _IMPORT))
    inside, whole = zip(*((float(out), wall) for out, wall in (fresh(("-c", _IMPORT)) for _ in range(5))))
    t = statistics.median(inside)
    table.add(f"import icexact (whole process {seconds(list(whole))})", f"{seconds(t)}, best {seconds(min(inside))}", "-", "-", at_most(t, 0.5, " s"))
    if importlib.util.find_spec("gymnasium") is None:
        table.add("icexact analyze FrozenLake-v1", "gymnasium is not installed: not measured")
        return
    horizon = 100 if full else 10
    job = ("-m", "icexact", "analyze", "FrozenLake-v1", "--horizon", str(horizon))
    cold, warm = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            first, wall = fresh(job, ICEXACT_CACHE_DIR=folder)
            cold.append(wall)
            for _ in range(2):
                again, wall = fresh(job, ICEXACT_CACHE_DIR=folder)
                warm.append(wall)
        if first.splitlines()[:5] != again.splitlines()[:5]:
            raise AssertionError("the second process says something else than the first")
        say(f"    first {cold[-1]:.3g}, next {warm[-2]:.3g} {warm[-1]:.3g}")
    t = statistics.median(cold)
    table.add(f"icexact analyze FrozenLake-v1 --horizon {horizon}, first time (kernels compiled)", seconds(t), "-", "-", at_most(t, 30, " s"))
    t = statistics.median(warm)
    table.add(f"icexact analyze FrozenLake-v1 --horizon {horizon}, next process", seconds(t), "-", "-", at_most(t, 2, " s"))


def sampling(table, full):
    case = w.laws_case("grid_cells", full)
    p, h = case.problem, case.horizon
    say(f"sampling: {case.title}")
    n = 1_000_000 if full else 20_000
    state = p.n_states // 2
    exact = w.our_laws(case)
    low, v = contestants.return_laws(*p, h)
    w.check_laws(exact, (low, v))
    drawn = contestants.sample_returns(*p, h, state, n)
    counts = np.bincount(drawn - low, minlength=v.shape[1])[: v.shape[1]] / n
    seen = counts > 0
    kl = float((counts[seen] * np.log(counts[seen] / v[state, seen])).sum())
    expected = (np.count_nonzero(v[state] * n >= 1) - 1) / (2 * n)
    if not 0.3 * expected < kl < 3 * expected:
        raise AssertionError(f"sampled returns do not follow the exact law: KL {kl}, expected about {expected}")
    times = race({"ours": lambda: w.our_laws(case), "sampling": lambda: contestants.sample_returns(*p, h, state, n)}, 3)
    speed = n / statistics.median(times["sampling"])
    needed = contestants.trajectories_needed(v)
    total = contestants.sampling_seconds(v, speed)
    factor = statistics.median(needed.sum() / n * b / a for a, b in zip(times["ours"], times["sampling"]))
    table.add(
        f"against sampling: return laws of all states, {case.title}", f"{seconds(times['ours'])}, exact", f"{seconds(total)} of drawing until KL(empirical, exact) is 1e-3 in every state (extrapolated)", times_text(factor)
    )
    table.note(f"Sampling: {speed:,.0f} trajectories/s measured (alias tables, NumPy, one thread); {needed.sum():.3g} trajectories over {p.n_states:,} states, n = (atoms - 1) / (2 KL) each; at n = {n:,} from one state the measured KL was {kl:.2g}, by the formula {expected:.2g}.")


# ---------------------------------------------------------------- all

PARTS = {"laws": laws, "credit": credit, "occupancy": occupancy, "discounted": discounted, "model": model, "processes": processes, "sampling": sampling}


def machine():
    import importlib.metadata as meta

    name = platform.processor() or platform.machine()
    try:
        name = next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = ", ".join([f"icexact {ic.__version__}", f"Python {platform.python_version()}", f"NumPy {np.__version__}", f"SciPy {scipy.__version__}", f"Numba {meta.version('numba')}"])
    return f"{name}, {os.cpu_count()} logical cores, one thread used; {versions}"


def load():
    return " ".join(f"{x:.2f}" for x in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", dest="only_print", help="print, leave README alone")
    parser.add_argument("--quick", action="store_true", help="small sizes; leaves README alone")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part (may be repeated); leaves README alone")
    options = parser.parse_args()
    full = not options.quick
    before, begin = load(), time.perf_counter()
    table = Table()
    for name in options.only or PARTS:
        PARTS[name](table, full)
    head = f"{datetime.date.today()}, {machine()}. Load average {before} at the start, {load()} at the end of {(time.perf_counter() - begin) / 60:.0f} minutes (1, 5, 15 minutes)."
    head += " Medians of 3 to 5 interleaved rounds; ratio = theirs / ours, the median over the rounds; under 1.3x is a tie on a shared machine."
    block = f"{head}\n\n{table.text(full)}"
    print(block)
    if options.only_print or options.quick or options.only:
        return
    text = README.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        print(f"{README.name} has no markers {BEGIN} and {END}: it was left alone", file=sys.stderr)
        return
    README.write_text(text[: text.index(BEGIN) + len(BEGIN)] + f"\n{block}\n" + text[text.index(END):])
    print(f"{README.name} rewritten", file=sys.stderr)


if __name__ == "__main__":
    main()
