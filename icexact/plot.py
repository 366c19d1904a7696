"""One picture of an `Analysis`: credit over time, how it adds up to H(Z), directed information beside it, and on a grid where credit arises."""

import math
import os

import numpy as np

from icexact.analyze import Analysis
from icexact.results import unit

# Okabe and Ito's colours, told apart by colour-blind readers and in grey
COLOURS = {"skill": "#0072B2", "luck": "#E69F00", "noise": "#009E73"}
WHAT = {"skill": "actions", "luck": "transitions", "noise": "rewards"}
DIRECTED = {"trajectory": ("black", "-"), "action": ("#0072B2", "-"), "state": ("#E69F00", "-"), "pair": ("#CC79A7", "--")}
DIRECTED_TO = ("return", "reward")
_EMPTY = "#d9d9d9"


def plot(analysis, path=None, *, grid=None):
    """Draw an `Analysis`; the matplotlib `Figure`, also written to `path` where one is given (its ending says the format, PNG without one).

    Left: skill, luck and noise of each step [H], stacked, and below them their running sum, which reaches H(Z). Right, where the states are the cells of a grid
    (`analysis.grid`, or grid=(rows, columns)): the credit that arises in each state, summed over the steps; cells in which no step is ever taken are grey.
    Below on the left, where it was worked out, the directed information of each step towards the return and the rewards; a band where only a bracket is proven.
    Other error bounds are far below a pixel and are not drawn.

    Raises ValueError: a grid that has not S cells, a format that cannot be written; ImportError where matplotlib is not installed.

    >>> import icexact as ic
    >>> from icexact.plot import plot
    >>> mdp = ic.examples.shortcut()
    >>> figure = plot(ic.analyze(mdp, ic.policies.uniform(mdp), horizon=4))
    >>> [axes.get_title(loc="left") for axes in figure.axes[:3]]
    ['credit of each step', 'credit up to and with step h', 'directed information of each step']
    """
    if not isinstance(analysis, Analysis):
        raise TypeError(f"plot draws what icexact.analyze returns, not a {type(analysis).__name__}")
    grid = check_grid(analysis.grid if grid is None else grid, analysis.n_states)
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    credit = analysis.credit
    maps = [] if grid is None else [part for part in COLOURS if part == "skill" or getattr(credit.by_state, part).value.any()]
    panels = 3 if analysis.directed else 2
    figure = Figure(figsize=(12.5 if maps else 8, 8.2 if panels == 3 else 6.2), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, wspace=0.03, hspace=0.03)
    left, *right = figure.subfigures(1, 2 if maps else 1, squeeze=False)[
        0
    ]  # its own subfigure even if alone: the legend outside the axes stays clear of the title
    figure.suptitle(_title(analysis), fontsize=12)
    axes = left.subplots(panels, 1, sharex=True)
    _over_time(axes[:2], analysis)
    if analysis.directed:
        _directed(axes[2], analysis)
    axes[-1].set_xlabel("step h")
    if float(credit.return_entropy) > 0:
        left.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False, fontsize=10, handlelength=1.2, columnspacing=1.5)
    if maps:
        _maps(right[0], maps, analysis, grid)
    if path is not None:
        figure.savefig(path, format=file_format(path))
    return figure


def need_matplotlib():
    """ImportError that says what to install."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("plots need matplotlib; install it with: pip install icexact[plot]") from error


def file_format(path):
    """The format that the path's ending names; ValueError where matplotlib cannot write it."""
    from matplotlib.backend_bases import FigureCanvasBase

    ending = os.path.splitext(os.fspath(path))[1][1:].lower() or "png"
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if ending not in known:
        raise ValueError(f"{path}: a plot cannot be written as .{ending}; possible: {', '.join(known)}")
    return ending


def check_grid(grid, n_states):
    """(rows, columns) as ints, None for none; ValueError where it has not one cell a state."""
    if grid is None:
        return None
    cells = [int(n) for n in grid]
    if len(cells) != 2 or cells != list(grid) or min(cells) < 1:
        raise ValueError(f"grid is {grid!r}; it must be (rows, columns), two integers >= 1")
    if cells[0] * cells[1] != n_states:
        raise ValueError(f"a grid of {cells[0]} x {cells[1]} has {cells[0] * cells[1]} cells, but the model has {n_states} states")
    return cells[0], cells[1]


def _title(analysis):
    name = analysis.source.get("name") or "MDP"
    discount = "" if analysis.discount == 1 else f", discount {analysis.discount}"
    return f"{name}, {_count(analysis.horizon, 'step')}{discount}: skill + luck + noise = H(Z) = {analysis.credit.return_entropy} {unit(analysis.base)}"


def _count(n, what):
    return f"{n} {what}{'' if n == 1 else 's'}"


def _over_time(axes, analysis):
    credit, name, whole = analysis.credit, unit(analysis.base), float(analysis.credit.return_entropy)
    edges = np.arange(analysis.horizon + 1) - 0.5
    now, sofar = axes
    for at, running in ((now, False), (sofar, True)):
        base = np.zeros(analysis.horizon)
        for part, colour in COLOURS.items():
            value = getattr(credit, part).value
            height = np.cumsum(value) if running else value
            label = f"{part} {100 * value.sum() / whole:.1f} %" if whole > 0 else part
            if analysis.horizon:
                at.stairs(base + height, edges, baseline=base, fill=True, color=colour, label=label, linewidth=0)
            base = base + height
        at.set_ylim(0, 1.08 * (base.max(initial=0.0) if base.max(initial=0.0) > 0 else 1.0))
        at.spines[["top", "right"]].set_visible(False)
        at.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        at.set_axisbelow(True)
    if analysis.horizon:
        now.set_xlim(edges[0], edges[-1])
        now.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    else:
        now.set_xticks([])
    if whole == 0:
        now.text(
            0.5,
            0.5,
            "the return is certain: no credit to give" if analysis.horizon else "no steps: no credit to give",
            transform=now.transAxes,
            ha="center",
            color="#555555",
        )
    sofar.axhline(whole, color="black", linewidth=1, linestyle=(0, (5, 3)))
    sofar.annotate("H(Z)", (0, whole), xycoords=("axes fraction", "data"), xytext=(4, 3), textcoords="offset points", fontsize=9)
    sofar.set_ylim(0, 1.15 * whole if whole > 0 else 1.0)
    now.set_title("credit of each step", fontsize=10, loc="left")
    sofar.set_title("credit up to and with step h", fontsize=10, loc="left")
    for at in axes:
        at.set_ylabel(name)


def _directed(at, analysis):
    """I(trajectory -> return) and what goes into the rewards, by step."""
    name = unit(analysis.base)
    edges = np.arange(analysis.horizon + 1) - 0.5
    shown = [d for d in analysis.directed if d.target_name in DIRECTED_TO] if analysis.horizon else []
    top = max((float(d.per_step.upper.max()) for d in shown), default=0.0)
    for d in shown:
        colour, style = DIRECTED[d.source_name]
        low, high = np.maximum(d.per_step.lower, 0.0), d.per_step.upper
        label = f"{d.source_name} $\\rightarrow$ {d.target_name}"
        if (high - low).max() > 0.005 * top:
            at.stairs(high, edges, baseline=low, fill=True, color=colour, alpha=0.3, linewidth=0)
            label += " (proven band)"
        at.stairs(d.per_step.value, edges, color=colour, linestyle=style, linewidth=1.4, label=label, baseline=None)
    at.set_ylim(0, 1.3 * top if top > 0 else 1.0)
    at.spines[["top", "right"]].set_visible(False)
    at.grid(axis="y", color="#e5e5e5", linewidth=0.6)
    at.set_axisbelow(True)
    at.set_title("directed information of each step", fontsize=10, loc="left")
    at.set_ylabel(name)
    if top > 0:
        at.legend(loc="upper right", ncols=2, frameon=False, fontsize=8, handlelength=1.6, columnspacing=1.2)


def _maps(figure, maps, analysis, grid):
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import FuncFormatter

    idle = ~(analysis.occupancy.state.value > 0).any(axis=0)
    wide = grid[1] > 2 * grid[0]  # wide maps go one above the other
    if len(maps) == 1:
        places = [figure.subplots()]
    elif wide:
        places = figure.subplots(len(maps), 1)
    else:
        cells = figure.add_gridspec(2, len(maps) - 1, height_ratios=(1.5, 1))
        places = [figure.add_subplot(cells[0, :])] + [figure.add_subplot(cells[1, i]) for i in range(len(maps) - 1)]
    for place, part in zip(places, maps):
        value = getattr(analysis.credit.by_state, part).value
        shown = np.ma.masked_array(value, idle & (value == 0)).reshape(grid)
        colours = LinearSegmentedColormap.from_list(part, ["#ffffff", COLOURS[part]]).with_extremes(bad=_EMPTY)
        image = place.imshow(shown, cmap=colours, vmin=0, vmax=value.max() if value.max() > 0 else 1.0, interpolation="nearest")
        place.set_title(f"{part} by state, put in by {WHAT[part]}" if wide or part == "skill" else f"{part}, by {WHAT[part]}", fontsize=10, loc="left")
        place.set_xlabel("column")
        place.set_ylabel("row")
        for axis, n in ((place.xaxis, grid[1]), (place.yaxis, grid[0])):
            axis.get_major_locator().set_params(integer=True, nbins=min(n, 12), min_n_ticks=1)
        bar = figure.colorbar(image, cax=place.inset_axes([1.02, 0, 0.02, 1] if wide else [1.04, 0, 0.05, 1]))
        bar.locator.set_params(nbins=5)
        power = math.floor(math.log10(value.max())) if value.max() > 0 else 0
        power = power if abs(power) > 2 else 0
        # the power of ten belongs to the unit, not over the title
        bar.formatter = FuncFormatter(lambda x, _, power=power: f"{x / 10.0**power:.3g}")
        bar.set_label((f"$10^{{{power}}}$ " if power else "") + unit(analysis.base))
        bar.outline.set_linewidth(0.5)
    if idle.any():
        figure.supxlabel("grey: no step is taken there", fontsize=8, color="#555555")
