"""Tables of more and more rows: shards are those of their keys, and the page tells what was measured."""

import numpy as np
import pandas as pd
import pytest

from tools.billion import __main__ as billion
from tools.billion import peers, shards

parquet = pytest.importorskip("pyarrow.parquet")


def test_rows_do_not_depend_on_files(tmp_path):
    shards.write(tmp_path / "one", 500, 3, group=100, file=500)
    shards.write(tmp_path / "many", 500, 3, group=100, file=200)
    one, many = (parquet.read_table(tmp_path / name) for name in ("one", "many"))
    assert one.equals(many)
    assert len(list((tmp_path / "many").iterdir())) == 3
    assert len(np.unique(one["x0"].to_numpy())) == 500


def test_a_table_read_again_is_longer(tmp_path):
    shards.write(tmp_path / "one", 300, 3, group=100, file=200)
    again = billion.linked(tmp_path / "one", 3, tmp_path / "again")
    assert sum(len(y) for _, y in peers.groups(again)) == 900
    assert billion.linked(tmp_path / "one", 1, tmp_path / "none") == tmp_path / "one"


def test_peers_are_as_far_off_as_they_are(tmp_path):
    shards.write(tmp_path / "one", 4_000, 3, group=1_000)
    theta, names = shards.coefficients(3), ["x0", "x1", "x2", "intercept"]
    known = {name: (float(mean), 0.05) for name, mean in zip(names, theta, strict=True)}
    rows = {row["tool"]: row for row in peers.measured(tmp_path / "one", 4_000, 3, known)}
    assert rows["scikit-learn newton-cholesky"]["off"] < 4
    moved = {name: (mean + 10 * sd, sd) for name, (mean, sd) in known.items()}
    (row, *_) = peers.measured(tmp_path / "one", 4_000, 3, moved)
    assert row["off"] > 6
    table = [row | {"columns": 3, "again": 1} for row in rows.values()]
    own = {"rows": 4_000, "columns": 30, "again": 1, "tool": "flyrun fit", "gives": "posterior", "off": 0.01}
    figures = ["gigabytes", "seconds", "scan_seconds", "wall", "scans", "moved_megabytes", "travelled"]
    own |= dict.fromkeys([*figures, "row_bytes", "effective", "peak_megabytes", "load", "timed_scans"], 2.0)
    own |= {"counted": "a0", "timed": "b1", "checksums": True}
    said = billion.page(pd.DataFrame([*table, own]))
    assert "| 4,000 | 30 |" in said
    assert "not measured: 10¹¹ rows" in said
    assert "| a0 | b1 |" in said
    assert "50 GB" not in said  # no table of 100 columns was measured
