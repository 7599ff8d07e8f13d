"""flyrun new: packages that pass their tests as they are written, and tests that notice a fault."""

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest

from flyrun.cli.main import main
from tests.plugins.test_plugins import install


def written(folder, kind, *words):
    """The folder of a new package, `mine`, with what pip would leave in it."""
    assert main(["new", kind, "mine", "--folder", str(folder), *words]) == 0
    package = folder / "flyrun-mine"
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    points = [
        f"{group.removeprefix('flyrun.')}: {name} = {value}"
        for group, named in project["entry-points"].items()
        for name, value in named.items()
    ]
    install(package, *points, package=project["name"])
    return package


def own_tests(package):
    """What its own tests say."""
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(words, cwd=package, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        pytest.param("sampler", [], marks=pytest.mark.slow),
        pytest.param("sampler", ["--jax"], marks=pytest.mark.slow),
        pytest.param("likelihood", [], marks=pytest.mark.slow),
        pytest.param("dataset", [], marks=pytest.mark.thorough),
        pytest.param("section", [], marks=pytest.mark.thorough),
    ],
)
def test_it_passes_as_it_is_written(tmp_path, kind, words):
    if words and find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = own_tests(written(tmp_path, kind, *words))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        pytest.param("sampler", "+ way / (2 * size**2)", "", marks=pytest.mark.slow),
        pytest.param("likelihood", "1.0 - np.tanh", "0.8 - np.tanh", marks=pytest.mark.slow),
        pytest.param("dataset", "[VERSION, config.settings()]", "[VERSION]", marks=pytest.mark.thorough),
        pytest.param("section", "queries.max()", "queries.mean()", marks=pytest.mark.thorough),
    ],
)
def test_its_tests_notice_a_fault(tmp_path, kind, old, new):
    package = written(tmp_path, kind)
    module = package / "flyrun_mine/__init__.py"
    assert module.read_text().count(old) == 1
    module.write_text(module.read_text().replace(old, new))
    assert own_tests(package).returncode == 1


@pytest.mark.parametrize("kind", ["sampler", "likelihood", "dataset", "section"])
def test_it_is_whole(tmp_path, capsys, kind):
    """Nothing is left to fill in, the workflow proves and checks, and what to type next is printed."""
    package = written(tmp_path, kind)
    files = [path for path in package.rglob("*") if path.is_file()]
    texts = {path.relative_to(package).as_posix(): path.read_text() for path in files}
    assert not [name for name, text in texts.items() if "{{" in text]
    workflow = texts[".github/workflows/test.yml"]
    assert ("flyrun prove " in workflow) == (kind in ("sampler", "likelihood"))
    assert "flyrun check compare_mine" in workflow
    assert "nuts_numpyro" in texts["flyrun_mine/experiment/compare_mine_peers.yaml"]
    assert "flyrun check compare_mine --update" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["sampler", "hmc"], "new sampler hmc: is the name of another sampler or experiment"),
        (["dataset", "toy_2d"], "is the name of another dataset or experiment"),
        (["sampler", "My-Walk"], "must be small letters, digits and _, such as my_sampler"),
        (["sampler", "class"], "must be small letters, digits and _"),
        (["section", "mine", "--jax"], "--jax is for a sampler; drop it"),
        (["model", "mine"], "must be sampler, likelihood, dataset or section"),
        (["sampler"], "NAME is missing"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, capsys, words, text):
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "dataset", "mine"]) == 0
    assert main(["new", "dataset", "mine"]) == 2
    assert "flyrun-mine: is there already" in capsys.readouterr().err
