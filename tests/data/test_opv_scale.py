from __future__ import annotations

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import OpvScale
from flyrun.experiments.data import mnist8m_8v6, opv_scale, registry, tall
from flyrun.ground.errors import DataError
from flyrun.tables import checks


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("FLYRUN_CACHE", str(folder))
        patch.setattr(opv_scale, "BLOCK", 2_000)
        patch.setattr(opv_scale, "FULL", 5_000)
        yield folder


@pytest.fixture(scope="module")
def rows(home):
    return data.load(OpvScale(n_data=5_000))


@pytest.mark.thorough
def test_rows_are_mapped_float32(rows):
    assert rows.features.shape == (5_000, 57)
    assert rows.features.dtype == np.float32
    assert rows.target.dtype == np.float64
    assert type(rows.features) is np.ndarray
    assert isinstance(rows.features.base, np.memmap)
    assert rows.features.flags.c_contiguous
    assert rows.features.flags.writeable
    assert len(rows.feature_names) == 57
    assert rows.test_features.shape == (0, 57)


def test_no_default_writes_into_a_checkout(tmp_path, monkeypatch):
    for name in ("FLYRUN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for module in (opv_scale, tall, mnist8m_8v6):
        assert module.store().folder.parent == tmp_path / ".cache" / "flyrun" / "data"


@pytest.mark.thorough
def test_writing_to_the_rows_leaves_the_file(rows, home):
    first = rows.features[0, 0].copy()
    rows.features[0, 0] = 99
    assert data.load(OpvScale(n_data=5_000)).features[0, 0] == first
    rows.features[0, 0] = first


@pytest.mark.thorough
def test_the_recipe(rows):
    """Moments, coefficients and noise are those of the fit to qm9_gap."""
    root, theta, scale = opv_scale.fitted()
    moments = rows.features.T.astype(float) @ rows.features / 5_000
    np.testing.assert_allclose(moments, root @ root.T, atol=0.12)
    noise = (rows.target - rows.features @ theta) / scale
    np.testing.assert_allclose(rows.info["coefficients"], theta)
    assert rows.info["noise_scale"] == pytest.approx(scale)
    # Quartiles of Student's t with 4 degrees of freedom: ±0.7407.
    np.testing.assert_allclose(np.quantile(noise, [0.25, 0.5, 0.75]), [-0.7407, 0, 0.7407], atol=0.06)
    assert 1 - noise.var() * scale**2 / rows.target.var() == pytest.approx(0.85, abs=0.03)


@pytest.mark.thorough
def test_a_smaller_set_is_the_beginning_of_a_larger_one(rows):
    some = data.load(OpvScale(n_data=2_500))
    np.testing.assert_array_equal(some.features, rows.features[:2_500])
    np.testing.assert_array_equal(some.target, rows.target[:2_500])
    assert data.fingerprint(OpvScale(n_data=2_500)) == some.sha256 != rows.sha256


@pytest.mark.thorough
@pytest.mark.parametrize("file", opv_scale.FILES)
def test_a_file_cut_short_is_one_error(home, file):
    data.load(OpvScale(n_data=300))
    path = opv_scale.store(300).folder / file
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:50], b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{file}: is cut short or damaged; delete the folder") as caught:
            data.load(OpvScale(n_data=300))
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    data.load(OpvScale(n_data=300))
    (path.parent / "facts.json").write_text("{")
    with pytest.raises(DataError, match=r"facts\.json: cannot be read"):
        data.load(OpvScale(n_data=300))
    (path.parent / "facts.json").unlink()
    for left in path.parent.iterdir():
        left.unlink()
    path.parent.rmdir()
    data.load(OpvScale(n_data=300))


@pytest.mark.thorough
def test_verify_reads_every_byte(rows, home):
    assert registry.state("opv_scale") == "built"
    assert registry.verify("opv_scale").startswith("verified")
    path = opv_scale.store(5_000).folder / "features.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-5] + b"\0" + content[-4:])
    with pytest.raises(DataError, match=r"features\.npy: is altered"):
        registry.verify("opv_scale")
    said = []
    folder = registry.build("opv_scale", echo=said.append)
    assert str(folder) in said[0]
    assert path.read_bytes() == content
    assert registry.describe("opv_scale")["path"] == str(folder)


@pytest.mark.thorough
def test_build_elsewhere_and_not_at_all(rows, home, tmp_path):
    folder = registry.build("opv_scale", tmp_path, echo=str)
    assert folder.parent == tmp_path
    assert sorted(path.name for path in folder.iterdir()) == ["facts.json", "features.npy", "target.npy"]
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        registry.build("opv_scale", tmp_path / "file" / "inside", echo=str)


def test_the_finite_check_works_in_blocks(monkeypatch):
    monkeypatch.setattr(checks, "BLOCK", 10)
    values = np.zeros((35, 2), dtype=np.float32)
    values[[27, 33], [1, 0]] = np.inf
    with pytest.raises(DataError, match=r"t: row 27, column b is inf \(2 such rows\)"):
        checks.finite(values, "t", ("a", "b"))
    checks.finite(values[:27], "t")
    with pytest.raises(DataError, match=r"row 33 is inf"):
        checks.finite(values[:, 0], "t")
