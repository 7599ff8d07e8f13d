"""Who looks at row groups in a scan changes no bit; what a dead worker held, and no more, is read again."""

import os
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from flyrun.fitting.scan import kept_sums, mappers, row_weights, table_files
from flyrun.fitting.scan.block_sums import SumLook
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.executor import Dask
from tests.fit import scan_rounds
from tests.fit.dying_looks import Dying, Fatal
from tests.fit.test_scan import scan, table, write

pytest.importorskip("pyarrow")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
from flyrun.fitting.scan import dask_mapper  # noqa: E402  (which needs distributed)
from flyrun.ground import dask_cluster  # noqa: E402  (as above)


def silent(line):
    """Say nothing."""


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(row_weights, "DRAWS", 1_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 500)


@pytest.fixture
def clusters():
    """Addresses of clusters in this process, by how many workers they have."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    ) as cluster:

        def of(workers):
            cluster.scale(workers)
            cluster.sync(cluster._correct_state)
            with distributed.Client(cluster) as client:
                client.wait_for_workers(workers, timeout=20)
            return Dask(address=str(cluster.scheduler_address))

        yield of


def same(found, other):
    """Whether two scans found the same, to the bit."""
    own, others = found.answer.found, other.answer.found
    return np.array_equal(own.x, others.x) and np.array_equal(own.log_weight, others.log_weight)


@pytest.mark.thorough
def test_the_bits_do_not_depend_on_who_works(tmp_path, clusters):
    folder = write(tmp_path / "shards", table(np.random.default_rng(6), 2_000))
    here = scan(folder)
    assert not same(here, scan(folder, seed=1))
    for workers in (1, 2, 3):
        with dask_mapper.on_dask(clusters(workers), None, silent) as run:
            kept = kept_sums.Kept(tmp_path / str(workers))
            assert same(here, scan(folder, mapper=mappers.Mapper(run, kept, silent)))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_bits_do_not_depend_on_processes(tmp_path, workers):
    folder = write(tmp_path / "shards", table(np.random.default_rng(6), 2_000))
    here = scan(folder)
    for k, way in enumerate((mappers.local(workers), dask_mapper.on_dask(Dask(), workers, silent))):
        with way as run:
            kept = kept_sums.Kept(tmp_path / str(k))
            assert same(here, scan(folder, mapper=mappers.Mapper(run, kept, silent)))


WAYS = {"processes": lambda: mappers.local(2), "dask": lambda: dask_mapper.on_dask(Dask(), 2, silent)}


@pytest.mark.parametrize("way", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_only_what_a_dead_worker_held_is_looked_at_again(tmp_path, way):
    found = table_files.find(str(write(tmp_path / "shards", table(np.random.default_rng(0), 4_000))))
    (tmp_path / "looks").mkdir()
    with WAYS[way]() as run:
        mapper = mappers.Mapper(run, kept_sums.Kept(tmp_path / "kept"), silent)
        rows = mapper(Dying(tmp_path / "looks"), [[block] for block in found.blocks], "dying")
    assert rows == [block.rows for block in found.blocks]
    looks = sorted(path.name for path in (tmp_path / "looks").iterdir())
    assert "3-1" in looks
    assert len(looks) <= len(found.blocks) + 2  # what the dead worker had finished was here already


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("dies", "why"), [(True, "2 died, most likely for want"), (False, "one is out of mem")]
)
def test_workers_without_memory_are_one_line(tmp_path, monkeypatch, way, dies, why):
    monkeypatch.setattr(mappers, "REDONE", 1)
    monkeypatch.setattr(dask_mapper, "REDONE", 1)
    found = table_files.find(str(write(tmp_path / "shards", table(np.random.default_rng(0), 400))))
    groups = [[block] for block in found.blocks[:2]]
    with WAYS[way]() as run:
        mapper = mappers.Mapper(run, kept_sums.Kept(tmp_path / "kept"), silent)
        with pytest.raises(
            DataError, match=rf"part-.*: workers cannot read it \({why}.*; what is done is kept"
        ):
            mapper(Fatal(dies), groups, "fatal")


@pytest.mark.slow
def test_twenty_rounds_of_kills(capsys):
    """A scan whose draws depend on who died, or that reads again what it kept."""
    assert scan_rounds.play(20) == 0
    assert "20 of them hit a scan under way" in capsys.readouterr().out


@pytest.mark.thorough
def test_workers_of_its_own_keep_the_memory_that_they_free(monkeypatch):
    """A nanny's setting makes each large array cost page faults: a scan took 2.4 times as long."""
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with dask_cluster.local_cluster(1) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(1)
        assert list(client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()) == [None]
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ


@pytest.mark.thorough
def test_float32_rows_give_the_same_bits_on_threads_of_a_worker_not_ours(tmp_path, monkeypatch):
    """Each look sums with BLAS on one thread, whichever of a worker's threads looks, and beside others.

    threadpoolctl lets one thread of a process limit BLAS, and ignores the others.
    """
    rows = table(np.random.default_rng(6), 6_000)
    narrow = {name: rows[name].astype(np.float32) for name in rows if rows[name].dtype == np.float64}
    folder = write(tmp_path / "shards", rows | narrow)
    limits, of = [], SumLook.of

    def watched(self, block, part):
        time.sleep(0.01)  # so that others begin and end meanwhile
        limits.append(max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"))
        return of(self, block, part)

    monkeypatch.setattr(SumLook, "of", watched)
    with threadpool_limits(2):
        here = scan(folder)
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=4, processes=False, dashboard_address=None, silence_logs=50
        ) as cluster:
            settings = Dask(address=str(cluster.scheduler_address))
            with dask_mapper.on_dask(settings, None, silent) as run:
                kept = kept_sums.Kept(tmp_path / "kept")
                assert same(here, scan(folder, mapper=mappers.Mapper(run, kept, silent)))
    assert set(limits) == {1}


@pytest.mark.thorough
def test_a_worker_that_lacks_a_package_is_told_and_lives_on(tmp_path, monkeypatch):
    """A task that it cannot read would end it; with the last worker gone, a scan would wait for ever."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Lacks:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'flyrun':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Lacks())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # Dask would leave it in this process, too
    folder = write(tmp_path / "shards", table(np.random.default_rng(6), 500))
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(1, timeout=30)
        before = list(client.scheduler_info()["workers"])
        settings = Dask(address=str(cluster.scheduler_address))
        with dask_mapper.on_dask(settings, None, silent) as run:
            kept = kept_sums.Kept(tmp_path / "kept")
            with pytest.raises(ConfigError, match=r"cannot take this work \(ModuleNotFoundError: No module"):
                scan(folder, mapper=mappers.Mapper(run, kept, silent))
        assert list(client.scheduler_info()["workers"]) == before
        dask_cluster.refuse_unfit(client, {"json"}, set())  # what it has is no matter


def test_workers_that_have_been_asked_or_are_gone_are_not_asked_again():
    asked = []

    class Client:
        def scheduler_info(self):
            return {"workers": {"a": 1, "b": 2}}

        def run(self, function, *arguments, workers, on_error):
            asked.extend(workers)
            return {"b": OSError("gone meanwhile")}

    known = {"a"}
    for _ in range(2):
        dask_cluster.refuse_unfit(Client(), {"json", "math"}, known)
    assert asked == ["b"]
