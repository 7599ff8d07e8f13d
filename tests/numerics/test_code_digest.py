"""What outdates a stored cell: an edit of what it depends on, and no other."""

import functools
import shutil
from types import SimpleNamespace

import numba
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.chain import loop, random_walk
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.ground.numerics import code_digest, compile_cache
from tests.exactness.chains import full_target, toy

CHAIN = ["experiment=mnist_logreg", "only=map_tuned"]
ARMS = {
    "walk": CHAIN,
    "hmc": [*CHAIN, "sampler=hmc"],
    "softmax": ["experiment=cifar_softmax", "only=map_tuned"],
    "gibbs": ["experiment=potts_mgpmh", "only=gibbs"],
    "mgpmh": ["experiment=potts_mgpmh", "only=mgpmh_1"],
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of flyrun to edit."""
    folder = tmp_path_factory.mktemp("edited") / "flyrun"
    return shutil.copytree(code_digest.PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture
def package(copy, monkeypatch):
    """The copy, in place of the package."""
    monkeypatch.setattr(code_digest, "PACKAGE", copy)
    yield copy
    code_digest._file.cache_clear()


@functools.cache
def code(name):
    """Names of the modules that an arm's draws depend on."""
    return compose_job(ARMS[name]).arms[0].code()


def digests():
    code_digest._file.cache_clear()
    return {name: code_digest.of_modules(code(name)) for name in ARMS}


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize(
    ("file", "outdated"),
    [
        ("experiments/samplers/chain/hmc.py", {"hmc"}),
        ("experiments/samplers/chain/loop.py", {"walk", "hmc", "softmax"}),
        ("experiments/samplers/gibbs/mgpmh.py", {"mgpmh"}),
        ("experiments/samplers/gibbs/loop.py", {"gibbs", "mgpmh"}),
        ("experiments/models/softmax.py", {"softmax"}),
        ("experiments/models/passes.py", {"walk", "hmc", "softmax"}),
        ("experiments/data/mnist_7v9.py", {"walk", "hmc"}),
        ("ground/numerics/state.py", set(ARMS)),
        ("experiments/samplers/method.py", set(ARMS)),
        ("experiments/runner/chunks.py", set()),
        ("experiments/config/sampler/chain.py", set()),
        ("experiments/report/build.py", set()),
    ],
)
def test_an_edit_outdates_what_depends_on_it(package, file, outdated):
    before, text = digests(), (package / file).read_text("utf-8")
    (package / file).write_text(text + "# another line\n", "utf-8")
    after = digests()
    (package / file).write_text(text, "utf-8")
    assert {name for name in ARMS if after[name] != before[name]} == outdated


@pytest.mark.parametrize(
    ("file", "misses"),
    [
        ("experiments/samplers/topics/lda_svi.py", False),
        ("experiments/samplers/chain/hmc.py", False),
        ("experiments/models/logistic.py", True),
    ],
)
def test_an_edit_of_one_family_compiles_nothing_of_another(package, file, misses):
    """Where the compiled loop is kept, of a random walk on a logistic regression."""
    settings = SimpleNamespace(target_accept=0.3, step=None)
    parts = full_target(toy()), random_walk.build(settings, 2), NoBrightness()
    key = tuple(map(numba.typeof, parts)), "machine", "bytecode"

    def place():
        code_digest._file.cache_clear()
        compile_cache._digest.cache_clear()
        return loop._run._cache._path(key)

    before, text = place(), (package / file).read_text("utf-8")
    (package / file).write_text(text + "# another line\n", "utf-8")
    after = place()
    (package / file).write_text(text, "utf-8")
    compile_cache._digest.cache_clear()
    assert (after != before) == misses


@pytest.mark.parametrize(
    ("line", "outdates"),
    [
        ('"""What people read."""', False),
        ('"""Of several\nlines.\n\nAnd more."""', False),
        ('"""What people read."""; a = 1', True),
        ('f"""What is worked out {a}."""', True),
        ('a = """A text that is used."""', True),
        ("pass  # no docstring", True),
    ],
)
@pytest.mark.parametrize(
    "module", ["{}\nb = 2\n", "def f():\n    {}\n", "class A:\n    async def f(self):\n        {}\n"]
)
def test_an_edit_of_a_docstring_outdates_nothing(tmp_path, module, line, outdates):
    file, found = tmp_path / "module.py", []
    for text in ('"""Before."""', line):
        file.write_text(module.format(text))
        found.append(code_digest.digest([file], tmp_path))
    assert (found[0] != found[1]) == outdates


def test_a_new_file_outdates_nothing(package):
    before, new = digests(), package / "experiments/samplers/chain/another.py"
    new.write_text('"""A new update."""\n')
    after = digests()
    new.unlink()
    assert after == before


def test_what_files_import_is_kept_by_their_content_and_a_spoilt_note_is_made_anew(tmp_path, monkeypatch):
    def of_another_process():
        code_digest._read.cache_clear()
        code_digest._known.cache_clear()
        return code_digest.of_modules(["flyrun.experiments.models.logistic"])

    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    found = of_another_process()
    (note,) = tmp_path.glob("sources/*")
    monkeypatch.setattr(code_digest, "_imports", lambda _: pytest.fail("parsed again"))
    assert of_another_process() == found
    monkeypatch.undo()
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    note.write_text("{")
    assert of_another_process() == found


def test_bodies_count_where_what_calls_them_does():
    """Else another process, which has imported more, would compile all of a type again."""
    logistic, body = ["flyrun.experiments.models.logistic"], "flyrun.experiments.samplers.topics.lda_svi"
    found = code_digest.of_modules(logistic)
    assert code_digest.of_modules(logistic, [("flyrun.experiments.samplers.chain.loop", body)]) == found
    assert code_digest.of_modules(logistic, [("flyrun.ground.numerics.compiled", body)]) != found
