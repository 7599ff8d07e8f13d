"""A package's likelihood of one function, from the command line: fitted to a table, run as arms, refused."""

import json
import shutil

import numpy as np
import pytest

from tests.plugins.processes import copies
from tests.plugins.rows import ROWS
from tests.plugins.test_plugins import install

NAMES = {"label_noise": "LabelNoise", "softplus_counts": "SoftplusCounts", "known_noise": "KnownNoise"}
ENDLESS = '''
from flyrun.extend import RowLikelihood, option


@option("model", "endless")
class Endless(RowLikelihood):
    """Counts of mean e^eta."""

    task, link = "counts", "log"
    log_likelihood = staticmethod(lambda eta, y: y * eta - np.exp(eta))
    slope = staticmethod(lambda eta, y: y - np.exp(eta))
    curvature = staticmethod(lambda eta, y: np.exp(eta) + 0.0 * y)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder of the package, as pip would leave it, and a table of labels that flip and of counts."""
    folder = tmp_path_factory.mktemp("rows")
    points = [f"models: {name} = flyrun_rows:{cls}" for name, cls in NAMES.items()]
    install(folder, *points, "models: endless = flyrun_endless:Endless", package="flyrun-rows")
    shutil.copy(ROWS / "flyrun_rows.py", folder)
    (folder / "flyrun_endless.py").write_text(f"import numpy as np\n{ENDLESS}")
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    eta = 2.0 * x - 0.5
    y = rng.random(1500) < 0.05 + 0.9 / (1.0 + np.exp(-eta))
    rows = zip(x, np.where(y, "yes", "no"), rng.poisson(np.logaddexp(0.0, eta)), strict=True)
    lines = ["x,y,c", *(f"{a:.4f},{b},{c}" for a, b, c in rows)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def copy():
    with copies() as made:
        yield made


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "model"), [("y", "label_noise"), ("c", "softplus_counts")])
def test_a_fit_takes_it(copy, site, target, model):
    done = copy.flyrun(site, "fit", "t.csv", f"{target} ~ x", "--model", model, "--name", model)
    assert done.returncode == 0, done.stderr
    fit = json.loads((site / f"results/runs/{model}/fit.json").read_text())
    intercept, slope = fit["coefficients"]
    assert slope["mean"] == pytest.approx(2.0, abs=4 * slope["sd"])
    assert slope["sd"] < 0.2
    assert intercept["mean"] == pytest.approx(-0.5, abs=4 * intercept["sd"])
    done = copy.flyrun(site, "predict", model, "t.csv", "--out", f"{model}.csv")
    assert done.returncode == 0, done.stderr
    assert "exp" not in done.stderr
    refused = copy.flyrun(site, "fit", "t.csv", f"{target} ~ x", "--model", model, "--name", "e", "--exp")
    assert refused.returncode == 2
    assert "--exp" in refused.stderr


@pytest.mark.thorough
def test_arms_on_a_table_and_bounds_that_there_are_none_of(copy, site):
    table = ["dataset=table", "dataset.path=t.csv", "dataset.target=c", "dataset.drop=[y]"]
    arm = [
        "prior=gaussian",
        "sampler=random_walk",
        "protocol=smoke",
        "protocol.seeds=1",
        "executor.workers=1",
    ]
    counts = "dataset.task=counts"
    done = copy.flyrun(site, *table, counts, "model=softplus_counts", "bound=map", *arm, "name=map")
    assert done.returncode == 0, done.stderr
    done = copy.flyrun(site, *table, counts, "model=endless", "bound=map", *arm, "name=endless")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "error" in line]
    assert "model=endless: −∂²log L/∂η² grows without end" in line
    assert "choose bound=none" in line
    done = copy.flyrun(site, *table, counts, "model=endless", "bound=none", *arm, "name=endless")
    assert done.returncode == 0, done.stderr
