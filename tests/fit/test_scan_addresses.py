"""Files at an address, as s3://bucket/folder: read as those of this machine."""

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.ground import addresses
from flyrun.ground.errors import StoreError
from tests.fit.test_scan import scan, table, write

fs = pytest.importorskip("pyarrow.fs")


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_files_at_an_address_are_read_as_those_here(tmp_path, kind, request):
    if kind == "s3":
        request.getfixturevalue("s3")
    folder = write(tmp_path / "shards", table(np.random.default_rng(6), 2_000))
    system, inner = addresses._system(f"{kind}://shards/part")
    fs.copy_files(str(folder), inner, destination_filesystem=system)
    here, there = (scan(place).answer.found for place in (folder, f"{kind}://shards/*/part-?.parquet"))
    assert np.array_equal(there.x, here.x)
    assert np.array_equal(there.log_weight, here.log_weight)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("memory://nothing", "no Parquet file has such a name"),
        ("nosuch://folder", "no such file system is known"),
        ("memory://nothing/*.parquet", "no Parquet file has such a name"),
    ],
)
def test_an_address_of_nothing_is_refused_in_one_line(tmp_path, monkeypatch, capsys, address, said):
    monkeypatch.chdir(tmp_path)
    assert main(["fit", address, "--target", "y", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert address in line


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_is_sent_in_part_is_no_file(s3, monkeypatch, error):
    def send(source, target, at_once):
        target.write(source.read(7))
        raise error

    path = "s3://insurer/predicted/part.parquet"
    with addresses.replacing(path) as file:
        file.write(b"a whole file")
    assert s3.objects["insurer/predicted/part.parquet"] == b"a whole file"  # the control
    monkeypatch.setattr("shutil.copyfileobj", send)
    with pytest.raises((KeyboardInterrupt, StoreError)), addresses.replacing(path) as file:
        file.write(b"another whole file")
    assert "insurer/predicted/part.parquet" not in s3.objects


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_an_error_meets_as_it_is_closed_is_no_file(s3, monkeypatch, error):
    class Stream:
        """Closed, it is there; but that is not heard of, or Ctrl-C comes."""

        def __init__(self, inner):
            self.inner = inner

        def write(self, content):
            self.inner.write(content)

        def close(self):
            self.inner.close()
            raise error

    path, system_of = "s3://insurer/predicted/part.parquet", addresses._system

    class System:
        def __init__(self, system):
            self.system = system

        def __getattr__(self, name):
            return getattr(self.system, name)

        def open_output_stream(self, inner):
            return Stream(self.system.open_output_stream(inner))

    def opened(given):
        system, inner = system_of(given)
        return System(system), inner

    monkeypatch.setattr(addresses, "_system", opened)
    with pytest.raises((KeyboardInterrupt, StoreError)), addresses.replacing(path) as file:
        file.write(b"a whole file")
    assert "insurer/predicted/part.parquet" not in s3.objects
