"""Compiled code is found where nothing that it is made of was edited, and a spoilt cache is only a miss."""

import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import NumbaWarning

from flyrun.ground.numerics import compile_cache
from flyrun.ground.numerics.compiled import generic, implements, jit


class Doubles(NamedTuple):
    """A type with an implementation of its own."""

    factor: float


@generic
def scaled(kind, value):
    """value, times what the type says."""


implements(scaled, Doubles)(lambda kind, value: kind.factor * value)


def _plus_one(kind, values):
    total = 0.0
    for value in values:
        total += scaled(kind, value) + 1.0
    return total


def compiled():
    """Anew, as another process would have it: (what it returns, hits, misses)."""
    function = jit(_plus_one)
    found = function(Doubles(2.0), np.arange(3.0))
    return found, sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setattr(compile_cache, "folder", lambda: tmp_path / "code")
    for known in (compile_cache._digest, compile_cache._say_once, compile_cache._remove_unused):
        known.cache_clear()
    yield tmp_path / "code"
    compile_cache._digest.cache_clear()


def test_it_is_compiled_once(folder):
    assert compiled() == (9.0, 0, 1)
    assert compiled() == (9.0, 1, 0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(b"\0" * 4000),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["emptied", "truncated", "zeroed", "a folder"],
)
def test_a_damaged_cache_is_a_miss(folder, spoil):
    """The kind: a cache that is wrong is a miss, not an error."""
    compiled()
    (path,) = folder.iterdir()
    spoil(path)
    assert compiled() == (9.0, 0, 1)


@pytest.mark.thorough
def test_another_function_of_the_same_name_is_a_miss(folder, monkeypatch):
    compiled()
    monkeypatch.setattr(compile_cache.CompileCache, "_index_key", lambda self, sig, codegen: ((), 0, 0))
    (path,) = folder.iterdir()
    other = jit(_plus_one)
    path.rename(other._cache._path(((), 0, 0)))  # as if digests met
    assert other(Doubles(2.0), np.arange(3.0)) == 9.0
    assert not other.stats.cache_hits


def test_a_disk_that_takes_nothing_is_said_once_by_its_own_name(folder, monkeypatch, capsys):
    """The kind: a full or read-only cache disk costs time, and is not taken for that of the results."""

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compile_cache.files, "write_bytes", full)
    assert compiled() == compiled() == (9.0, 0, 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert str(folder) in line
    assert "No space left on device" in line
    assert "export FLYRUN_CACHE=" in line


def test_a_function_that_cannot_be_kept_runs_and_says_so(folder):
    large = np.ones(200_000)  # which numba takes by its address

    def summed(place):
        return large[place] + 1.0

    with pytest.warns(NumbaWarning, match='Cannot cache compiled function "summed"'):
        assert jit(summed)(3) == 2.0
    assert not folder.exists()


def test_what_was_not_used_for_long_is_removed(folder):
    folder.mkdir()
    (folder / "old").touch()
    os.utime(folder / "old", (0, 0))
    compiled()
    compile_cache._remove_unused.cache_clear()
    compile_cache._remove_unused()
    assert len(list(folder.iterdir())) == 1


COMPILED = """
import sys
from pathlib import Path
from numba.core import dispatcher
from flyrun.experiments.config import compose
from flyrun.ground.numerics import compile_cache, code_digest
from flyrun.experiments.samplers.method import prepare

made, paths = set(), []
compile_core = dispatcher._FunctionCompiler._compile_core
path = compile_cache.CompileCache._path

def recorded(self, args, kind):
    made.add(sys.modules[self.py_func.__module__].__file__)
    return compile_core(self, args, kind)

def seen(self, key):
    paths.append({("", self._py_func.__module__)}.union(*map(compile_cache._modules, key[0])))
    return path(self, key)

dispatcher._FunctionCompiler._compile_core = recorded
compile_cache.CompileCache._path = seen
keyed = set()
digest = code_digest.digest
code_digest.digest = lambda files, root: keyed.update(map(str, files := list(files))) or digest(files, root)
(arm,) = compose.compose_job(sys.argv[2:]).arms
method = prepare(arm, Path(sys.argv[1]))
paths.clear(), made.clear(), keyed.clear()
method.warm_up()
compile_cache._digest.cache_clear()
compile_cache._digest(frozenset(paths[0]))  # of the outermost function, for which all is compiled
print(len(made), *sorted(file for file in made - keyed if "flyrun" in file))
"""

CHAIN = ["dataset=toy_2d", "protocol=smoke", "protocol.seeds=1"]


GRAPH = ["experiment=potts_mgpmh", "only=mgpmh_1", "protocol=smoke"]
MANY = [
    [*CHAIN, "model=logistic", "bound=local", "brightness=per_datum", "sampler=hmc"],
    [*CHAIN, "model=probit", "prior=laplace", "bound=map", "sampler=slice"],
    [*CHAIN, "model=logistic", "bound=none", "sampler=pcn", "acceptance=mh_ss"],
    [*CHAIN, "model=logistic", "bound=none", "sampler=zigzag", "protocol.init=map"],
    ["experiment=ising_min_gibbs", "only=gibbs", "protocol=smoke"],
]


def left_out(words, folder, before=""):
    """Files that hold what was compiled, and are not in the key."""
    environment = {**os.environ, "FLYRUN_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", before + COMPILED, str(folder), *words],
        env=environment, capture_output=True, text=True, timeout=300, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, *found = done.stdout.split()
    assert int(count) > 1
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words", [GRAPH, *(pytest.param(words, marks=pytest.mark.slow) for words in MANY)], ids=" ".join
)
def test_the_key_holds_every_module_that_is_compiled(words, tmp_path):
    """Else an edit of one that is left out would go unnoticed."""
    assert not left_out(words, tmp_path)


@pytest.mark.slow
def test_a_key_without_implementations_leaves_some_out(tmp_path):
    """The negative control."""
    forgotten = (
        "from flyrun.ground.numerics import compile_cache\ncompile_cache._modules = lambda kind: set()\n"
    )
    assert left_out(GRAPH, tmp_path, forgotten)
