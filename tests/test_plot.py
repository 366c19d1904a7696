"""The picture shows the numbers of the analysis, and only those."""

import io
import subprocess
import sys

import numpy as np
import pytest

import icexact as ic

pytest.importorskip("matplotlib")
from icexact.plot import plot

PARTS = ("skill", "luck", "noise")


def analysis(mdp, horizon, **kwargs):
    return ic.analyze(mdp, ic.policies.uniform(mdp), horizon=horizon, **kwargs)


@pytest.fixture(scope="module")
def grid():
    return analysis(ic.examples.gridworld(3, 4), 12, base=2)


def layers(axes):
    """(heights, bottoms, edges) of the stacked layers."""
    return [(p.get_data().values, p.get_data().baseline, p.get_data().edges) for p in axes.patches]


@pytest.mark.parametrize("mdp, horizon", [
    (ic.examples.gridworld(3, 4), 12), (ic.examples.umbrella(5), 5), (ic.examples.two_arms(), 1), (ic.examples.coin(), 1000),
    (ic.examples.delayed_effect(3), 1),
], ids=["grid", "umbrella", "one step", "thousand steps", "certain"])  # fmt: skip
def test_layers_are_the_credit_and_add_up(mdp, horizon):
    a = analysis(mdp, horizon)
    now, sofar = plot(a).axes[:2]
    for axes, shown in ((now, lambda x: x), (sofar, np.cumsum)):
        drawn = layers(axes)
        assert len(drawn) == 3
        top = np.zeros(horizon)
        for part, (value, base, edges) in zip(PARTS, drawn):
            assert (base == top).all()
            top = top + shown(getattr(a.credit, part).value)
            assert (value == top).all()
            assert (edges == np.arange(horizon + 1) - 0.5).all()
        low, high = axes.get_ylim()
        assert low == 0 and high >= top.max()
    whole = a.credit.return_entropy
    line = sofar.lines[0].get_ydata()
    assert (np.asarray(line) == whole.value).all()
    assert top[-1] == pytest.approx(float(whole), abs=float(a.gap().error))
    ticks = [t for t in now.get_xticks() if now.get_xlim()[0] <= t <= now.get_xlim()[1]]
    assert ticks and all(t == int(t) for t in ticks)


def test_words(grid):
    figure = plot(grid)
    assert str(grid.credit.return_entropy) in figure.get_suptitle() and figure.get_suptitle().endswith("bits") and "gridworld" in figure.get_suptitle()
    now, sofar, told = figure.axes[:3]
    assert now.get_ylabel() == sofar.get_ylabel() == told.get_ylabel() == "bits" and told.get_xlabel() == "step h"
    (legend,) = figure.subfigs[0].legends
    shares = [float(t.get_text().split()[1]) for t in legend.get_texts()]
    assert [t.get_text().split()[0] for t in legend.get_texts()] == list(PARTS)
    assert sum(shares) == pytest.approx(100, abs=0.16)
    assert plot(analysis(ic.examples.coin(), 3, discount="1/2")).get_suptitle().startswith("coin, 3 steps, discount 1/2:")


def test_directed_information_by_step_and_the_band_where_it_is_a_bracket(grid):
    a = analysis(ic.examples.gridworld(3, 4), 12, max_nodes=4)
    told = plot(a).axes[2]
    drawn = {p.get_label().split(" (")[0].replace("$\\rightarrow$", "->"): p for p in told.patches if not p.get_fill()}
    bands = [p.get_data() for p in told.patches if p.get_fill()]
    assert set(drawn) == {"trajectory -> return", "action -> reward", "state -> reward", "pair -> reward"}
    for d in a.directed:
        if (patch := drawn.get(f"{d.source_name} -> {d.target_name}")) is not None:
            assert (patch.get_data().values == d.per_step.value).all()
            if d.source_name == "action":
                assert float(d.value.error) > 1e-3 and "(proven band)" in patch.get_label()
                (band,) = [b for b in bands if (b.values == d.per_step.upper).all()]
                assert (band.baseline == np.maximum(d.per_step.lower, 0)).all()
    assert told.get_ylim()[1] > max(d.per_step.upper.max() for d in a.directed[:4])
    assert not any("band" in p.get_label() for p in plot(analysis(ic.examples.shortcut(), 4)).axes[2].patches)
    none = plot(analysis(ic.examples.shortcut(), 4, directed=False))
    assert none.axes[1].get_xlabel() == "step h" and not any(x.get_title(loc="left").startswith("directed") for x in none.axes)


def maps(figure):
    return [axes for axes in figure.axes if axes.images]


def test_maps_are_the_credit_by_state(grid):
    drawn = maps(plot(grid))
    assert [axes.get_title(loc="left").split()[0].strip(",") for axes in drawn] == list(PARTS)
    for axes, part in zip(drawn, PARTS):
        value = getattr(grid.credit.by_state, part).value
        image = axes.images[0]
        assert image.get_array().shape == (3, 4)
        assert (np.asarray(image.get_array().filled(0)).ravel() == value).all()
        assert image.get_clim() == (0, value.max())
        # the goal: nothing is done there
        assert np.ma.getmaskarray(image.get_array()).ravel().tolist() == [False] * 11 + [True]


def test_only_parts_that_are_there_get_a_map():
    assert [axes.get_title(loc="left").split()[0] for axes in maps(plot(analysis(ic.examples.shortcut(), 4)))] == ["skill", "noise"]
    assert len(maps(plot(analysis(ic.examples.gridworld(3), 1)))) == 1  # H(Z) = 0: the skill map, all zero


def test_a_grid_that_is_given():
    a = analysis(ic.examples.umbrella(5), 5)
    assert maps(plot(a)) == []
    assert maps(plot(a, grid=(2, 5)))[0].images[0].get_array().shape == (2, 5)
    assert maps(plot(a, grid=[10, 1]))[0].images[0].get_array().shape == (10, 1)


@pytest.mark.parametrize(
    "grid, match", [((2, 4), "8 cells, but the model has 10 states"), ((0, 10), "two integers"), ((2.5, 4), "two integers"), ((10,), "two integers")]
)
def test_a_grid_that_is_refused(grid, match):
    with pytest.raises(ValueError, match=match):
        plot(analysis(ic.examples.umbrella(5), 5), grid=grid)


def test_no_steps_and_certain_returns_say_so():
    for mdp, horizon, words in ((ic.examples.coin(), 0, "no steps"), (ic.examples.delayed_effect(3), 1, "the return is certain")):
        figure = plot(analysis(mdp, horizon))
        figure.canvas.draw()
        assert any(words in text.get_text() for text in figure.axes[0].texts)
        assert not figure.subfigs[0].legends


def test_files(grid, tmp_path):
    plot(grid, tmp_path / "a.png")
    plot(grid, tmp_path / "noending")
    for name in ("a.png", "noending"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    plot(grid, str(tmp_path / "a.svg"))
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    with pytest.raises(ValueError, match="cannot be written as .xyz; possible: .*png"):
        plot(grid, tmp_path / "a.xyz")


def test_size(grid):
    def pixels(figure):
        out = io.BytesIO()
        figure.savefig(out, format="rgba")
        return len(out.getvalue()) // 4

    assert pixels(plot(grid)) == 1875 * 1230
    assert pixels(plot(analysis(ic.examples.two_arms(), 1))) == 1200 * 1230
    assert pixels(plot(analysis(ic.examples.two_arms(), 1, directed=False))) == 1200 * 930


def test_nothing_overlaps_the_title():
    """Seen once: a legend outside the axes of the whole figure was drawn over the title."""
    for mdp, horizon in ((ic.examples.umbrella(5), 5), (ic.examples.gridworld(3, 4), 12)):
        figure = plot(analysis(mdp, horizon))
        figure.canvas.draw()
        legend = figure.subfigs[0].legends[0].get_window_extent()
        title = figure._suptitle.get_window_extent()
        assert legend.y1 <= title.y0


def test_only_an_analysis():
    mdp = ic.examples.coin()
    with pytest.raises(TypeError, match="not a Credit"):
        plot(ic.credit(mdp, ic.policies.uniform(mdp), horizon=1))


def test_no_pyplot_and_a_hint_without_matplotlib():
    code = """
import sys, icexact as ic
from icexact.plot import plot
m = ic.examples.two_arms()
a = ic.analyze(m, ic.policies.uniform(m), horizon=1)
assert 'matplotlib' not in sys.modules
plot(a)
assert 'matplotlib.pyplot' not in sys.modules
for name in [n for n in sys.modules if n.startswith('matplotlib')]:
    del sys.modules[name]
sys.modules['matplotlib'] = None
try:
    plot(a)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install icexact[plot]" in done.stdout
