"""BLAS on one thread, however often it is asked and whatever is imported in between."""

import sys
import threading
import types

import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from flyrun.ground import threads


def most():
    return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")


@pytest.fixture
def two():
    with threadpool_limits(2):
        yield


def test_one_inside_and_as_before_after(two):
    assert most() == 2
    for _ in range(2):
        with threads.one_blas_thread():
            assert most() == 1
            with threads.one_blas_thread():
                assert most() == 1
            assert most() == 1
        assert most() == 2


def test_libraries_are_looked_for_again_once_something_was_imported(two, monkeypatch):
    looked = []
    monkeypatch.setattr(threads, "ThreadpoolController", lambda: looked.append(1) or ThreadpoolController())
    threads._libraries.cache_clear()
    for _ in range(3):
        with threads.one_blas_thread():
            pass
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "brings_blas", types.ModuleType("brings_blas"))
    with threads.one_blas_thread():
        assert most() == 1
    assert len(looked) == 2


def test_a_thread_that_leaves_does_not_unlimit_the_others(two):
    """As in a worker of several threads: its neighbour's sums would change their last bits."""
    inside, left, seen = threading.Barrier(2), threading.Event(), []

    def first():
        with threads.one_blas_thread():
            inside.wait()
        left.set()

    def second():
        with threads.one_blas_thread():
            inside.wait()
            left.wait(10)
            seen.append(most())

    both = [threading.Thread(target=one) for one in (first, second)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert seen == [1]
    assert most() == 2
