from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import Cifar3
from flyrun.experiments.data import cifar, cifar3, patch_codes, registry
from flyrun.ground import archive, sources
from flyrun.ground.errors import ConfigError, DataError

from . import softmax


@pytest.fixture(scope="module")
def held_out():
    return data.load(Cifar3(split="held_out"))


def test_counts(held_out):
    rows = data.load(Cifar3())
    assert rows.features.shape == (18000, 257)
    assert rows.test_features.shape == (0, 257)
    assert np.bincount(rows.target).tolist() == [6000] * 3
    assert held_out.features.shape == (15000, 257)
    assert held_out.test_features.shape == (3000, 257)
    assert np.bincount(held_out.target).tolist() == [5000] * 3
    assert np.bincount(held_out.test_target).tolist() == [1000] * 3
    np.testing.assert_array_equal(rows.features[:15000], held_out.features)
    np.testing.assert_array_equal(rows.features[15000:], held_out.test_features)
    assert rows.n_classes == 3
    assert rows.target.dtype == np.int64
    assert (rows.feature_names[0], rows.feature_names[-2:]) == ("bit1", ("bit256", "bias"))


def test_bits_are_signs_and_the_bias_is_last(held_out):
    assert set(np.unique(held_out.features[:, :-1])) == {-1.0, 1.0}
    assert np.all(held_out.features[:, -1] == 1)
    # Balanced, and far from copies of each other.
    assert np.abs(held_out.features[:, :-1].mean(axis=0)).max() < 0.1
    assert np.linalg.cond(held_out.features.T @ held_out.features) < 30


def test_bits_as_zero_and_one_are_the_same_bits_worse_conditioned(held_out):
    """The same model and data by another coding: the condition number of the features is 100 times larger."""
    coded = data.load(Cifar3(split="held_out", coding="zero_one")).features
    np.testing.assert_array_equal(coded[:, :-1] * 2 - 1, held_out.features[:, :-1])
    np.testing.assert_array_equal(coded[:, -1], held_out.features[:, -1])
    assert np.linalg.cond(coded.T @ coded) > 100 * np.linalg.cond(held_out.features.T @ held_out.features)


@pytest.mark.thorough
def test_the_codes_are_good_features(held_out):
    """MAP softmax on 15,000 / 3,000 at the prior scale that the registry names."""
    with threadpool_limits(1):
        weights = softmax.fit(held_out.features, held_out.target, 3, 0.08)
    assert softmax.accuracy(weights, held_out.test_features, held_out.test_target) >= 0.80
    assert softmax.log_likelihood(weights, held_out.test_features, held_out.test_target) > -0.49


def test_the_file_is_small_and_registered():
    assert registry.verify("cifar3").startswith("verified")
    assert registry.describe("cifar3")["bytes"] == len(registry.read("cifar3")[0]) < 650_000


def test_limit_keeps_the_first_rows(held_out):
    some = data.load(Cifar3(limit=600))
    np.testing.assert_array_equal(some.features, held_out.features[:600])
    with pytest.raises(ConfigError, match=r"dataset\.limit=2: lacks one of the classes; choose \d+ or more"):
        data.load(Cifar3(limit=2))
    with pytest.raises(ConfigError, match=r"dataset\.limit=18001: choose 2 to 18000"):
        data.load(Cifar3(limit=18001))


# --- images, tiny: six batches of 20 rows ---


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """`cifar` asks for six files of 20 random images; returns their contents."""
    rng = np.random.default_rng(5)
    batches = []
    for _ in range(6):
        rows = rng.integers(0, 256, (20, cifar.ROW), dtype=np.uint8)
        rows[:, 0] = np.arange(20) % 10
        batches.append(rows.tobytes())
    names = [name for name, _ in cifar.BATCHES]
    md5 = [hashlib.md5(content).hexdigest() for content in batches]
    monkeypatch.setattr(cifar, "BATCHES", tuple(zip(names, md5, strict=True)))
    monkeypatch.setattr(cifar, "BATCH", 20)
    monkeypatch.setattr(cifar, "TRAIN", 30)
    monkeypatch.setattr(cifar, "ROWS", 36)
    every = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, cifar.ROW)
    rows = every[every[:, 0] < 3]
    monkeypatch.setattr(cifar, "ROWS_SHA256", hashlib.sha256(rows.tobytes()).hexdigest())
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FLYRUN_DATA", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked the network"))
    monkeypatch.setattr(sources, "download", lambda *_: pytest.fail("asked the network"))
    return batches


def write_tar(path, members):
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return path


def write_package(path, batches):
    """The npm package's form: labels as JSON, a PNG a batch with one image a line."""
    from PIL import Image

    rows = [np.frombuffer(content, np.uint8).reshape(20, cifar.ROW) for content in batches]
    members = {
        "package/train_lables.json": json.dumps(np.concatenate(rows[:5])[:, 0].tolist()).encode(),
        "package/test_lables.json": json.dumps(rows[5][:, 0].tolist()).encode(),
    }
    for (name, _), part in zip(cifar.BATCHES, rows, strict=True):
        picture = io.BytesIO()
        strip = np.ascontiguousarray(part[:, 1:].reshape(20, 3, 1024).transpose(0, 2, 1))
        Image.fromarray(strip).save(picture, "PNG")
        members[f"package/{name}.png"] = picture.getvalue()
    return write_tar(path, members)


def expected(batches):
    rows = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, cifar.ROW)
    return rows[rows[:, 0] < 3]


@pytest.mark.parametrize("form", ["batches", "folder", "archive", "package", "small"])
def test_every_form_gives_the_same_rows(tiny, tmp_path, monkeypatch, form):
    home = tmp_path / "raw"
    home.mkdir()
    files = {f"{name}.bin": content for (name, _), content in zip(cifar.BATCHES, tiny, strict=True)}
    if form in ("batches", "folder"):
        folder = home if form == "batches" else home / cifar.INNER
        folder.mkdir(exist_ok=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    elif form == "archive":
        members = {f"{cifar.INNER}/{file}": content for file, content in files.items()}
        write_tar(home / "cifar-10-binary.tar.gz", members)
    elif form == "package":
        path = write_package(home / cifar.PACKAGE_FILE, tiny)
        monkeypatch.setattr(cifar, "PACKAGE_SHA256", sources.sha256_of(path))
    else:
        rows = expected(tiny)
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        (home / cifar.SMALL_FILE).write_bytes(archive.to_bytes({"x": images, "y": rows[:, 0]}))
    monkeypatch.setenv("FLYRUN_DATA", str(home))
    said = []
    found = cifar.fetch(said.append)
    assert said == [f"CIFAR-10: taken from FLYRUN_DATA={home}"]
    rows = expected(tiny)
    assert found["train_images"].shape == (30, 32, 32, 3)
    np.testing.assert_array_equal(np.concatenate([found["train_labels"], found["test_labels"]]), rows[:, 0])
    np.testing.assert_array_equal(found["test_images"][0, 4, 7, 2], rows[30, 1 + 2 * 1024 + 4 * 32 + 7])


def test_a_changed_pixel_is_no_source(tiny, tmp_path, monkeypatch):
    rows = expected(tiny).copy()
    rows[3, 100] ^= 1
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    (tmp_path / cifar.SMALL_FILE).write_bytes(archive.to_bytes({"x": images, "y": rows[:, 0]}))
    monkeypatch.setenv("FLYRUN_DATA", str(tmp_path))
    monkeypatch.setattr(cifar, "from_npm", lambda: cifar.verified(rows))
    monkeypatch.setattr(cifar, "from_archive_url", lambda: cifar.chosen([b"x", *tiny[1:]]))
    with pytest.raises(DataError, match=r"differ from those of the canonical .* md5 .*set FLYRUN_DATA") as e:
        cifar.fetch(str)
    assert "\n" not in str(e.value)


def test_npm_is_asked_for_the_package_only(tiny, tmp_path, monkeypatch):
    package = write_package(tmp_path / "p.tgz", tiny).read_bytes()
    monkeypatch.setattr(cifar, "PACKAGE_SHA256", archive.sha256(package))
    asked = []

    def run(command, cwd, **_):
        asked.append(command)
        with open(f"{cwd}/{cifar.PACKAGE_FILE}", "wb") as file:
            file.write(package)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    cifar.fetch_kept(str)
    assert asked == [["npm", "pack", cifar.PACKAGE, "--ignore-scripts", "--silent"]]
    # Kept: the second time nothing is asked for.
    cifar.fetch_kept(str)
    assert len(asked) == 1
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr="a\nb\n"))
    with pytest.raises(DataError, match="npm: b"):
        cifar.from_npm()


# --- codes ---


def test_codes_are_learnt_from_the_training_images_only_and_are_the_same_again(monkeypatch):
    monkeypatch.setattr(patch_codes, "SAMPLED", 600)
    monkeypatch.setattr(patch_codes, "CENTROIDS", 12)
    rng = np.random.default_rng(2)
    train, test = (rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8) for count in (40, 6))
    codes = patch_codes.learnt(train, test, 16, 1, str)
    assert (codes[0].shape, codes[1].shape, codes[0].dtype) == ((40, 16), (6, 16), bool)
    again = patch_codes.learnt(train, test[::-1], 16, 1, str)
    np.testing.assert_array_equal(again[0], codes[0])
    np.testing.assert_array_equal(again[1], codes[1][::-1])


def test_quarters_are_pooled_apart():
    """A picture that is flat but for one corner responds in that corner's quarter only."""
    rng = np.random.default_rng(0)
    size = patch_codes.PATCH**2 * 3
    patches = patch_codes.Patches(np.zeros(size), np.eye(size), rng.normal(size=(5, size)))
    flat, corner = np.full((2, 1, 32, 32, 3), 90, dtype=np.uint8)
    corner[0, 25:, 25:] = rng.integers(0, 256, (7, 7, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patch_codes, "CENTROIDS", 5)
        same = patch_codes.responses(flat, patches) == patch_codes.responses(corner, patches)
    assert same[0, :15].all()
    assert not same[0, 15:].all()


def test_random_signs_come_from_the_images(monkeypatch, tmp_path):
    rng = np.random.default_rng(3)
    rows = archive.from_bytes(registry.read("cifar3")[0], cifar3.ARRAYS, "cifar3")
    images = {
        "train_images": rng.integers(0, 256, (15000, 4, 4, 3), dtype=np.uint8),
        "test_images": rng.integers(0, 256, (3000, 4, 4, 3), dtype=np.uint8),
    }
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    monkeypatch.setattr(cifar, "fetch_kept", lambda echo: images)
    found = data.load(Cifar3(codes="random_signs", split="held_out"))
    pixels = images["test_images"].reshape(3000, -1) - images["train_images"].reshape(15000, -1).mean(axis=0)
    projections = np.random.RandomState(cifar3.SEED).standard_normal((48, 256))
    np.testing.assert_array_equal(found.test_features[:, :-1] > 0, pixels @ projections > 0)
    np.testing.assert_array_equal(found.test_target, rows["test_labels"])
