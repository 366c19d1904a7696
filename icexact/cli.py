"""The command line: `icexact analyze`, `icexact info`, `icexact examples`.

Exit codes: 0 done; 1 a model, policy or budget refused, a file that cannot be read, an extra that is not installed; 2 usage; 130 interrupted.
"""

import argparse
import ast
import json
import math
import os
import platform
import re
import sys
import warnings
from dataclasses import replace
from importlib import metadata
from itertools import pairwise

import numpy as np

from icexact import examples, plot, policies
from icexact._version import __version__
from icexact.analyze import DIRECTIONS, analyze
from icexact.io.gymnasium import from_gymnasium
from icexact.io.npz import load
from icexact.mdp import MDP
from icexact.rationals import discount, fraction
from icexact.results import bytes_text, check_budget, log_base, unit
from icexact.sequences import shown

MODELS = """what ENV_OR_FILE can be:
  FrozenLake-v1            a Gymnasium id; arguments of the environment as --env-arg map_name=8x8 --env-arg is_slippery=False
  model.npz                a model saved by MDP.save
  umbrella:5               an example, its arguments after the colon, as Python writes them: gridworld:10x10,slip=0.1 or garnet:100,4,5,seed=1
                           (`icexact examples` lists them)
"""
POLICIES = """what --policy can be:
  uniform                  every available action alike (the default)
  FILE                     a table of probabilities in an .npy file, or in an .npz file as FILE.npz or FILE.npz:NAME;
                           shape (S, A), (H, S, A), [K] or [H, K]
  greedy:FILE              the best action of each state by a table of values of these shapes; ties share
  epsilon:0.1:FILE         the same, with any action at random with probability 0.1
"""
#: example, horizon, more arguments, what it is
EXAMPLES = (
    ("umbrella:5", 5, "", "the first of 5 actions matters, coins in between hide it"),
    ("delayed_effect:3", 3, "", "the first action decides the reward of the last step: 1 bit of skill"),
    ("shortcut", 4, "", "jump to the goal, or walk there and be carried sometimes"),
    ("two_arms", 1, "", "a bandit whose arms have equal mean and tell themselves apart"),
    ("coin", 10, "--discount 1/2", "a fair coin, discounted: 2^H atoms, all of them noise"),
    ("gridworld:10x10", 100, "--policy uniform", "a slippery grid, the goal in the last cell; also slip=, goals=, start="),
    ("garnet:100,4,5", 20, "--base 2", "a random model: states, actions, successors; also rewards=, seed="),
)
COLOURS = {"skill": "#56B4E9", "luck": "#E69F00", "noise": "#2DB58C"}
DIRECTED = "#CC79A7"


def main(argv=None):
    """Run one command; the exit code.

    >>> from icexact.cli import main
    >>> main(["analyze", "two_arms", "--horizon", "1", "--base", "2"])  # doctest: +ELLIPSIS
    two_arms: 1 states, 2 pairs, 4 branches
    ...
    0
    """
    try:
        args = _parser().parse_args(argv)
        code = args.run(args)
        if sys.stdout is not None:  # as it is under `>&-`
            sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has said why
        return stop.code or 0
    except BrokenPipeError:
        _drop_output()  # whoever read has what they wanted: `| head`
        return 0
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except MemoryError as error:
        return _say(f"not enough memory: {error}" if str(error) else "not enough memory: a smaller --budget refuses such work before it begins")
    except OSError as error:
        if error.filename is None:
            _drop_output()  # a full disk behind `>`
        return _say(f"{error.filename}: {error.strerror}" if error.filename is not None and error.strerror else str(error))
    except (ValueError, ImportError, OverflowError) as error:
        return _say(str(error))


def _drop_output():
    """Forget what is still to be printed: Python would try again at exit, and complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass  # stdout is no file


def _say(text, code=1):
    print(f"icexact: {' '.join(text.split())}", file=sys.stderr)
    return code


def _parser():
    parser = argparse.ArgumentParser(
        prog="icexact",
        description="Exact return laws, occupancy and information credit of tabular Markov decision processes, each number with its proven error.",
    )
    parser.add_argument("--version", action="version", version=f"icexact {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter

    a = commands.add_parser(
        "analyze",
        help="the main job: H(Z) and what actions, transitions and rewards put into it, step by step",
        formatter_class=raw,
        description="How much of the entropy of the return actions (skill), transitions (luck) and rewards (noise) put in, step by step.",
        epilog=MODELS + "\n" + POLICIES,
    )
    a.add_argument("model", metavar="ENV_OR_FILE", help="a Gymnasium id, a saved model, or an example: see below")
    a.add_argument("--horizon", type=_horizon, required=True, metavar="H", help="number of steps (Gymnasium's own time limit is not in its tables)")
    a.add_argument("--policy", default="uniform", metavar="P", help="uniform (default), or a file: see below")
    a.add_argument("--discount", type=_discount, default="1", metavar="G", help="0.9 or 9/10, taken as exactly that number; default 1")
    a.add_argument("--base", type=_base, default=None, metavar="B", help="2 for bits, 10 for hartleys, e for nats (default)")
    a.add_argument("--json", action="store_true", help="print all numbers and errors as JSON")
    a.add_argument("--save", metavar="OUT.npz", help="write the result; icexact.load reads it back")
    a.add_argument("--plot", metavar="OUT.png", help="draw it (PNG, PDF, SVG, .. by the ending)")
    a.add_argument("--grid", type=_grid, metavar="ROWSxCOLS", help="the states are the cells of this grid, numbered along the rows: adds a map to the plot")
    a.add_argument("--engine", choices=("lattice", "keys"), help="how return laws are held; default: the better one")
    a.add_argument(
        "--budget", type=_budget, default="4GiB", metavar="SIZE", help="memory for the laws, such as 500MiB; more is refused before the work (default 4GiB)"
    )
    a.add_argument("--max-nodes", type=_nodes, metavar="N", help="beliefs told apart at a step, for directed information: more narrow its brackets (default: what costs about a second, at most 256)")
    a.add_argument("--tolerance", type=_tolerance, metavar="W", help="brackets no wider than W will do, in the unit of --base; with --max-nodes as the limit")
    a.add_argument("--no-directed", action="store_true", help="leave directed information out")
    a.add_argument("--quiet", action="store_true", help="no progress and no notes on stderr")
    _environment(a)
    a.set_defaults(run=_analyze, parser=a)

    i = commands.add_parser(
        "info",
        help="versions, processor and cache; with a model, what is in it",
        formatter_class=raw,
        description="Versions, processor and cache folder; with a model its sizes, rewards, ends, rounding and hash.",
        epilog=MODELS,
    )
    i.add_argument("model", metavar="ENV_OR_FILE", nargs="?", help="a model as for analyze, or a saved result")
    _environment(i)
    i.set_defaults(run=_info, parser=i)

    e = commands.add_parser("examples", help="the built-in models and how to run them", description="The built-in models and how to run them.")
    e.set_defaults(run=_examples, parser=e)
    return parser


def _environment(parser):
    parser.add_argument(
        "--env-arg", action="append", default=[], type=_assignment, metavar="KEY=VALUE", help="an argument for gymnasium.make; may be given again"
    )


# what argparse calls for one argument: a ValueError's text becomes the usage message


def _argument(read):
    def checked(text):
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


@_argument
def _horizon(text):
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a number of steps, an integer >= 0")
    return int(text)


@_argument
def _discount(text):
    discount(text)
    return text  # the text itself, so that no float comes between


@_argument
def _base(text):
    if text == "e":
        return None
    try:
        base = int(text) if text.isdigit() else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a base: 2 for bits, 10 for hartleys, e for nats") from None
    log_base(base)
    return base


@_argument
def _budget(text):
    check_budget(text)
    return text


@_argument
def _nodes(text):
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number of nodes, an integer >= 1")
    return int(text)


@_argument
def _tolerance(text):
    try:
        width = float(text)
    except ValueError:
        width = 0.0
    if not 0 < width < math.inf:
        raise ValueError(f"{text!r} is not a width > 0")
    return width


@_argument
def _grid(text):
    found = re.fullmatch(r"([1-9]\d*)[xX]([1-9]\d*)", text)
    if not found:
        raise ValueError(f"{text!r} is not a grid: write ROWSxCOLS, such as 4x12")
    return int(found[1]), int(found[2])


@_argument
def _assignment(text):
    key, sign, value = text.partition("=")
    if not sign or not key.isidentifier():
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return key, _literal(value)


def _literal(text):
    """A Python literal, or the text itself: 8x8 needs no quotes."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()


# models and policies by name


def _model(args, results=False):
    """What the command line calls ENV_OR_FILE; with `results` a saved result will do too."""
    name, kwargs = args.model, dict(args.env_arg)
    is_file = name.endswith(".npz") or os.path.isfile(name)
    example, _, arguments = name.partition(":")
    if kwargs and (is_file or example in examples.__all__):
        args.parser.error(f"--env-arg is for Gymnasium environments, and {name} is {'a file' if is_file else 'an example: write its arguments after a colon'}")
    if is_file:
        found = load(name)
        if not isinstance(found, MDP) and not results:
            raise ValueError(f"{name} holds a result ({type(found).__name__}), not a model: `icexact info {name}` shows it")
        return found
    if example in examples.__all__:
        return _example(example, arguments)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            mdp = from_gymnasium(name, **kwargs)
        except TypeError as error:
            raise ValueError(f"gymnasium cannot make {name!r}: {error}") from error
        except ValueError as error:
            hint = "" if "-v" in name else " (nor is there a file or an example of that name: see `icexact examples`)"
            raise ValueError(f"{error}{hint}") from error
    if not getattr(args, "quiet", False):
        for warning in said:
            text = re.sub(r"\x1b\[\d*m", "", str(warning.message))  # gymnasium colours its warnings
            print(f"icexact: note: {' '.join(text.split())}", file=sys.stderr)
    return mdp


def _example(name, arguments):
    """`gridworld:10x10,slip=0.1` without running any code: the arguments are literals, or text where they are not."""
    text = re.sub(r"^\s*(\d+)x(\d+)", r"\1,\2", arguments)
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        positional = [_literal(ast.get_source_segment(f"f({text})", x)) for x in call.args]
        named = {k.arg: _literal(ast.get_source_segment(f"f({text})", k.value)) for k in call.keywords}
    except (SyntaxError, AttributeError) as error:
        raise ValueError(f"example {name}: the arguments {arguments!r} cannot be read; write them as in gridworld:10x10,slip=0.1") from error
    try:
        return getattr(examples, name)(*positional, **named)
    except TypeError as error:
        raise ValueError(f"example {name}: {error}; see `icexact examples`") from error


def _policy(mdp, text):
    if text == "uniform":
        return policies.uniform(mdp)
    kind, _, rest = text.partition(":")
    if kind == "greedy" and rest:
        return policies.epsilon_greedy(mdp, epsilon=0, values=_table(rest))
    if kind == "epsilon" and rest:
        epsilon, _, path = rest.partition(":")
        return policies.epsilon_greedy(mdp, epsilon=fraction(epsilon, "epsilon"), values=_table(path))
    if not re.search(r"\.np[yz]($|:)", text):
        raise ValueError(f"policy {text!r} is not known: uniform, FILE.npy, greedy:FILE.npy or epsilon:0.1:FILE.npy")
    return _table(text)


def _table(text):
    """One array of an .npy or .npz file."""
    found = re.fullmatch(r"(.+\.npz):(.+)", text)
    path, name = (found[1], found[2]) if found else (text, None)
    try:
        with open(path, "rb") as file:
            data = np.load(file, allow_pickle=False)
            if isinstance(data, np.ndarray):
                return data
            names = list(data.files)
            if name is None and len(names) == 1:
                return data[names[0]]
            if name in names:
                return data[name]
    except OSError:
        raise
    except Exception as error:  # numpy lets whatever it stumbles over through
        raise ValueError(f"{path} is not an .npy or .npz file with numbers") from error
    some = ", ".join(names[:10]) + (", .." if len(names) > 10 else "")
    raise ValueError(f"{path} has no array {name!r}; it has: {some}" if name else f"{path} has several arrays: say which, as {path}:NAME; it has: {some}")


# the commands


def _analyze(args):
    note = (lambda text: None) if args.quiet else (lambda text: print(f"icexact: {text}", file=sys.stderr))
    for path in (args.save, args.plot):
        folder = os.path.dirname(os.path.abspath(path)) if path else None
        if folder and not os.path.isdir(folder):  # said before the work, not after it
            raise ValueError(f"{path}: there is no folder {folder}")
    if args.plot:
        plot.need_matplotlib()
        plot.file_format(args.plot)
    mdp = _model(args)
    if args.grid or args.plot:
        plot.check_grid(args.grid or mdp.source.get("grid"), mdp.n_states)
    policy = _policy(mdp, args.policy)
    if not args.quiet and sys.stderr.isatty() and _is_first_run():
        note("the first run compiles the kernels, some 20 seconds; later ones find them")
    result = analyze(
        mdp,
        policy,
        horizon=args.horizon,
        discount=args.discount,
        base=args.base,
        directed=not args.no_directed,
        tolerance=args.tolerance,
        max_nodes=args.max_nodes,
        budget=args.budget,
        engine=args.engine,
        progress=False if args.quiet else None,
    )
    if args.grid:
        result = replace(result, grid=args.grid)
    if args.save:
        result.save(args.save)
        note(f"wrote {args.save}")
    if args.plot:
        plot.plot(result, args.plot)
        note(f"wrote {args.plot}")
    if args.json:
        print(json.dumps(_strict(result.to_dict()), allow_nan=False))
    elif not _rich(result):
        print(result.summary())
    return 0


def _is_first_run():
    from icexact.kernels import jit

    folder = jit.folder()
    return folder is None or not any(folder.glob("*.nbc"))


def _strict(x):
    """What JSON can hold: an infinite error or value becomes the text that float() reads, numbers keep every digit."""
    if isinstance(x, dict):
        return {str(k): _strict(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_strict(y) for y in x]
    if isinstance(x, np.generic):
        return _strict(x.item())
    if isinstance(x, float) and not math.isfinite(x):
        return repr(x)
    return x if x is None or isinstance(x, (bool, int, float, str)) else str(x)


def _info(args):
    if args.model is None:
        print("\n".join(_installation()))
        return 0
    found = _model(args, results=True)
    print("\n".join(_description(found)) if isinstance(found, MDP) else repr(found))
    return 0


def _installation():
    import llvmlite.binding

    from icexact.kernels import jit

    lines = [f"icexact    {__version__}", f"Python     {platform.python_version()} on {platform.system()} {platform.machine()}"]
    for name, extra in (
        ("numpy", None),
        ("scipy", None),
        ("numba", None),
        ("llvmlite", None),
        ("gymnasium", "gym"),
        ("matplotlib", "plot"),
        ("rich", "terminal"),
    ):
        try:
            lines.append(f"{name:<10} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name:<10} not installed{f' (pip install icexact[{extra}])' if extra else ''}")
    lines.append(f"processor  {llvmlite.binding.get_host_cpu_name()}, {os.cpu_count()} logical cores; one thread is used")
    folder = jit.folder()
    if folder is None:
        lines.append("cache      none: no folder can be written, kernels are compiled in each process (ICEXACT_CACHE_DIR names one)")
    else:
        sizes = [path.stat().st_size for path in folder.glob("*.nbc")]
        lines.append(f"cache      {folder}: {len(sizes)} compiled kernels, {bytes_text(sum(sizes))}")
    return lines


def _description(mdp):
    branches, actions = np.diff(mdp.branch_ptr), np.diff(mdp.pair_ptr)
    values, starts = mdp.rewards.values, int((mdp.initial > 0).sum())
    size = sum(getattr(mdp, name).nbytes for name in ("pair_ptr", "pair_action", "branch_ptr", "next_state", "probability", "reward", "ends", "initial"))
    idle = int((actions == 0).sum())
    shown = ", ".join(map(str, values)) if len(values) <= 8 else f"{', '.join(map(str, values[:3]))}, .., {', '.join(map(str, values[-3:]))}"
    lines = [
        repr(mdp),
        f"  states     {mdp.n_states}" + (f", {idle} of them without actions" if idle else "") + f"; episodes start in {starts} of them",
        f"  actions    {mdp.n_actions}; {mdp.n_pairs} pairs, {actions[actions > 0].min()} to {actions.max()} a state",
        f"  branches   {mdp.n_branches}, {branches.min()} to {branches.max()} a pair; {int(mdp.ends.sum())} end the episode",
        f"  rewards    {len(values)} distinct: {shown}",
        f"  rounding   probabilities lie within {int(mdp.pair_rounding.max())} units 2^-53 of the true ones; rows missed 1 by at most {mdp.largest_change:.1e}",
        f"  size       {bytes_text(size)}",
        f"  hash       {mdp.hash}",
    ]
    return lines + [f"  source     {', '.join(f'{k}: {v}' for k, v in mdp.source.items())}"] * bool(mdp.source)


def _examples(args):
    width = max(len(spec) for spec, *_ in EXAMPLES)
    for spec, horizon, more, what in EXAMPLES:
        print(f"{spec:<{width}}  {what}")
        print(f"{'':<{width}}    icexact analyze {spec} --horizon {horizon}{' ' + more if more else ''}")
    print("\nFrom Gymnasium (pip install icexact[gym]):")
    for line in (
        "FrozenLake-v1 --horizon 100 --base 2",
        "FrozenLake-v1 --env-arg map_name=8x8 --horizon 200 --plot lake.png",
        "CliffWalking-v1 --env-arg is_slippery=True --horizon 50",
        "Taxi-v4 --horizon 20",
    ):
        print(f"  icexact analyze {line}")
    return 0


# the summary on a terminal


def _rich(result):
    """Print the summary with colours and bars; False where stdout is no such terminal, or rich is not installed."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    try:
        from rich.console import Console, Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    console = Console()
    if not console.encoding.lower().startswith("utf") or console.width < 80:
        return False  # no blocks to draw with, or no room for every digit
    c, name, whole = result.credit, unit(result.base), float(result.credit.return_entropy)
    values = result.return_law.values

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("model", Text(f"{result.n_states} states, {result.n_pairs} pairs, {result.n_branches} branches"))
    facts.add_row("return Z", f"{len(values)} atom{'s' if len(values) != 1 else ''} from {values[0]:.12g} to {values[-1]:.12g}")
    facts.add_row("E\\[Z]", str(c.mean))
    facts.add_row("Var(Z)", str(c.variance.total))
    facts.add_row("I(A; Z | S)", f"{result.sparsity.value} {name}")
    facts.add_row("alive", f"{result.occupancy.alive[-1] if result.horizon else 1} at the last step")

    width = min(26, console.width - 74)
    steps = f"over {result.horizon} steps"
    if width < 12:  # no room for pictures of time
        width, steps = 0, ""
    parts = Table(box=None, pad_edge=False, padding=(0, 1))
    for title, justify in (("", "left"), (name, "left"), ("share", "right"), ("", "left"), (steps, "left"), ("put in by", "left")):
        parts.add_column(title, justify=justify, header_style="dim", no_wrap=True)
    for part, what in (("skill", "actions"), ("luck", "transitions"), ("noise", "rewards")):
        credit, colour = getattr(c, part), COLOURS[part]
        share = float(credit.value.sum()) / whole if whole > 0 else 0.0
        parts.add_row(
            Text(part, style=f"bold {colour}"),
            str(credit.total()),
            f"{100 * share:.1f} %" if whole > 0 else "",
            Text(_bar(share, 14), style=colour),
            Text(_spark(credit.value, width), style=colour),
            Text(what, style="dim"),
        )
    parts.add_row(Text("H(Z)", style="bold"), Text(str(c.return_entropy), style="bold"), "", "", Text(_spark(c.total.value, width)), Text("all", style="dim"))

    pieces = [facts, "", parts]
    if result.horizon > 1 and whole > 0:
        busy = Table(box=None, pad_edge=False, padding=(0, 1))
        for title, style in (("busiest steps", "dim"), *COLOURS.items()):
            busy.add_column(title, style=style, header_style="dim", no_wrap=True)
        for h in np.sort(np.argsort(-c.total.value, kind="stable")[:5]):
            busy.add_row(str(h), *(str(getattr(c, part)[h]) for part in COLOURS))
        pieces += ["", busy]
    if result.directed:
        told = Table(box=None, pad_edge=False, padding=(0, 1))
        for title, style in (("directed information", None), (name, None), (steps, DIRECTED), ("", "dim")):
            told.add_column(title, style=style, header_style="dim", no_wrap=True)
        for d in result.directed:
            told.add_row(DIRECTIONS[d.source_name, d.target_name][2:-1], shown(d.value), _spark(d.per_step.value, width), d.method)
        pieces += ["", told]
    verdicts = Table.grid(padding=(0, 2))
    verdicts.add_column(style="dim", no_wrap=True)
    verdicts.add_column()
    for p in result.propositions:
        verdicts.add_row(f"proposition{'s' if ' ' in p.number else ''} {p.number}", Text(p.statement))
        verdicts.add_row("", Text(p.verdict(), style={True: "green", False: "yellow", None: "dim"}[p.holds]))
    pieces += ["", verdicts]
    gap = result.gap()
    pieces += ["", Text(f"skill + luck + noise - H(Z) = {gap.value:.1e}, proven to be 0 within {gap.error:.1e}\n{result.footer()}", style="dim")]
    title = f"{result.source.get('name') or 'MDP'}, {result.horizon} step{'s' if result.horizon != 1 else ''}, discount {result.discount}"
    console.print(Panel(Group(*pieces), title=Text(title, style="bold"), title_align="left", border_style="dim", expand=False, padding=(1, 2)), highlight=False)
    return True


def _bar(share, width):
    """A bar of eighths of a cell.

    >>> _bar(0.5, 3), _bar(1e-9, 3)
    ('█▌ ', '▏  ')
    """
    eighths = min(8 * width, max(round(8 * width * share), 1 if share > 0 else 0))
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def _spark(values, width):
    """Values over time as blocks, each the mean of some steps; the highest is full.

    >>> _spark([0, 1, 2, 4], 8), _spark([0, 0], 8), _spark([1, 1, 3, 3], 2)
    ('·▂▄█', '··', '▃█')
    """
    if not width:
        return ""
    values = np.asarray(values, dtype=np.float64)
    if len(values) > width:
        cuts = np.linspace(0, len(values), width + 1).astype(np.int64)
        values = np.array([values[i:j].mean() for i, j in pairwise(cuts)])
    top = values.max(initial=0.0)
    return "".join("·" if v <= 0 else "▁▂▃▄▅▆▇█"[min(7, max(0, round(8 * v / top) - 1))] for v in values)
