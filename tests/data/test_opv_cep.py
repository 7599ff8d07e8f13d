from __future__ import annotations

import sys

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import OpvCep
from flyrun.experiments.data import descriptors, opv_cep, registry
from flyrun.ground.errors import DataError


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a CSV of random gaps; random numbers stand in for descriptors, NaN for those of "bad"."""
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(descriptors, "rdkit_version", lambda: "0")

    def compute(smiles, names, echo):
        values = np.random.default_rng(1).normal(size=(len(smiles), len(names)))
        values[[text == "bad" for text in smiles]] = np.nan
        return values

    monkeypatch.setattr(descriptors, "compute", compute)

    def write(smiles, gap=None, header="other,smiles,gap"):
        gap = np.random.default_rng(0).uniform(1, 3, len(smiles)) if gap is None else gap
        path = tmp_path / "molecules.csv"
        lines = [f"x,{text},{value}" for text, value in zip(smiles, gap, strict=True)]
        path.write_text("\n".join([header, *lines]) + "\n")
        return str(path)

    return write


def test_rows_of_a_persons_file(table):
    path = table(["c1ccccc1"] * 200)
    rows = data.load(OpvCep(path=path, split="held_out"))
    assert rows.features.shape == (180, 57)
    assert rows.test_features.shape == (20, 57)
    np.testing.assert_allclose(rows.features.std(axis=0), 1, rtol=1e-10)
    assert rows.feature_names == descriptors.CEP
    assert rows.info["skipped"] == 0
    assert data.fingerprint(OpvCep(path=path)) == rows.sha256
    table(["c1ccccc1"] * 199)
    assert data.fingerprint(OpvCep(path=path)) != rows.sha256


def test_descriptors_are_computed_once_a_file(table, monkeypatch):
    path = table(["C"] * 50)
    first = data.load(OpvCep(path=path))
    monkeypatch.setattr(descriptors, "compute", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(data.load(OpvCep(path=path)).features, first.features)


def test_bad_rows_are_named_or_skipped_and_counted(table, capsys):
    path = table(["C", "C", "bad", "C", "bad"] + ["C"] * 95, ["1.5"] * 50 + ["2"] * 49 + ["high"])
    with pytest.raises(
        DataError, match=r"row 2, SMILES 'bad' cannot be parsed \(3 such rows\).*dataset\.skip_bad=true"
    ):
        data.load(OpvCep(path=path))
    rows = data.load(OpvCep(path=path, skip_bad=True))
    assert len(rows.target) == rows.info["molecules"] == 97
    assert rows.info["skipped"] == 3
    assert "skipped 3 of 100 rows" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"row 1, gap is no finite number;"):
        data.load(OpvCep(path=table(["C"] * 3, ["1", "", "2"])))
    with pytest.raises(DataError, match="no row has both"):
        data.load(OpvCep(path=table(["bad"] * 3), skip_bad=True))


def test_without_a_file_the_error_says_where_it_comes_from(tmp_path):
    for config in (OpvCep(), OpvCep(path=str(tmp_path / "nothing.csv"))):
        with pytest.raises(
            DataError, match=r"dataset\.path=.* Harvard Clean Energy Project .*SMILES and gaps"
        ):
            data.load(config)
        with pytest.raises(DataError, match=r"dataset\.path="):
            data.fingerprint(config)


def test_files_that_are_no_such_tables(table, tmp_path):
    with pytest.raises(DataError, match=r"no column gap or e_gap_alpha, among other, smiles, pce; name it"):
        data.load(OpvCep(path=table(["C"], header="other,smiles,pce")))
    with pytest.raises(DataError, match="has no row below its header"):
        data.load(OpvCep(path=table([])))
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        data.load(OpvCep(path=str(tmp_path / "empty.csv")))
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(DataError, match=r"cannot be read as CSV|has no column"):
        data.load(OpvCep(path=str(tmp_path / "binary.csv")))
    with pytest.raises(DataError, match="target is 2 in every row"):
        data.load(OpvCep(path=table(["C"] * 9, ["2"] * 9)))


def test_the_registry_knows_that_nothing_is_stored():
    assert registry.state("opv_cep") == "your file"
    assert "dataset.path" in registry.verify("opv_cep")
    assert "dataset.path" in registry.describe("opv_cep")["needs"]
    with pytest.raises(DataError, match=r"opv_cep: is not made here; .*dataset\.path"):
        registry.build("opv_cep", echo=str)


def test_missing_rdkit_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    (tmp_path / "one.csv").write_text("smiles,gap\nC,1\n")
    with pytest.raises(DataError, match=r"rdkit is not installed.*flyrun\[chem\]"):
        data.load(OpvCep(path=str(tmp_path / "one.csv")))


def test_descriptors_of_known_molecules():
    pytest.importorskip("rdkit")
    smiles = ["c1ccccc1", "no molecule", "", "CC(=O)N"]
    values = descriptors.compute(smiles, ("NumAromaticRings", "NumAmideBonds", "HeavyAtomMolWt"))
    assert np.isnan(values[1:3]).all()
    np.testing.assert_allclose(values[[0, 3]], [[1, 0, 72.066], [0, 1, 54.0]], atol=2.0)
    for names in (descriptors.QM9, descriptors.CEP):
        assert np.isfinite(descriptors.compute(["c1sc2ccccc2c1", "C"], names)).all()
    with pytest.raises(DataError, match=r"no descriptor NoSuchThing"):
        descriptors.compute(smiles, ("NoSuchThing",))


def test_two_processes_give_what_one_gives(monkeypatch):
    pytest.importorskip("rdkit")
    smiles = ["C" * (1 + number % 9) for number in range(40)]
    alone = descriptors.compute(smiles, ("MolLogP", "Chi0n"))
    monkeypatch.setattr(descriptors, "_BLOCK", 9)
    np.testing.assert_array_equal(descriptors.compute(smiles, ("MolLogP", "Chi0n"), workers=2), alone)


def test_the_full_loader_with_rdkit(tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    (tmp_path / "few.csv").write_text("smiles,gap\nc1ccsc1,1.1\nc1ccoc1,1.2\nc1ccncc1,1.3\n")
    # Three small molecules do not differ in every descriptor: the error names the first.
    with pytest.raises(DataError, match=r"few\.csv: \w+ is [\d.e-]+ in every row"):
        data.load(OpvCep(path=str(tmp_path / "few.csv")))
    assert opv_cep.fingerprint(OpvCep(path=str(tmp_path / "few.csv")))


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("id,SMILES_str,e_gap_alpha", {}),  # the public release's moldata.csv
        ("id,molecule,ev", {"smiles": "molecule", "gap": "ev"}),
        ("gap,smiles,e_lumo", {"gap": "e_lumo"}),
    ],
)
def test_the_columns_of_the_public_files_are_known_and_others_are_named(table, header, named):
    path = table(["C"] * 50, header=header)
    expected = data.load(OpvCep(path=table(["C"] * 50))).target
    path = table(["C"] * 50, header=header)
    np.testing.assert_array_equal(data.load(OpvCep(path=path, **named)).target, expected)


@pytest.mark.parametrize(
    ("header", "named", "message"),
    [
        ("id,molecule,gap", {}, r"no column smiles or SMILES_str, among id, .*dataset\.smiles=COLUMN"),
        ("gap,smiles,e_gap_alpha", {}, r"both columns gap and e_gap_alpha, .*dataset\.gap=COLUMN"),
        ("id,smiles,gap", {"gap": "ev"}, r"no column ev, among id, smiles, gap; .*dataset\.gap=COLUMN"),
    ],
)
def test_columns_in_doubt_are_refused(table, header, named, message):
    path = table(["C"] * 50, header=header)
    with pytest.raises(DataError, match=message):
        data.load(OpvCep(path=path, **named))
