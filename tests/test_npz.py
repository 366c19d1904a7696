"""Saving and loading: equal to the last bit, no pickle, and a sentence for every bad file."""

import io
import json
import os
import pickle
import stat
import zipfile
from dataclasses import fields, is_dataclass
from fractions import Fraction

import numpy as np
import pytest

import icexact as ic
from icexact.errors import ModelError
from icexact.io import npz
from icexact.results import Bounded
from icexact.returns import Law


def thirds():
    """Exact rewards that floats do not tell apart, names, an unavailable action, a source with everything in it."""
    tiny = Fraction(1, 3) + Fraction(1, 10**40)
    source = {
        "name": "thirds",
        "grid": [1, 2],
        "a.b": {"deep": (1, None, True, 2.5)},
        "far": float("inf"),
        "big": 1 << 100,
        "numpy": np.int32(7),
        "array": np.arange(3),
    }
    return ic.MDP.from_branches(
        [0, 0, 0, 1], [0, 0, 2, 1], ["1/3", "2/3", "1", "1"], [1, 0, 1, 0], [Fraction(1, 3), tiny, "-0.1", 1 << 70], [False, False, True, False],
        n_states=2, initial=0, state_names=("início", "end"), action_names="abc", source=source,
    )  # fmt: skip


def lake():
    return ic.examples.gridworld(3, slip="1/5")


def of(make, call, **kwargs):
    mdp = make()
    return call(mdp, ic.policies.uniform(mdp), **kwargs)


CASES = {
    "model": lake,
    "model with exact rewards": thirds,
    "garnet": lambda: ic.examples.garnet(30, 3, 4, rewards=(0.1, 0.25), seed=3),
    "occupancy": lambda: of(lake, ic.occupancy, horizon=4),
    "occupancy without horizon": lambda: of(lake, ic.occupancy),
    "law on the lattice": lambda: of(lake, ic.return_law, horizon=4, keep="all"),
    "law of first step": lambda: of(lake, ic.return_law, horizon=4),
    "law on keys": lambda: of(lake, ic.return_law, horizon=4, discount="9/10", keep="all"),
    "law on wide keys": lambda: of(thirds, ic.return_law, horizon=5, discount="9/10", keep="all"),
    "law of no steps": lambda: of(lake, ic.return_law, horizon=0),
    "sparsity": lambda: of(lake, ic.information_sparsity, horizon=3, base=2),
    "sparsity per pair": lambda: of(lake, ic.information_sparsity, horizon=3, per_pair=True),
    "credit": lambda: of(lake, ic.credit, horizon=4),
    "credit with laws": lambda: of(lake, ic.credit, horizon=3, discount=0.5, keep="all"),
    "credit of no steps": lambda: of(lake, ic.credit, horizon=0),
    "hindsight": lambda: of(lake, ic.hindsight, horizon=3),
    "analysis": lambda: of(lake, ic.analyze, horizon=5, base=2, discount="9/10"),
    "analysis of no steps": lambda: of(lake, ic.analyze, horizon=0),
}


@pytest.fixture(scope="module")
def objects():
    made = {}
    return lambda case: made.setdefault(case, CASES[case]()) if case not in made else made[case]


def assert_equal(a, b, at=""):
    assert type(a) is type(b), at
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, at
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), at
    elif isinstance(a, Bounded):
        assert_equal(a.value, b.value, at + ".value")
        assert_equal(a.error, b.error, at + ".error")
    elif is_dataclass(a):
        for f in fields(a):
            assert_equal(getattr(a, f.name), getattr(b, f.name), f"{at}.{f.name}")
    elif isinstance(a, dict):
        assert list(a) == list(b), at
        for k in a:
            assert_equal(a[k], b[k], f"{at}[{k!r}]")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), at
        for i, (x, y) in enumerate(zip(a, b)):
            assert_equal(x, y, f"{at}[{i}]")
    else:
        assert a == b, at


@pytest.mark.parametrize("case", CASES)
def test_loads_back_equal(case, objects, tmp_path):
    x = objects(case)
    npz.save(x, tmp_path / "x.npz")
    y = ic.load(tmp_path / "x.npz")
    assert_equal(x, y)
    assert repr(x) == repr(y)
    if hasattr(x, "to_dict"):
        assert json.dumps(x.to_dict()) == json.dumps(y.to_dict())
    npz.save(y, tmp_path / "y.npz")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_pickles_equal(case, objects):
    x = objects(case)
    y = pickle.loads(pickle.dumps(x))
    assert_equal(x, y)
    assert repr(x) == repr(y)


def test_bounded_pickles():
    x = Bounded.relative(np.array([1.0, -2.0]), 1e-15)
    assert_equal(x, pickle.loads(pickle.dumps(x)))


def test_a_loaded_model_gives_the_same_answers(tmp_path):
    mdp = thirds()
    mdp.save(tmp_path / "m.npz")
    again = ic.load(str(tmp_path / "m.npz"))
    assert again.hash == mdp.hash and again.rewards.values == mdp.rewards.values
    assert not again.probability.flags.writeable
    for call in (ic.credit, ic.analyze):
        assert_equal(call(mdp, ic.policies.uniform(mdp), horizon=3), call(again, ic.policies.uniform(again), horizon=3))


def test_loaded_laws_answer_questions(objects, tmp_path):
    for case in ("law on the lattice", "law on keys"):
        x = objects(case)
        npz.save(x, tmp_path / "x.npz")
        y = ic.load(tmp_path / "x.npz")
        assert_equal(x.law(), y.law())
        assert_equal(x.state_law(2, 4), y.state_law(2, 4))
        assert_equal(x.pair_law(1, 4, 2), y.pair_law(1, 4, 2))
        assert x.exact_values() == y.exact_values()
    for case, ask in (("hindsight", lambda r: r.law(0, 5)), ("occupancy", lambda r: r.pair)):
        x = objects(case)
        npz.save(x, tmp_path / "x.npz")
        assert_equal(ask(x), ask(ic.load(tmp_path / "x.npz")))


def test_relative_errors_stay_factors(objects, tmp_path):
    x = objects("occupancy")
    npz.save(x, tmp_path / "x.npz")
    assert x.state.factor is not None
    assert_equal(x.state.factor, ic.load(tmp_path / "x.npz").state.factor)


def test_what_is_shared_is_written_once(objects, tmp_path):
    x = objects("analysis")
    x.save(tmp_path / "x.npz")
    y = ic.load(tmp_path / "x.npz")
    assert y.return_law is y.credit.return_law and y.credit.proposition_2.left is y.credit.total


def test_numpy_reads_it_without_pickle(objects, tmp_path):
    x = objects("analysis")
    x.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as data:
        assert (data["credit.skill.value"] == x.credit.skill.value).all()
        header = json.loads(data["header.json"], parse_constant=lambda token: pytest.fail(token))
    assert header["icexact"] == ic.__version__ and header["format"] == npz.FORMAT


def test_wide_keys_are_exact(objects):
    x = objects("law on wide keys")
    tables = [laws.table for laws in x._steps.values()]
    assert any(t.dtype == object for t in tables)
    for table in tables:
        rows = npz._bytes_of(table.astype(object), "t")
        assert npz._integers_of(rows).tolist() == table.tolist()
    far = np.array([0, -1, 1, 127, 128, -128, -129, 10**6000, -(10**6000)], dtype=object)
    assert npz._integers_of(npz._bytes_of(far, "t")).tolist() == far.tolist()


# where the file goes


def test_writes_exactly_the_path_given(tmp_path):
    lake().save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    assert isinstance(ic.load(tmp_path / "model"), ic.MDP)


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.npz"
    lake().save(path)
    before = path.read_bytes()

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", stop)
    with pytest.raises(KeyboardInterrupt):
        thirds().save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m.npz"]


def test_a_link_is_written_through_and_the_mask_respected(tmp_path):
    (tmp_path / "link.npz").symlink_to(tmp_path / "m.npz")
    old = os.umask(0o027)
    try:
        lake().save(tmp_path / "link.npz")
    finally:
        os.umask(old)
    assert (tmp_path / "link.npz").is_symlink() and stat.S_IMODE((tmp_path / "m.npz").stat().st_mode) == 0o640


def test_no_folder_no_device_is_replaced(tmp_path):
    with pytest.raises(OSError):
        lake().save(tmp_path / "none" / "m.npz")
    for path in (tmp_path, os.devnull):
        with pytest.raises(OSError, match="is not a file"):
            lake().save(path)
    assert not os.path.isfile(os.devnull)


def test_only_models_and_results(tmp_path):
    for x in (42, np.zeros(3), Bounded(1.0, 0.0), None):
        with pytest.raises(TypeError, match="only models"):
            npz.save(x, tmp_path / "x.npz")
    for odd in (object(), {1, 2}, np.array(["x", None], dtype=object)):
        mdp = ic.MDP.from_branches([0], [0], [1], [0], [0], [True], n_states=1, initial=0, source={"odd": odd})
        with pytest.raises(ValueError, match="source.odd"):
            mdp.save(tmp_path / "x.npz")
    assert os.listdir(tmp_path) == []


# bad files


def refused(path, match):
    with pytest.raises(ModelError, match=match) as caught:
        ic.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_archive(tmp_path):
    for name, data in (("empty", b""), ("text", b"hello"), ("array", None)):
        path = tmp_path / name
        if data is None:
            with open(path, "wb") as file:
                np.save(file, np.zeros(3))
        else:
            path.write_bytes(data)
        refused(path, "is not an .npz file of icexact")
    with pytest.raises(FileNotFoundError):
        ic.load(tmp_path / "none.npz")


def test_a_foreign_archive(tmp_path):
    np.savez(tmp_path / "x.npz", transitions=np.zeros(3))
    refused(tmp_path / "x.npz", "MDP.from_arrays")
    rewritten(tmp_path / "y.npz", {"header.json": b'{"format": 1}'})
    refused(tmp_path / "y.npz", "MDP.from_arrays")
    rewritten(tmp_path / "y.npz", {"header.json": b"{"})
    refused(tmp_path / "y.npz", "header")


def test_every_cut_is_refused(tmp_path):
    lake().save(tmp_path / "m.npz")
    data = (tmp_path / "m.npz").read_bytes()
    for size in [1, 2, 30, *range(100, len(data), 97), len(data) - 1]:
        (tmp_path / "cut.npz").write_bytes(data[:size])
        refused(tmp_path / "cut.npz", "cut off or damaged|is not an .npz file")


def test_every_flipped_byte_is_refused_or_harmless(tmp_path):
    mdp = lake()
    mdp.save(tmp_path / "m.npz")
    data = bytearray((tmp_path / "m.npz").read_bytes())
    for at in range(0, len(data), 41):
        data[at] ^= 0x5A
        (tmp_path / "bad.npz").write_bytes(data)
        data[at] ^= 0x5A
        try:
            assert_equal(ic.load(tmp_path / "bad.npz"), mdp)  # a byte that says nothing, such as a file mode
        except ModelError as error:
            assert "\n" not in str(error)


def rewritten(path, parts, source=None):
    """An archive from another one, with some members replaced (None: left out)."""
    members = {}
    if source is not None:
        with zipfile.ZipFile(source) as file:
            members = {name: file.read(name) for name in file.namelist()}
    members |= parts
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            if data is not None:
                file.writestr(name, data)


def as_npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_a_newer_format_says_upgrade(tmp_path):
    lake().save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as file:
        header = json.loads(file.read("header.json"))
    rewritten(tmp_path / "new.npz", {"header.json": json.dumps(header | {"format": npz.FORMAT + 1, "icexact": "9.9"})}, tmp_path / "m.npz")
    refused(tmp_path / "new.npz", "icexact 9.9 in format 2.*upgrade")


@pytest.mark.parametrize("change", [
    lambda c: c | {"class": "Popen"},
    lambda c: c | {"class": "Law", "fields": {}},
    lambda c: {"class": "Bounded", "fields": {"value": {"array": "reward"}, "error": {"array": "reward"}}},
    lambda c: c | {"fields": {k: v for k, v in c["fields"].items() if k != "ends"}},
    lambda c: c | {"fields": c["fields"] | {"extra": 1}},
    lambda c: c | {"fields": c["fields"] | {"n_actions": "four"}},
    lambda c: c | {"fields": c["fields"] | {"ends": {"same": "nowhere"}}},
    lambda c: c | {"fields": c["fields"] | {"ends": {"pickle": "x"}}},
    lambda c: c | {"fields": c["fields"] | {"ends": {"array": "none"}}},
    lambda c: 7,
])  # fmt: skip
def test_a_header_that_lies(change, tmp_path):
    lake().save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as file:
        header = json.loads(file.read("header.json"))
    rewritten(tmp_path / "bad.npz", {"header.json": json.dumps(header | {"content": change(header["content"])})}, tmp_path / "m.npz")
    refused(tmp_path / "bad.npz", "is damaged")


def moved(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


@pytest.mark.parametrize("name, change", [
    ("next_state", moved(0, 10**9)),
    ("next_state", moved(0, -1)),
    ("next_state", lambda a: a.astype(np.int32)),
    ("pair_ptr", moved(1, 10**9)),
    ("branch_ptr", moved(-1, 10**9)),
    ("branch_ptr", lambda a: a[::-1]),
    ("pair_action", moved(0, 4)),
    ("probability", moved(0, 0.5)),
    ("probability", moved(0, np.nan)),
    ("probability", lambda a: a[:-1]),
    ("initial", moved(0, 0.0)),
    ("reward", moved(0, np.inf)),
    ("ends", lambda a: a.astype(object)),
    ("pair_rounding", lambda a: a[:-1]),
])  # fmt: skip
def test_arrays_that_would_lead_kernels_astray(name, change, tmp_path):
    mdp = lake()
    mdp.save(tmp_path / "m.npz")
    rewritten(tmp_path / "bad.npz", {f"{name}.npy": as_npy(change(getattr(mdp, name)))}, tmp_path / "m.npz")
    refused(tmp_path / "bad.npz", "is damaged")


def test_law_is_a_tuple_of_its_own(objects, tmp_path):
    x = objects("analysis")
    x.save(tmp_path / "x.npz")
    assert type(ic.load(tmp_path / "x.npz").return_law) is Law
