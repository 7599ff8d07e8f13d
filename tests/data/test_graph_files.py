"""Graphs from files: what they hold, and one line for everything that can be wrong with them."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.data import edge_list, uai
from flyrun.experiments.models.graphs.factor_graph import factor_graph
from flyrun.ground.errors import DataError

GOOD = """MARKOV
3
2 2 3
4
1 0
2 0 1
2 1 2
0
2
 0.5 1.5

4
 1.0 2.0
 3.0 4.0
6
 1 1 1
 2 2 4
1
 7.5
"""


def _write(tmp_path, text, name="graph.uai"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_uai_tables_become_energies_from_zero(tmp_path):
    network = uai.read(_write(tmp_path, GOOD))
    assert network.sizes == (2, 2, 3)
    assert network.scopes == ((0,), (0, 1), (1, 2))
    np.testing.assert_allclose(network.tables[0], [0.0, np.log(3.0)])
    np.testing.assert_allclose(network.tables[1], np.log([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_allclose(network.tables[2], np.log([[1, 1, 1], [2, 2, 4]]))
    graph = factor_graph(*network)
    assert graph.bounds.total == pytest.approx(np.log(3.0) + 2 * np.log(4.0))
    path = _write(tmp_path, GOOD)
    assert len(uai.fingerprint(SimpleNamespace(path=str(path)))) == 64
    assert uai.load(SimpleNamespace(path=str(path))).scopes == network.scopes


BAD_UAI = {
    "another kind": (GOOD.replace("MARKOV", "BAYES"), r"line 1: begins with 'BAYES'"),
    "empty": ("", r"line 1: ends before the word MARKOV; the file was cut short"),
    "cut short": (
        GOOD[: GOOD.index("3.0 4.0")],
        r"line 14: ends before entry 3 of 4 of the table of factor 1",
    ),
    "table size": (GOOD.replace("\n6\n", "\n5\n"), r"line 15: the table of factor 2 has 5 entries.* wants 6"),
    "no number": (GOOD.replace("3.0", "x"), r"line 14: has 'x' in the table of factor 1"),
    "negative": (GOOD.replace("3.0", "-3"), r"line 14: the table of factor 1 has a negative"),
    "nan": (GOOD.replace("3.0", "nan"), r"factor 1 has a negative or infinite entry"),
    "zero": (GOOD.replace("3.0", "0.0"), r"line 14: the table of factor 1 has an entry 0"),
    "no variable": (
        GOOD.replace("2 1 2\n", "2 1 3\n"),
        r"line 7: factor 2 has variable 3, but the last is 2",
    ),
    "twice": (GOOD.replace("2 1 2\n", "2 1 1\n"), r"line 7: factor 2 has a variable twice"),
    "no values": (GOOD.replace("2 2 3", "2 0 3"), r"line 3: has '0' for the number of values of variable 1"),
    "more": (GOOD + "8\n", r"line 20: goes on with '8' after the last of 4 tables"),
    "binary": (b"\xff\xfe\x00\x01", r"line 1: begins with"),
    "huge": (
        "MARKOV\n9\n" + "999 " * 9 + "\n1\n9 0 1 2 3 4 5 6 7 8\n100\n",
        r"wants 991035916125874083964008999",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_UAI.values(), ids=BAD_UAI)
def test_bad_uai_files_are_one_line(text, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        uai.read(_write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_edges(tmp_path):
    path = _write(tmp_path, "i,j,weight\n0,3,1.5\n# note\n\n 2 , 1 ,-0.25\n", "edges.csv")
    edges = edge_list.read(path)
    assert edges.n == 4
    assert edges.ends.tolist() == [[0, 3], [1, 2]]
    assert edges.weight.tolist() == [1.5, -0.25]
    assert edge_list.load(SimpleNamespace(path=str(path), sum_duplicates=False)).n == 4
    assert len(edge_list.fingerprint(SimpleNamespace(path=str(path)))) == 64


BAD_EDGES = {
    "self-loop": ("0,1,1\n2,2,1\n", r"line 2: edge 2,2 joins a variable with itself"),
    "duplicate": ("0,1,1\n1,0,2\n", r"line 2: edge 1,0 stands in line 1 already.*sum_duplicates=true"),
    "cells": ("0,1\n", r"line 1: has 2 cells"),
    "variable": ("0,-1,1\n", r"line 1: '-1' is no variable"),
    "name": ("0,1,1\na,b,1\n", r"line 2: 'a' is no variable"),
    "weight": ("0,1,inf\n", r"line 1: weight 'inf' of edge 0,1 is no finite number"),
    "word": ("0,1,x\n", r"line 1: weight 'x'"),
    "empty": ("i,j,weight\n", r"holds no edge"),
}


@pytest.mark.parametrize(("text", "message"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_bad_edge_lists_are_one_line(text, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        edge_list.read(_write(tmp_path, text, "edges.csv"))
    assert "\n" not in str(caught.value)


def test_duplicates_are_summed_when_asked(tmp_path):
    edges = edge_list.read(_write(tmp_path, "0,1,1\n1,0,2\n", "edges.csv"), sum_duplicates=True)
    assert edges.weight.tolist() == [3.0]


@pytest.mark.parametrize("reader", [uai.read, edge_list.read])
def test_missing_files_are_one_line(reader, tmp_path):
    with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file"):
        reader(tmp_path / "nowhere")
    with pytest.raises(DataError, match="cannot be read"):
        reader(tmp_path)
