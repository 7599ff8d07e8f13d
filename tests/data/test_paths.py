from __future__ import annotations

import os
from pathlib import Path

from flyrun.ground import paths


def test_a_checkout_has_its_folders_on_top():
    root = Path(paths.__file__).parents[2]
    assert paths.conf_dir() == root / "conf"
    assert paths.datasets_dir() == root / "datasets"
    assert paths.reference_dir() == root / "results" / "reference"


def test_an_installed_package_has_them_inside(tmp_path, monkeypatch):
    package = tmp_path / "flyrun"
    package.mkdir()
    monkeypatch.setattr(paths, "_PACKAGE", package)
    monkeypatch.setattr(paths, "_checkout", paths._checkout.__wrapped__)
    assert paths.conf_dir() == package / "conf"
    assert paths.reference_dir() == package / "reference"
    # Another project's file beside the package does not make it a checkout.
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert paths.datasets_dir() == package / "datasets"


def test_the_cache_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("FLYRUN_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert paths.cache_dir("a") == tmp_path / "home" / ".cache" / "flyrun" / "a"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert paths.cache_dir("a") == tmp_path / "xdg" / "flyrun" / "a"
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "own"))
    assert paths.cache_dir("a") == tmp_path / "own" / "a"
    assert (tmp_path / "own" / "a").is_dir()


def test_an_unwritable_cache_falls_back_to_a_private_temporary_one(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "file" / "inside"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = paths.cache_dir("b")
    assert folder.is_dir()
    assert tmp_path in folder.parents
    # A folder that others could have made or can write to is not trusted.
    os.chmod(folder.parent, 0o777)
    other = paths.cache_dir("c")
    assert other.is_dir()
    assert folder.parent not in other.parents
