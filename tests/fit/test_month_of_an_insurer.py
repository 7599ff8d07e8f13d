"""The commands of docs/cluster.md's month of an insurer, as they stand there, against a server of S3."""

import io
import shlex

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.ground.paths import conf_dir

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
PAGE = (conf_dir().parent / "docs/cluster.md").read_text("utf-8")


def commands():
    """The page's, in order."""
    section = PAGE.split("\n## A month of an insurer\n")[1].split("\n## ")[0]
    blocks = section.split("```")[1::2]
    return [shlex.split(line)[1:] for block in blocks for line in block.strip().splitlines()]


def policies(rng, n, month):
    """Drivers, cars and, in July, more claims of strong cars."""
    table = {
        "age": rng.uniform(18.0, 80.0, n),
        "power": rng.gamma(4.0, 20.0, n),
        "region": rng.choice(["coast", "north", "south"], n),
        "years": rng.uniform(0.1, 1.0, n),
    }
    eta = -0.5 - 0.02 * (table["age"] - 45.0) + (0.002 + 0.008 * (month == 7)) * table["power"]
    return table | {"claims": rng.poisson(table["years"] * np.exp(eta + 0.3 * (table["region"] == "north")))}


def put(server, key, columns):
    """Write an object."""
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), sink)
    server.objects[key] = sink.getvalue()


@pytest.mark.thorough
def test_the_month_of_an_insurer_runs_as_it_stands_there(tmp_path, monkeypatch, capsys, s3, no_figures):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    for month in (6, 7):
        for k in range(2):
            put(s3, f"insurer/claims/month={month}/part-{k}.parquet", policies(rng, 1_500, month))
    for k in range(2):
        columns = policies(rng, 400, 7) | {"policy": np.arange(400) + 400 * k, "signed": ["2026-01-31"] * 400}
        del columns["claims"]
        put(s3, f"insurer/policies/part-{k}.parquet", columns)
    told, codes = [], []
    for command in commands():
        codes.append(main(command))
        told.append(capsys.readouterr())
    assert len(codes) == 10
    assert codes == [0] * 6 + [1, 0, 0, 0], [one.err for one in told]
    check, june, july = told[0].out, told[1].out, told[5].out
    assert "claims" in check
    assert "rate_ratio" in (tmp_path / "results/runs/june/table.csv").read_text()
    assert all("3,000 rows" in text for text in (june, july))
    assert "power" in told[6].out
    assert "moved" in told[6].out
    assert (tmp_path / "changes.html").is_file()
    for month in (6, 7):
        part = parquet.read_table(io.BytesIO(s3.objects[f"insurer/predicted/month={month}/part-1.parquet"]))
        assert part.column_names == ["row", "mean", "sd", "low", "high", "policy", "signed"]
        assert part["policy"].to_pylist() == list(range(400, 800))
    worst = parquet.read_table(io.BytesIO(s3.objects["insurer/worst/part-0.parquet"]))
    assert 0 < len(worst) < 400
    assert not s3.uploads
    assert "━" not in "".join(one.out for one in told)  # and no bars where no terminal is
