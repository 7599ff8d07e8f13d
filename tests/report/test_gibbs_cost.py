"""The report on costs of updates: a tiny run of its experiment through the command line."""

import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.report.build import build
from flyrun.experiments.report.sections import scaling
from tests.in_process import flyrun

pytestmark = pytest.mark.figures

SAMPLERS = ("gibbs", "double")
SIZES = ("", "_values_5", "_values_20", "_many")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cost")
    names = [sampler + size for sampler in SAMPLERS for size in SIZES]
    words = [
        "experiment=gibbs_cost",
        "protocol.seeds=2",
        "protocol.iterations=40",
        "name=tiny",
        "executor.workers=1",
    ]
    words += [f"only=[{','.join(names)}]"]
    words += [f"arms.{sampler}_many.dataset.degree=60" for sampler in SAMPLERS]
    words += [f"arms.{sampler}_many.dataset.n_values=4" for sampler in SAMPLERS]
    done = flyrun(folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    root = folder / "results" / "runs" / "tiny"
    info = json.loads((root / "run.json").read_text())
    for arm in info["arms"]:
        base, *axis = arm["name"].split("_")
        if axis:
            arm["sweep"] = {"arm": base, "axis": axis[0], "point": int((*axis, 0)[1])}
    (root / "run.json").write_text(json.dumps(info))
    console = Console(file=io.StringIO(), width=100)
    build(root, console)
    return root, console.file.getvalue()


def test_one_cell_at_a_time():
    job = compose_job(["experiment=gibbs_cost", "only=[gibbs]"])
    assert job.executor.workers == 1


@pytest.mark.thorough
def test_slopes_of_counts_are_as_published(run):
    root, text = run
    table = pd.read_csv(root / "table.csv")
    found = {(name, parameter): rows for name, parameter, rows in scaling.sweeps_of(table.to_dict("records"))}
    assert set(found) == {("gibbs", "D"), ("double_min", "D")}
    counts = {name: [row["factors_actual"] for row in rows] for (name, _), rows in found.items()}
    assert counts["gibbs"] == [1250.0, 2500.0, 5000.0]
    np.testing.assert_allclose(counts["double_min"], [4 * d + 256 for d in (5, 10, 20)], rtol=0.03)
    assert "Slopes as D grows from 5 to 20 (Δ = 250, L = 2, Ψ = 16)" in text
    assert "Where minibatches can win: 20 variables, Δ = 60, D = 4, L = 2, Ψ = 8" in text
    assert "…" not in text
    assert (table["compared"] == "regime").tolist() == ["many" in arm for arm in table["arm"]]


@pytest.mark.thorough
def test_report_has_both_figures_and_says_what_it_means(run):
    root, _ = run
    for name in ("costs", "regimes"):
        assert (root / "figures" / f"{name}.png").stat().st_size > 10_000
    page = (root / "report.md").read_text()
    assert "executor.workers=1" in page
    assert "Published costs: gibbs O(DΔ)" in page
    assert "error_updates" not in page


def _arm(seconds, *errors):
    cells = [
        SimpleNamespace(curve_updates=[1.0, 2.0, 3.0], curve_error=list(error), curve_seconds=seconds)
        for error in errors
    ]
    return SimpleNamespace(cells=cells)


def test_equal_error_is_read_between_points_on_logarithmic_scales():
    base = _arm([1.0, 4.0, 100.0], [1.0, 0.5, 0.3], [1.0, 0.5, 0.1])  # ends at 0.2 after 100 s
    assert scaling.equal_error(base, base) == (100.0, 1.0)
    exact = _arm([1.0, 2.0, 8.0], [0.9, 0.4, 0.1])
    reached, times = scaling.equal_error(exact, base)
    assert reached == pytest.approx(4.0)  # halfway, in logarithms
    assert times == pytest.approx(25.0)
    wiggling = _arm([1.0, 2.0, 8.0], [0.1, 0.4, 0.1])
    assert scaling.equal_error(wiggling, base)[0] == pytest.approx(4.0)
    never = _arm([1.0, 2.0, 8.0], [0.9, 0.4, 0.3])
    assert all(map(math.isnan, scaling.equal_error(never, base)))
