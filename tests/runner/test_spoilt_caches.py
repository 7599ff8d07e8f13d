"""A cache that is wrong is a miss, not an error: no folder, no room, no locks, no home."""

import errno
import fcntl
import os

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models.problem import bind, look_at_map
from flyrun.ground import files, paths
from flyrun.ground.lock import locked

TOY = ["dataset=toy_2d", "model=logistic", "bound=map", "sampler=random_walk", "protocol=smoke"]


@pytest.fixture(params=["a file in its way", "full", "read-only"])
def spoilt(request, tmp_path, monkeypatch):
    """A folder that takes no file."""
    if request.param == "a file in its way":
        (tmp_path / "cache").write_text("")
        return tmp_path / "cache" / "inside"
    number = errno.ENOSPC if request.param == "full" else errno.EROFS

    def refused(path, content):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(files, "write", refused)
    return tmp_path


def test_a_fit_that_cannot_be_kept_is_made(spoilt, tmp_path_factory):
    (arm,) = compose_job(TOY).arms
    made = bind(arm, spoilt, needs_map=True)
    wanted = bind(arm, tmp_path_factory.mktemp("well"), needs_map=True)
    np.testing.assert_array_equal(made.fit.theta_map, wanted.fit.theta_map)
    np.testing.assert_array_equal(look_at_map(arm, made).curvature, look_at_map(arm, wanted).curvature)


def test_a_file_system_without_locks_runs_all_the_same(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with locked(tmp_path / "lock") as stale:
        assert stale == ""
    assert not list(tmp_path.iterdir())


def test_a_home_that_is_not_there(monkeypatch):
    for name in ("FLYRUN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/nobody")
    assert paths.writable(paths.cache_dir("somewhere"))
