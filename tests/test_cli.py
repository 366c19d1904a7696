"""The command line: what it prints where, its exit codes, and that nobody ever sees a traceback."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import icexact as ic
from icexact import cli
from icexact.cli import main

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def run(capsys):
    """main in this process: (code, stdout, stderr)."""

    def call(*words):
        code = main(list(map(str, words)))
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(run):
    """Exit code 1 and one sentence on stderr."""

    def call(*words, code=1):
        found, out, err = run(*words)
        assert found == code and out == ""
        assert err.startswith("icexact: ") and err.count("\n") == 1 and "Traceback" not in err
        return err

    return call


@pytest.fixture
def usage(run):
    """Exit code 2, as argparse has it."""

    def call(*words):
        found, out, err = run(*words)
        assert found == 2 and out == "" and err.startswith("usage: icexact")
        return err

    return call


def strict(text):
    return json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))


def uniform(mdp, horizon, **kwargs):
    return ic.analyze(mdp, ic.policies.uniform(mdp), horizon=horizon, **kwargs)


# analyze


def test_directed_information_and_what_the_propositions_come_to(run, refused):
    mdp = ic.examples.gridworld(3)
    out = run("analyze", "gridworld:3x3", "--horizon", 6)[1]
    for d in uniform(mdp, 6).directed:
        assert f"I({d.source_name}{'s' if d.target_name != 'return' else ''} -> {d.target_name}{'s' if d.target_name != 'return' else ''})" in out
    assert "1: I(Z; tau_h | tau^-h) = H(R_h | tau^{h-1})\n     misses by" in out and "3 and 4: " in out and "     holds; the two sides" in out
    certain = run("analyze", "gridworld:3x3,slip=0", "--horizon", 6, "--no-directed")[1]
    assert "I(actions" not in certain and "3 and 4" not in certain and "E[log h(A_h | S_h, Z) / pi(A_h | S_h)]\n     holds\n" in certain

    def width(*more):
        found = strict(run("analyze", "gridworld:3x3", "--horizon", 6, "--json", *more)[1])
        (action,) = [d for d in found["directed"] if (d["source_name"], d["target_name"]) == ("action", "reward")]
        return action["value"]["error"], max(action["nodes"]["beliefs from actions and rewards"])

    widths = [width("--max-nodes", n) for n in (1, 4, 16, 64, 4096)]
    assert all(a[0] >= b[0] for a, b in zip(widths, widths[1:])) and widths[0][0] > 1e-3 and widths[-1][0] < 1e-12 and widths[0][1] == 1 and 4 < widths[-1][1]
    assert widths[-1][1] > width("--max-nodes", 4096, "--tolerance", 0.5)[1]
    assert strict(run("analyze", "gridworld:3x3", "--horizon", 6, "--json", "--no-directed")[1])["directed"] == []
    for option, text, words in (("--max-nodes", "0", "number of nodes"), ("--tolerance", "x", "width > 0"), ("--tolerance", "inf", "width > 0")):
        code, _, err = run("analyze", "coin", "--horizon", 2, option, text)
        assert code == 2 and words in err
    assert "--no-directed" in refused("analyze", "garnet:1000,4,5", "--horizon", 3, "--budget", "1MB")


def test_the_summary(run):
    code, out, err = run("analyze", "umbrella:3", "--horizon", 3, "--base", 2)
    assert (code, err) == (0, "")
    assert out == uniform(ic.examples.umbrella(3), 3, base=2).summary() + "\n"


def test_json_is_strict_and_keeps_every_digit(run):
    code, out, _ = run("analyze", "shortcut", "--horizon", 4, "--base", "e", "--discount", "0.9", "--json")
    found, expected = strict(out), uniform(ic.examples.shortcut(), 4, discount="9/10").to_dict()
    assert code == 0 and found == json.loads(json.dumps(expected))
    assert found["discount"] == "9/10" and found["grid"] == [1, 5]
    assert found["credit"]["skill"]["value"] == uniform(ic.examples.shortcut(), 4, discount="9/10").credit.skill.value.tolist()


def test_json_of_infinities():
    text = json.dumps(cli._strict({"error": [float("inf"), float("nan")], 1: np.float64("-inf"), "n": np.int64(3)}), allow_nan=False)
    assert strict(text)["error"] == ["inf", "nan"] and float(strict(text)["1"]) == float("-inf") and strict(text)["n"] == 3


def test_the_discount_is_the_number_written(run):
    digits = "0.1234567890123456789012345"
    assert strict(run("analyze", "coin", "--horizon", 2, "--discount", digits, "--json")[1])["discount"] == str(
        ic.analyze(ic.examples.coin(), [1.0], horizon=2, discount=digits).discount
    )
    assert strict(run("analyze", "coin", "--horizon", 2, "--discount", "1/3", "--json")[1])["discount"] == "1/3"


def test_save_plot_and_grid(run, tmp_path):
    pytest.importorskip("matplotlib")
    saved, drawn = tmp_path / "out.npz", tmp_path / "out.png"
    code, out, err = run("analyze", "umbrella:5", "--horizon", 5, "--grid", "2x5", "--save", saved, "--plot", drawn)
    assert code == 0 and err == f"icexact: wrote {saved}\nicexact: wrote {drawn}\n"
    result = ic.load(saved)
    assert result.grid == (2, 5) and result.summary() + "\n" == out
    assert drawn.read_bytes()[:4] == b"\x89PNG"
    assert run("analyze", "umbrella:5", "--horizon", 5, "--save", saved, "--quiet")[2] == ""


def test_models_from_files(run, refused, tmp_path):
    mdp = ic.examples.gridworld(3)
    mdp.save(tmp_path / "m.npz")
    mdp.save(tmp_path / "plain")
    for name in ("m.npz", "plain"):
        assert run("analyze", tmp_path / name, "--horizon", 4)[1] == uniform(mdp, 4).summary() + "\n"
    uniform(mdp, 2).save(tmp_path / "r.npz")
    assert "holds a result (Analysis), not a model" in refused("analyze", tmp_path / "r.npz", "--horizon", 4)
    assert "No such file" in refused("analyze", tmp_path / "none.npz", "--horizon", 4)
    (tmp_path / "bad.npz").write_text("hello")
    assert "not an .npz file of icexact" in refused("analyze", tmp_path / "bad.npz", "--horizon", 4)


def test_examples_with_arguments(refused):
    assert cli._example("gridworld", "3x4,slip=1/10").hash == ic.examples.gridworld(3, 4, slip="1/10").hash
    assert cli._example("gridworld", "3,start=uniform,goals=[1,2]").hash == ic.examples.gridworld(3, start="uniform", goals=[1, 2]).hash
    assert cli._example("garnet", "20,2,3,rewards=(-1, 0.5),seed=4").hash == ic.examples.garnet(20, 2, 3, rewards=(-1, 0.5), seed=4).hash
    assert "missing 1 required" in refused("analyze", "umbrella", "--horizon", 1)
    assert "unexpected keyword" in refused("analyze", "umbrella:3,x=1", "--horizon", 1)
    assert "cannot be read" in refused("analyze", "umbrella:3,,)", "--horizon", 1)
    assert "must be an integer" in refused("analyze", "umbrella:__import__('os').getpid()", "--horizon", 1)  # text, never run


def test_policies(run, refused, tmp_path):
    mdp = ic.examples.gridworld(2)
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(4), size=4)
    table[3] = 0  # the goal has no actions
    np.save(tmp_path / "sa.npy", table)
    np.save(tmp_path / "hsa.npy", np.stack([table] * 3))
    np.save(tmp_path / "k.npy", ic.policies.from_table(mdp, table))
    np.savez(tmp_path / "one.npz", pi=table)
    np.savez(tmp_path / "two.npz", pi=table, q=table)
    expected = ic.analyze(mdp, table, horizon=3).credit.skill.value.tolist()

    def skill(policy):
        return strict(run("analyze", "gridworld:2x2", "--horizon", 3, "--policy", policy, "--json")[1])["credit"]["skill"]["value"]

    for name in ("sa.npy", "hsa.npy", "k.npy", "one.npz", "one.npz:pi", "two.npz:pi"):
        assert skill(tmp_path / name) == expected, name
    greedy = ic.policies.epsilon_greedy(mdp, epsilon="1/10", values=table)
    assert skill(f"epsilon:0.1:{tmp_path / 'sa.npy'}") == ic.analyze(mdp, greedy, horizon=3).credit.skill.value.tolist()
    assert skill(f"greedy:{tmp_path / 'sa.npy'}") == [0, 0, 0]

    def message(policy):
        return refused("analyze", "gridworld:2x2", "--horizon", 3, "--policy", policy)

    assert "several arrays" in message(tmp_path / "two.npz")
    assert "no array 'x'; it has: pi, q" in message(f"{tmp_path / 'two.npz'}:x")
    assert "No such file" in message(tmp_path / "none.npy")
    assert "'best' is not known" in message("best")
    (tmp_path / "bad.npy").write_text("hello")
    np.save(tmp_path / "object.npy", np.array([{}]), allow_pickle=True)
    assert "not an .npy or .npz file" in message(tmp_path / "bad.npy") and "not an .npy or .npz file" in message(tmp_path / "object.npy")
    np.save(tmp_path / "off.npy", table * 0.9)
    assert "sum" in message(tmp_path / "off.npy")
    assert "epsilon" in message(f"epsilon:2:{tmp_path / 'sa.npy'}")


def test_refusals_come_before_the_work(refused, usage, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "analyze", lambda *args, **kwargs: pytest.fail("the work was begun"))
    assert "no folder" in refused("analyze", "coin", "--horizon", 3, "--save", tmp_path / "none" / "x.npz")
    assert "5 cells, but the model has 1 states" in refused("analyze", "coin", "--horizon", 3, "--grid", "1x5")
    source = {"grid": [7, 7]}
    ic.MDP.from_branches([0], [0], [1], [0], [0], [True], n_states=1, initial=0, source=source).save(tmp_path / "grid.npz")
    pytest.importorskip("matplotlib")
    assert "49 cells" in refused("analyze", tmp_path / "grid.npz", "--horizon", 3, "--plot", tmp_path / "x.png")
    assert "cannot be written as .xyz" in refused("analyze", "coin", "--horizon", 3, "--plot", tmp_path / "x.xyz")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install icexact[plot]" in refused("analyze", "coin", "--horizon", 3, "--plot", tmp_path / "x.png")


def test_a_budget_that_does_not_suffice(refused):
    assert "would fit" in refused("analyze", "coin", "--horizon", 30, "--discount", "1/2", "--budget", "1MiB")
    assert "lattice engine needs discount 1" in refused("analyze", "coin", "--horizon", 3, "--discount", "1/2", "--engine", "lattice")


@pytest.mark.parametrize("words, what", [
    ([], "COMMAND"),
    (["solve"], "invalid choice"),
    (["analyze", "coin"], "--horizon"),
    (["analyze", "coin", "--horizon", "-1"], "horizon"),
    (["analyze", "coin", "--horizon", "2.5"], "not a number of steps"),
    (["analyze", "coin", "--horizon", "1", "--discount", "2"], "outside (0, 1]"),
    (["analyze", "coin", "--horizon", "1", "--discount", "x"], "not a finite rational"),
    (["analyze", "coin", "--horizon", "1", "--base", "1"], "a number > 1"),
    (["analyze", "coin", "--horizon", "1", "--base", "two"], "not a base"),
    (["analyze", "coin", "--horizon", "1", "--grid", "4"], "ROWSxCOLS"),
    (["analyze", "coin", "--horizon", "1", "--budget", "lots"], "not a size"),
    (["analyze", "coin", "--horizon", "1", "--engine", "gpu"], "invalid choice"),
    (["analyze", "coin", "--horizon", "1", "--env-arg", "x"], "KEY=VALUE"),
    (["analyze", "coin", "--horizon", "1", "--env-arg", "x=1"], "--env-arg is for Gymnasium"),
])  # fmt: skip
def test_usage(words, what, usage):
    assert what in usage(*words)


def test_help_and_version(run):
    code, out, _ = run("--version")
    assert (code, out) == (0, f"icexact {ic.__version__}\n")
    code, out, _ = run("analyze", "--help")
    assert code == 0 and all(word in out for word in ("umbrella:5", "--env-arg map_name=8x8", "greedy:FILE"))


def test_interrupted(refused, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "analyze", stop)
    assert refused("analyze", "coin", "--horizon", 3, code=130) == "icexact: interrupted\n"


def test_out_of_memory(refused, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(cli, "analyze", fail)
    assert "not enough memory" in refused("analyze", "coin", "--horizon", 3)


# Gymnasium


def test_gymnasium(run, refused):
    pytest.importorskip("gymnasium")
    code, out, _ = run("analyze", "FrozenLake-v1", "--env-arg", "map_name=8x8", "--env-arg", "is_slippery=False", "--horizon", 20, "--json")
    assert code == 0 and strict(out)["grid"] == [8, 8] and strict(out)["n_branches"] == 256
    assert strict(out)["credit"] == json.loads(
        json.dumps(uniform(ic.from_gymnasium("FrozenLake-v1", map_name="8x8", is_slippery=False), 20).to_dict()["credit"])
    )


def test_gymnasium_says_what_is_wrong(refused):
    pytest.importorskip("gymnasium")
    assert "Please use `Taxi-v4` instead" in refused("analyze", "Taxi-v3", "--horizon", 3)
    assert "unexpected keyword argument 'colour'" in refused("analyze", "FrozenLake-v1", "--env-arg", "colour=red", "--horizon", 3)
    assert "no table of transitions" in refused("info", "CartPole-v1")
    assert "icexact examples" in refused("info", "umbrela")


def test_without_gymnasium(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert "pip install icexact[gym]" in refused("analyze", "FrozenLake-v1", "--horizon", 3)


# info and examples


def test_info(run, tmp_path):
    code, out, _ = run("info")
    assert code == 0 and ic.__version__ in out and np.__version__ in out and "cache" in out and "processor" in out
    mdp = ic.examples.shortcut()
    code, out, _ = run("info", "shortcut")
    assert code == 0 and mdp.hash in out and "rewards    2 distinct: -1, 1" in out and "1 of them without actions" in out
    uniform(mdp, 2).save(tmp_path / "r.npz")
    assert run("info", tmp_path / "r.npz")[1] == uniform(mdp, 2).summary() + "\n"


def test_every_example_is_listed_and_runs(run):
    _, out, _ = run("examples")
    commands = re.findall(r"icexact (analyze .*)", out)
    built_in = [c.split() for c in commands if not re.search(r"-v\d", c)]
    assert {c[1].partition(":")[0] for c in built_in} == set(ic.examples.__all__)
    for words in built_in:
        code, out, err = run(*words)
        assert code == 0 and err == "" and out.startswith(words[1].partition(":")[0])


# as a process


def process(*words, **kwargs):
    return subprocess.run([sys.executable, "-m", "icexact", *words], capture_output=True, text=True, timeout=120, check=False, **kwargs)


def test_a_pipe_gets_plain_text():
    done = process("analyze", "umbrella:3", "--horizon", "3", env={**os.environ, "FORCE_COLOR": "1"})
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == uniform(ic.examples.umbrella(3), 3).summary() + "\n"
    assert done.stdout.isascii()


def test_a_closed_pipe_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "icexact", "analyze", "garnet:2000,2,2", "--horizon", "60", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == b"" and running.wait(120) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "icexact", "examples"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "icexact: [Errno 28] No space left on device\n")


def on_terminal(*words, columns=100, **environment):
    """What a terminal of that width shows: (code, text)."""
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = (
        {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
        | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
        | environment
    )
    with subprocess.Popen([sys.executable, "-m", "icexact", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # Linux says so when the other side is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    return running.returncode, shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_tables_and_colours():
    pytest.importorskip("rich")
    code, shown = on_terminal("analyze", "gridworld:4x4", "--horizon", "50", "--base", "2")
    assert code == 0 and "\x1b[" in shown and "38;" in shown
    text = ESCAPE.sub("", shown)
    result = uniform(ic.examples.gridworld(4), 50, base=2)
    assert "█" in text and "▁" in text and str(result.credit.return_entropy) in text and str(result.credit.mean) in text
    assert max(map(len, text.splitlines())) <= 100 and "…" not in text


@pytest.mark.parametrize("columns", [80, 85, 86, 100, 160])
def test_nothing_is_cut_off(columns):
    pytest.importorskip("rich")
    code, shown = on_terminal("analyze", "gridworld:4x4", "--horizon", "50", "--base", "2", columns=columns)
    text = ESCAPE.sub("", shown)
    assert code == 0 and "…" not in text and max(map(len, text.splitlines())) <= columns
    assert "directed information" in text and "bracket, 256 nodes" in text and ("▇" in text) == (columns >= 86)


def test_no_color_is_respected():
    pytest.importorskip("rich")
    code, shown = on_terminal("analyze", "two_arms", "--horizon", "1", NO_COLOR="1", columns=80)
    assert code == 0 and "█" in shown and "38;" not in shown and not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown) and "…" not in shown


def test_a_narrow_or_ascii_terminal_gets_plain_text():
    expected = uniform(ic.examples.two_arms(), 1).summary() + "\n"
    assert on_terminal("analyze", "two_arms", "--horizon", "1", columns=60) == (0, expected)
    assert on_terminal("analyze", "two_arms", "--horizon", "1", PYTHONIOENCODING="ascii") == (0, expected)


def test_an_error_in_a_process():
    done = process("analyze", "none.npz", "--horizon", "3")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "icexact: none.npz: No such file or directory\n")
