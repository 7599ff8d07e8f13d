"""Where cells and scans run: what is said of a cluster's address."""

import pytest

from flyrun.ground.executor import Dask


@pytest.mark.parametrize(
    "address",
    [None, "tls://host:1", "tcp://127.0.0.1:1", "tcp://[::1]:1", "localhost:1"],
)
def test_an_address_that_others_cannot_use_is_not_warned_of(address):
    assert not Dask(address=address).open_to_all


@pytest.mark.parametrize("address", ["tcp://host:1", "tcp://10.0.0.1:1", "host:1"])
def test_an_address_that_others_may_use_is_warned_of(address):
    assert "name it by tls://" in Dask(address=address).open_to_all
