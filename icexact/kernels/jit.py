"""The one way in which a kernel is compiled, and where its machine code is kept.

`contract` (fused multiply-add) is the only liberty taken in general; `reassoc` is given to single sums whose bound holds for
any order. Numba's own disk cache looks at one file's date, so it goes stale when a helper in another file changes and two
processes can write one index. Here a compiled kernel is a file of its own, named by a hash of every kernel source, the versions, the
processor and the signature: never stale, written by rename, and simply not used where nothing can be written.

`ICEXACT_CACHE_DIR` moves the folder; `ICEXACT_CACHE_DIR=` (empty) switches it off.
"""

import hashlib
import os
import pickle
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core.compiler import CompileResult


@cache
def _stamp():
    """What every file name carries: the kernels' sources and the compiler that turned them into code."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name in ("OPT", "BOUNDSCHECK", "CPU_NAME", "CPU_FEATURES", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ERROR_MODEL"):
        digest.update(f"{name}={getattr(numba.config, name, None)}".encode())
    return digest


@cache
def folder():
    """The folder of compiled kernels, private to this user; None where none can be had."""
    wished = os.environ.get("ICEXACT_CACHE_DIR")
    if wished is not None:
        candidates = [Path(wished)] if wished else []
    else:
        try:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        except RuntimeError:  # a user without a home, as in a container
            home = None
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        candidates = ([Path(home) / "icexact"] if home is not None else []) + [Path(tempfile.gettempdir()) / f"icexact-{user}"]
    for path in candidates:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = path.stat()
            # compiled code is run as it is read: a folder that somebody else can write to is not ours to trust
            if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
                continue
            with tempfile.TemporaryFile(dir=path):
                return path
        except (OSError, RuntimeError):
            continue
    return None


class _KernelCache:
    """One file a kernel and signature; stands where Numba keeps its own cache object."""

    def __init__(self, function):
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    cache_path = property(lambda self: str(folder()))

    def enable(self):
        pass

    def disable(self):
        pass

    def flush(self):
        pass

    def _path(self, signature, codegen):
        digest = _stamp().copy()
        digest.update(repr((str(signature), codegen.magic_tuple(), self._name)).encode())
        return folder() / f"{self._name}-{digest.hexdigest()[:32]}.nbc"

    def load_overload(self, signature, context):
        if folder() is None:
            return None
        context.refresh()
        try:
            data = self._path(signature, context.codegen()).read_bytes()
            digest, payload = data[:32], data[32:]
            if hashlib.sha256(payload).digest() != digest:
                return None
            return CompileResult._rebuild(context, *pickle.loads(payload))
        except Exception:  # a missing, cut or foreign file only costs a compilation
            return None

    def save_overload(self, signature, compiled):
        if folder() is None or compiled.lifted or compiled.library.has_dynamic_globals:
            return
        try:
            path = self._path(signature, compiled.codegen)
            payload = pickle.dumps(compiled._reduce())
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, path)
        except Exception:  # a full or read-only disk must not stop the computation
            return


def kernel(function):
    """Compile a loop at its first call: nogil, IEEE division, no liberty but fused multiply-add."""
    return _compiled(function, {"contract"})


def inlined(function):
    """A helper that is pasted into its callers: an array passed on costs some ten words a call, which a short row would feel."""
    return _compiled(function, {"contract"}, forceinline=True)


def inlined_sum(function):
    """The same, with sums in any order, so that they vectorise: only where the bound holds for every order of addition."""
    return _compiled(function, {"contract", "reassoc"}, forceinline=True)


def _compiled(function, fastmath, **more):
    # _nrt=False: no reference counts, which were two thirds of the time on short rows; so a kernel may not allocate
    compiled = numba.njit(nogil=True, fastmath=fastmath, error_model="numpy", _nrt=False, **more)(function)
    ours = Path(function.__code__.co_filename).parent == Path(__file__).parent  # the stamp speaks for these sources only
    if ours and hasattr(compiled, "_cache"):  # absent with NUMBA_DISABLE_JIT=1
        compiled._cache = _KernelCache(function)
    return compiled
