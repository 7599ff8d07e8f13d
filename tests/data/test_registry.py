from __future__ import annotations

import re

import pytest
import yaml

from flyrun.experiments import data
from flyrun.experiments.data import mnist_7v9, registry
from flyrun.ground import archive, paths
from flyrun.ground.errors import DataError

NAME = "mnist_7v9"


def test_what_is_committed_is_what_is_registered():
    registry.verify(NAME)
    known = registry.describe(NAME)
    assert known["state"] == "verified"
    assert known["bytes"] == len(registry.read(NAME)[0])
    assert known["rows"] == {"train": 12214, "test": 2037}
    assert known["rebuild"] == "flyrun data build mnist_7v9"
    assert known["licence"]
    assert known["source"]


@pytest.mark.thorough
def test_stored_arrays_give_the_stored_file_again():
    content, digest = registry.read(NAME)
    arrays = archive.from_bytes(content, mnist_7v9.ARRAYS, NAME)
    assert archive.sha256(archive.to_bytes(arrays)) == digest


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content + b"\0",
        lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
    ],
)
def test_altered_or_truncated(home, config, spoil):
    path = home / "mnist_7v9.npz"
    path.write_bytes(spoil(path.read_bytes()))
    told = rf"{re.escape(str(path))}: is altered or truncated .*run `flyrun data build mnist_7v9`"
    with pytest.raises(DataError, match=told) as caught:
        registry.verify(NAME)
    assert "\n" not in str(caught.value)
    assert registry.state(NAME) == "altered"
    with pytest.raises(DataError, match=told):
        data.load(config(n_components=1))


@pytest.mark.thorough
def test_a_warm_cache_of_features_does_not_hide_an_altered_file(home, config):
    data.load(config(n_components=1))
    (home / "mnist_7v9.npz").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="altered"):
        data.load(config(n_components=1))


def test_missing(home):
    (home / "mnist_7v9.npz").unlink()
    assert registry.state(NAME) == "missing"
    with pytest.raises(DataError, match=r"mnist_7v9\.npz: is missing; run `flyrun data build mnist_7v9`"):
        registry.verify(NAME)


def test_a_copy_in_the_cache_stands_in_for_a_spoilt_one(home):
    good = (home / "mnist_7v9.npz").read_bytes()
    (home / "mnist_7v9.npz").write_bytes(good[:100])
    (paths.cache_dir("data") / "mnist_7v9.npz").write_bytes(good)
    registry.verify(NAME)


def test_unknown_names_list_the_known():
    for act in (registry.describe, registry.verify, registry.build):
        with pytest.raises(DataError, match=r"'mnist_8v9'; known: .*mnist_7v9"):
            act("mnist_8v9")


@pytest.mark.parametrize("text", ["a: [", "- a", "a: 1", "!!python/object/apply:os.getcwd []"])
def test_a_spoilt_registry_is_one_error(home, text):
    (home / "registry.yaml").write_text(text)
    with pytest.raises(DataError, match=r"registry\.yaml: .*reinstall flyrun") as caught:
        registry.names()
    assert "\n" not in str(caught.value)


@pytest.fixture
def tiny(home, digits, monkeypatch):
    """The registry asks for a tiny file, which `collect` can make; returns its folder."""
    monkeypatch.setattr(mnist_7v9, "collect", lambda echo: digits)
    known = yaml.safe_load((home / "registry.yaml").read_text())
    known[NAME]["sha256"] = archive.sha256(archive.to_bytes(digits))
    (home / "registry.yaml").write_text(yaml.safe_dump(known))
    return home


def test_build_replaces_the_file_and_says_so(tiny):
    said = []
    path = registry.build(NAME, echo=said.append)
    assert path == tiny / "mnist_7v9.npz"
    registry.verify(NAME)
    assert str(path) in said[-1]


def test_build_elsewhere(tiny, tmp_path):
    before = (tiny / "mnist_7v9.npz").read_bytes()
    content = registry.build(NAME, tmp_path / "new" / "own.npz", echo=str).read_bytes()
    assert registry.build(NAME, tmp_path, echo=str) == tmp_path / "mnist_7v9.npz"
    assert (tmp_path / "mnist_7v9.npz").read_bytes() == content
    assert (tiny / "mnist_7v9.npz").read_bytes() == before


def test_build_goes_to_the_cache_when_the_package_is_read_only(tiny, monkeypatch):
    (tiny / "mnist_7v9.npz").write_bytes(b"spoilt")
    monkeypatch.setattr(paths, "writable", lambda folder: folder != tiny)
    path = registry.build(NAME, echo=str)
    assert path.parent == paths.cache_dir("data")
    registry.verify(NAME)


def test_build_writes_nothing_unregistered(tiny, digits):
    before = (tiny / "mnist_7v9.npz").read_bytes()
    digits["train_labels"][0] = 3
    with pytest.raises(DataError, match="not written"):
        registry.build(NAME, echo=str)
    assert (tiny / "mnist_7v9.npz").read_bytes() == before


def test_build_that_cannot_be_written(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        registry.build(NAME, tmp_path / "file" / "own.npz", echo=str)
