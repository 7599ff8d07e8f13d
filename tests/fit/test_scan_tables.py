"""Tables that second order fits badly: a scan's weights are those by all likelihoods, and wrong rates of rows
that travel are seen."""

import numpy as np
import pytest

from flyrun.fitting.scan import row_weights
from flyrun.fitting.scan.block_sums import SumLook
from tests.fit.test_scan import against_all_rows, all_rows, scan, target, write

pytest.importorskip("pyarrow")


def heavy(rng, n, degrees):
    """Columns of Student's t."""
    return rng.standard_t(degrees, (4, n))


#: columns, coefficients and intercept of a table
TABLES = {
    "t3_columns": lambda rng, n: (heavy(rng, n, 3.0), [0.8, -0.5, 0.5, 0.3], 0.0),
    "t1.2_columns": lambda rng, n: (heavy(rng, n, 1.2), [0.8, -0.5, 0.5, 0.3], 0.0),
    "margins_of_sd_6": lambda rng, n: (rng.standard_normal((4, n)), [4.0, -3.0, 3.0, 2.0], 0.0),
    "margins_of_sd_20": lambda rng, n: (rng.standard_normal((4, n)), [14.0, -10.0, 8.0, 6.0], 0.0),
    "few_events": lambda rng, n: (rng.standard_normal((4, n)), [0.5, -0.5, 0.5, 0.3], -4.5),
    "40_columns": lambda rng, n: (rng.standard_normal((40, n)), [0.2] * 40, 0.0),
}


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(row_weights, "DRAWS", 2_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 1_000)


def made(folder, name):
    """What a scan found of a table, and the posterior of all its rows."""
    rng, n = np.random.default_rng(3), 2_000
    x, slopes, intercept = TABLES[name](rng, n)
    columns = {f"x{k}": one.astype(np.float32) for k, one in enumerate(x)}
    eta = np.clip(slopes @ x + intercept, -500.0, 500.0)
    columns |= {"y": target("logistic", eta, rng)}
    found = scan(write(folder / "shards", columns))
    return found, all_rows(found, columns, "logistic")


def slow(*words):
    """A case that takes some seconds."""
    return pytest.param(*words, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", ["t1.2_columns", *(slow(name) for name in TABLES if name != "t1.2_columns")])
def test_weights_are_those_by_all_rows_on_a_hard_table(tmp_path, name):
    found, post = made(tmp_path, name)
    assert against_all_rows(found, post)[0].max() < 3.5


@pytest.mark.parametrize(
    ("name", "times"), [("40_columns", 1.4), slow("t3_columns", 0.7), slow("t3_columns", 1.4)]
)
def test_rows_at_a_wrong_rate_are_seen(tmp_path, monkeypatch, name, times):
    pick = SumLook._pick

    def wrong(look, size, rng):
        index, count, intensity, core = pick(look, size, rng)
        return index, count, times * intensity, core

    monkeypatch.setattr(SumLook, "_pick", wrong)
    assert against_all_rows(*made(tmp_path, name))[0].max() > 4


@pytest.mark.slow
def test_rows_that_serve_many_draws_are_seen(tmp_path, monkeypatch):
    """Each one a thousand, as if so many had travelled: one by one the weights are without bias."""
    draw = row_weights.draw

    def shared(post, units, sums, *words):
        rows = tuple(
            own._replace(copies=1_000 * own.copies.astype(int), intensity=1_000 * own.intensity)
            for own in sums.travelled
        )
        return draw(post, units, sums._replace(travelled=rows), *words)

    monkeypatch.setattr(row_weights, "draw", shared)
    assert against_all_rows(*made(tmp_path, "t3_columns"))[0].max() > 4


@pytest.mark.thorough
def test_few_rows_of_a_family_with_a_tail_come_in_the_first_scan(tmp_path):
    rng = np.random.default_rng(2)  # of which second order missed so much that all came in the third
    x, z = rng.standard_normal((2, 80))
    mean = np.exp(0.5 * x - 0.3 * z)
    y = np.array([rng.gamma(1.0, m, k).sum() for m, k in zip(mean**0.5, rng.poisson(mean**0.5), strict=True)])
    said = []
    found = scan(write(tmp_path / "shards", {"x": x, "z": z, "y": y}), "tweedie", said=said)
    assert found.scans == 1
    assert not [line for line in said if "another scan" in line]
    assert len(found.posterior.rows) == 80
