"""Models and results as `.npz` files: arrays under dotted names beside one JSON header, no pickle.

`numpy.load` opens such a file too: "credit.skill.value" is an array, "header.json" the text that says what the arrays belong to. The walk goes over
the fields of the dataclasses listed in `_CLASSES`, and what it meets twice is written once. Equal objects give equal bytes: the file holds no date.
"""

import io
import json
import math
import os
import struct
import zipfile
import zlib
from dataclasses import MISSING, fields
from fractions import Fraction

import numpy as np

from icexact._version import __version__
from icexact.analyze import Analysis
from icexact.credit import ByState, Credit, Proposition, Variance
from icexact.directed import DirectedInformation
from icexact.episode import EpisodeReturn
from icexact.errors import ModelError
from icexact.hindsight import Hindsight, StateHindsight
from icexact.laws import Laws
from icexact.mdp import MDP, RewardTable
from icexact.occupancy import Occupancy
from icexact.policies import Policy
from icexact.propositions import Identity
from icexact.results import Bounded, Result
from icexact.returns import Law, ReturnLaw
from icexact.sequences import SequenceEntropy
from icexact.sparsity import InformationSparsity
from icexact.support import KeyPlan, LatticePlan

FORMAT = 1  #: raised when an older icexact could not read what is written
HEADER = "header.json"
_CLASSES = {
    c.__name__: c
    for c in (
        Analysis,
        ByState,
        Credit,
        DirectedInformation,
        EpisodeReturn,
        Hindsight,
        Identity,
        InformationSparsity,
        KeyPlan,
        LatticePlan,
        Laws,
        MDP,
        Occupancy,
        Policy,
        Proposition,
        ReturnLaw,
        RewardTable,
        SequenceEntropy,
        StateHindsight,
        Variance,
    )
}
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    IndexError,
    AttributeError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    RuntimeError,
)


def save(obj, path):
    """Write a model or a result to exactly `path` (nothing is appended). The file appears whole or not at all.

    TypeError for anything else, ValueError where `source` holds what a file cannot, OSError where nothing can be written.

    >>> import icexact as ic, tempfile, os
    >>> mdp = ic.examples.umbrella(3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mdp.save(os.path.join(folder, "umbrella.npz"))
    ...     ic.load(os.path.join(folder, "umbrella.npz")).hash == mdp.hash
    True
    """
    if not isinstance(obj, (MDP, Result)) or type(obj).__name__ not in _CLASSES:
        raise TypeError(f"a {type(obj).__name__} cannot be saved: only models (MDP) and results can")
    writer = _Writer()
    header = {"icexact": __version__, "format": FORMAT, "content": writer.node(obj, "")}
    text = json.dumps(header, allow_nan=False, ensure_ascii=False, indent=1)
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is not a file: give the path of an .npz file to write")
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with open(temporary, "xb") as file, zipfile.ZipFile(file, "w") as members:
            members.writestr(_member(HEADER), text)
            for name, array in writer.arrays.items():
                with members.open(_member(name + ".npy"), "w", force_zip64=True) as out:
                    np.lib.format.write_array(out, array, allow_pickle=False)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def load(path):
    """Read back what `save` wrote: a model or a result, equal to the one saved, arrays read-only.

    Raises ModelError where the file is no such file, is damaged, or was written by a newer icexact; OSError where it cannot be opened.

    >>> import icexact as ic
    >>> ic.load(ic.__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    icexact.errors.ModelError: ...__init__.py is not an .npz file of icexact
    """
    with open(path, "rb") as file:
        try:
            members = zipfile.ZipFile(file)
        except _DAMAGE as error:
            file.seek(0)
            begun = file.read(2) == b"PK"
            raise ModelError(f"{path} is cut off or damaged: copy or save it again" if begun else f"{path} is not an .npz file of icexact") from error
        with members:
            header = _header(members, path)
            try:
                loaded = _Reader(members).node(header["content"], "")
                if not isinstance(loaded, (MDP, Result)):
                    raise ValueError("no model and no result")
            except _DAMAGE as error:
                raise ModelError(f"{path} is damaged: {_short(error)}; save it again") from error
    return loaded


def _header(members, path):
    foreign = f"{path} is an archive, but not one that icexact wrote: build a model from your arrays with MDP.from_arrays or MDP.from_branches"
    if HEADER not in members.namelist():
        raise ModelError(foreign)
    try:
        header = json.loads(members.read(HEADER))
    except _DAMAGE as error:
        raise ModelError(f"{path} is damaged: its header cannot be read; save it again") from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int) or "icexact" not in header or "content" not in header:
        raise ModelError(foreign)
    if header["format"] > FORMAT:
        raise ModelError(
            f"{path} was written by icexact {header['icexact']} in format {header['format']}; "
            f"this is icexact {__version__}, which reads formats up to {FORMAT}: upgrade icexact"
        )
    return header


def _short(error):
    text = str(error).split("\n")[0]
    return f"{type(error).__name__}{': ' + text if text else ''}"


def _member(name):
    """A zip entry without a date, stored as it is."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    return info


class _Writer:
    """Objects as JSON nodes; arrays are set aside under the dotted path of where they were met first."""

    def __init__(self):
        self.arrays = {}
        self._seen = {}

    def node(self, x, path):
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, np.generic):
            return {"scalar": self._put(np.asarray(x), path)}
        if isinstance(x, int):
            # beyond 64 bits JSON readers differ, and Python itself limits how long a decimal may be
            return x if -(1 << 63) <= x < 1 << 63 else {"int": hex(x)}
        if isinstance(x, float):
            return x if math.isfinite(x) else {"float": repr(x)}
        if isinstance(x, Fraction):
            return {"fraction": str(x)}
        if type(x) is list:
            return [self.node(y, _join(path, i)) for i, y in enumerate(x)]
        if type(x) is tuple:
            return {"tuple": [self.node(y, _join(path, i)) for i, y in enumerate(x)]}
        if type(x) is dict:
            return {"dict": [[self.node(k, path), self.node(v, _join(path, k))] for k, v in x.items()]}
        known = isinstance(x, (np.ndarray, Bounded, Law)) or type(x).__name__ in _CLASSES
        if not known:
            raise ValueError(f"{path or 'the object'} is a {type(x).__name__}, which a file cannot hold: use numbers, text, lists and dictionaries")
        if id(x) in self._seen:
            return {"same": self._seen[id(x)]}
        self._seen[id(x)] = path
        if isinstance(x, np.ndarray):
            if x.dtype == object:
                return {"integers": self._put(_bytes_of(x, path), path)}
            return {"array": self._put(x, path)}
        if isinstance(x, Bounded):
            # the error that is a share of the value is as large as the value only when it is asked for
            parts = {"value": x.value} | ({"error": x.error} if x.factor is None else {"factor": x.factor, "absolute": x.absolute})
        elif isinstance(x, Law):
            parts = x._asdict()
        else:
            parts = {f.name: getattr(x, f.name) for f in fields(x)}
        return {"class": type(x).__name__, "fields": {name: self.node(y, _join(path, name)) for name, y in parts.items()}}

    def _put(self, array, path):
        if array.dtype.kind not in "biufcUS":
            raise ValueError(f"{path or 'the object'} is an array of {array.dtype}, which a file cannot hold")
        self.arrays[path] = array
        return path


class _Reader:
    """The way back."""

    def __init__(self, members):
        self._members = members
        self._made = {}

    def node(self, x, path):
        if isinstance(x, list):
            return [self.node(y, _join(path, i)) for i, y in enumerate(x)]
        if not isinstance(x, dict):
            return x
        if "class" in x:
            made = self._object(x["class"], {name: self.node(y, _join(path, name)) for name, y in x["fields"].items()})
            self._made[path] = made
            return made
        ((tag, content),) = x.items()
        if tag == "tuple":
            return tuple(self.node(y, _join(path, i)) for i, y in enumerate(content))
        if tag == "dict":
            pairs = [(self.node(k, path), v) for k, v in content]
            return {k: self.node(v, _join(path, k)) for k, v in pairs}
        if tag in ("array", "integers"):
            made = self._array(content) if tag == "array" else _integers_of(self._array(content))
            made.setflags(write=False)
            self._made[path] = made
            return made
        simple = {"scalar": lambda c: self._array(c)[()], "int": lambda c: int(c, 16), "float": float, "fraction": Fraction, "same": self._made.__getitem__}
        return simple[tag](content)

    def _array(self, name):
        data = self._members.read(name + ".npy")  # checks the sum over all bytes
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)

    def _object(self, name, parts):
        if name == "Law":
            return Law(**parts)
        if name == "Bounded":
            if "factor" in parts:
                np.broadcast_shapes(parts["value"].shape, np.shape(parts["factor"]), np.shape(parts["absolute"]))
                return Bounded.relative(**parts)
            return Bounded(**parts)
        cls = _CLASSES[name]
        made = cls.__new__(cls)
        unknown = parts.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"{name} has no {', '.join(sorted(unknown))}")
        for f in fields(cls):
            if f.name in parts:
                value = parts[f.name]
            elif f.default is not MISSING:
                value = f.default
            elif f.default_factory is not MISSING:
                value = f.default_factory()
            else:
                raise ValueError(f"{name} lacks {f.name}")
            object.__setattr__(made, f.name, value)
        if cls is MDP:
            _check(made)
        return made


def _join(path, name):
    if isinstance(name, str) and not name.isidentifier():
        name = repr(name)  # a key with a dot in it must not look like a path
    return f"{path}.{name}" if path else str(name)


def _bytes_of(integers, path):
    """Python integers as rows of bytes, two's complement, lowest first: uint8 [.., width]."""
    flat = integers.ravel().tolist()
    if not all(isinstance(n, int) for n in flat):
        raise ValueError(f"{path} is an array of objects that are not all integers, which a file cannot hold")
    width = max((n.bit_length() // 8 + 1 for n in flat), default=1)
    data = b"".join(n.to_bytes(width, "little", signed=True) for n in flat)
    return np.frombuffer(data, dtype=np.uint8).reshape(*integers.shape, width)


def _integers_of(rows):
    out = np.empty(rows.shape[:-1], dtype=object)
    flat = out.reshape(-1)
    for i, row in enumerate(rows.reshape(-1, rows.shape[-1])):
        flat[i] = int.from_bytes(row.tobytes(), "little", signed=True)
    return out


def _check(mdp):
    """The pointers and numbers of a model that was read: kernels look nothing up twice, so a file must not lead them astray."""
    S, K, B = mdp.n_states, mdp.n_pairs, mdp.n_branches
    integers = {"pair_ptr": S + 1, "pair_action": K, "branch_ptr": K + 1, "next_state": B}
    for name, size in integers.items() | {"probability": B, "reward": B, "ends": B, "initial": S}.items():
        array = getattr(mdp, name)
        expected = np.int64 if name in integers else np.bool_ if name == "ends" else np.float64
        if array.shape != (size,) or array.dtype != expected:
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    rises = [(mdp.pair_ptr, K, 0), (mdp.branch_ptr, B, 1)]
    if S < 1 or any(ptr[0] != 0 or ptr[-1] != end or (np.diff(ptr) < least).any() for ptr, end, least in rises):
        raise ValueError("pair_ptr or branch_ptr does not rise from 0 to the end")
    for name, top in (("next_state", S), ("pair_action", mdp.n_actions)):
        array = getattr(mdp, name)
        if array.min() < 0 or array.max() >= top:
            raise ValueError(f"{name} is not in 0..{top - 1}")
    off = np.abs(np.add.reduceat(mdp.probability, mdp.branch_ptr[:-1]) - 1).max()
    if not (mdp.probability > 0).all() or not (mdp.initial >= 0).all() or not max(off, abs(mdp.initial.sum() - 1)) < 1e-9:
        raise ValueError("probabilities do not sum to 1")
    if not np.isfinite(mdp.reward).all() or mdp.pair_rounding.shape != (K,):
        raise ValueError("reward or pair_rounding")
    table = mdp.exact_rewards
    if table is not None and (
        table.index.shape != (B,) or not all(isinstance(v, Fraction) for v in table.values) or table.index.min() < 0 or table.index.max() >= len(table.values)
    ):
        raise ValueError("exact_rewards")
