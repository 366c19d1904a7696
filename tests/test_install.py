"""How the package behaves where it is installed: a light import, and a compile cache that is never stale, never in the way and never torn."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import icexact

PACKAGE = Path(icexact.__file__).parent
ENTROPY = """
import numpy as np
from icexact.kernels import entropy
print(repr(float(entropy.pivot_entropy(np.array([0.5, 0.25, 0.25]), 0, 3, 1.0))))
"""
EXACT = 1.5 * np.log(2)


def start(code, cache, path=PACKAGE.parent):
    environment = {**os.environ, "PYTHONPATH": str(path), "ICEXACT_CACHE_DIR": str(cache)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert err == ""
    return float(out)


def kernels_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_import_is_light():
    code = "import sys, icexact; print([name for name in ('numba', 'llvmlite', 'scipy', 'matplotlib', 'gymnasium', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
class TestCompileCache:
    def test_a_cache_that_cannot_be_written_is_done_without(self):
        # a folder below a file cannot be made, not even by root
        process, off = start(ENTROPY, "/dev/null/x"), start(ENTROPY, "")
        assert answer(process) == answer(off) == pytest.approx(EXACT, rel=1e-15)

    def test_two_processes_at_once_on_an_empty_cache_then_a_damaged_one(self, tmp_path):
        cache = tmp_path / "cache"
        both = [start(ENTROPY, cache), start(ENTROPY, cache)]
        first, second = map(answer, both)
        assert first == second == pytest.approx(EXACT, rel=1e-15)
        kept = kernels_in(cache)
        assert kept and all(name.endswith(".nbc") for name in kept)  # no half-written file left
        assert answer(start(ENTROPY, cache)) == first
        assert kernels_in(cache) == kept  # found, not compiled again
        for i, (name, data) in enumerate(sorted(kept.items())):
            (cache / name).write_bytes(data[: len(data) // 2] if i % 2 else data[:40] + b"\0" + data[41:])
        assert answer(start(ENTROPY, cache)) == first  # a damaged file only costs a compilation

    def test_a_changed_helper_is_never_served_stale(self, tmp_path):
        """Numba's own cache looks at the one file a kernel stands in; `log` comes into `pivot_entropy` from another."""
        cache, copy = tmp_path / "cache", tmp_path / "lib" / "icexact"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        before = answer(start(ENTROPY, cache, copy.parent))
        assert before == pytest.approx(EXACT, rel=1e-15)
        source = copy / "kernels" / "logarithm.py"
        text = source.read_text()
        line = "    return e * _LN2_HIGH - ("
        assert text.count(line) == 1
        source.write_text(text.replace(line, "    return 2.0 * e * _LN2_HIGH - ("))
        assert answer(start(ENTROPY, cache, copy.parent)) == pytest.approx(2 * EXACT, rel=1e-9)
