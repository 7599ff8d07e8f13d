"""Entry points of other packages, installed by nothing but their place on the path."""

import csv
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from flyrun.ground import environment
from tests.plugins.processes import copies

ROOT = Path(__file__).parents[2]
EXAMPLE = Path(__file__).with_name("flyrun_barker.py")
ARM = [
    "dataset=toy_2d",
    "model=logistic",
    "bound=map",
    "sampler=barker",
    "protocol=smoke",
    "protocol.seeds=1",
]


@pytest.fixture
def site(tmp_path):
    """A folder of packages with the example in it, as pip would leave it."""
    folder = tmp_path / "site"
    install(folder, "barker = flyrun_barker:Barker")
    shutil.copy(EXAMPLE, folder)
    return folder


def install(folder, *entry_points, package="flyrun-barker"):
    """As pip would leave a package: entry points of samplers, or of the group before a colon."""
    told = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    grouped = [point.rpartition(": ") for point in entry_points]
    lines = [f"[flyrun.{group or 'samplers'}]\n{point}\n" for group, _, point in grouped]
    (told / "entry_points.txt").write_text("\n".join(lines))


def python(site, *words, **variables):
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [sys.executable, *words], cwd=site, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def copy():
    with copies() as made:
        yield made


DIGESTS = f"""
from flyrun.experiments.config import compose
from flyrun.ground.numerics import code_digest
from flyrun.experiments.runner import cell
(arm,) = compose.compose_job({ARM!r}).arms
print(code_digest.of_modules(["flyrun_barker"]), cell.cell_key(arm))
"""


def digests(copy, site):
    done = copy.run(site, DIGESTS)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 60


@pytest.mark.thorough
def test_another_packages_sampler_runs_like_flyruns_own(copy, site):
    done = python(site, "-m", "flyrun", *ARM, "executor.workers=1")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader((site / "results/runs/barker-map/table.csv").open())
    assert row["update"] == "Barker"
    (told,) = (site / "results/runs/barker-map").glob("*/*/seed=0/cell.json")
    assert json.loads(told.read_text())["environment"]["packages"] == {"flyrun-barker": "1.0"}
    assert "flyrun-barker 1.0" in (site / "results/runs/barker-map/report.md").read_text()
    for words in (["list", "samplers"], ["info", "barker"]):
        assert "Barker's proposal" in copy.flyrun(site, *words).stdout
    assert "sampler.step" in copy.flyrun(site, *ARM, "sampler.stepp=1").stderr


def test_a_cell_names_the_package_and_the_libraries_that_are_loaded(site, monkeypatch):
    """Numba stands with flyrun's libraries; what it requires is loaded; no-such and an extra are left out."""
    told = site / "flyrun_barker-1.0.dist-info/METADATA"
    needs = ("numba>=0.5", "no-such", 'h5netcdf; extra == "x"', "flyrun")
    told.write_text(told.read_text() + "".join(f"Requires-Dist: {text}\n" for text in needs))
    monkeypatch.syspath_prepend(site)
    monkeypatch.setitem(sys.modules, "h5netcdf", sys.modules["csv"])
    expected = {"flyrun-barker": "1.0", "llvmlite": metadata.version("llvmlite")}  # numba's own requirement
    assert environment.packages(["flyrun_barker", "flyrun.ground.files"]) == expected
    monkeypatch.delitem(sys.modules, "llvmlite")
    assert environment.packages(["flyrun_barker"]) == {"flyrun-barker": "1.0"}
    assert environment.packages(["flyrun.ground.files"]) == {}


@pytest.mark.thorough
def test_an_edit_of_any_of_its_modules_changes_keys_and_cache(copy, site):
    """A digest holds all that decides: the module itself, one that it imports, one that its distribution's
    files list, a package beside it."""
    (site / "flyrun_barker.py").write_text(EXAMPLE.read_text() + "import barker_helper, barker_parts.inner\n")
    (site / "barker_parts").mkdir()
    for name in ("barker_helper.py", "other_module.py", "barker_parts/__init__.py", "barker_parts/inner.py"):
        (site / name).write_text('"""Nothing."""\n')
    (site / "flyrun_barker-1.0.dist-info/RECORD").write_text("flyrun_barker.py,,\nother_module.py,,\n")
    before = digests(copy, site)
    assert digests(copy, site) == before
    for installed in ("flyrun_barker.py", "barker_helper.py", "other_module.py", "barker_parts/inner.py"):
        with open(site / installed, "a") as file:
            file.write("# another line\n")
        before, after = digests(copy, site), before
        assert all(one != other for one, other in zip(before, after, strict=True)), installed


@pytest.mark.thorough
def test_an_edit_of_what_it_imports_of_flyrun_changes_its_digest(site, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "flyrun", copy / "flyrun", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from flyrun.ground.numerics import code_digest; print(code_digest.of_modules(['flyrun_barker']))"
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(site)])},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
        with open(copy / "flyrun/experiments/samplers/chain/targets/target.py", "a") as file:
            file.write("# another line\n")
    assert found[0] != found[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("barker = nowhere:Barker", "ModuleNotFoundError: No module named 'nowhere'"),
        ("barker = flyrun.ground.schema:show", "is no configuration class"),
        ("barker = flyrun.experiments.config.sampler:Sampler", "is not registered under its name"),
    ],
)
def test_a_broken_plug_in_harms_only_those_who_choose_it(copy, tmp_path, entry, text):
    site = tmp_path / "site"
    install(site, entry)
    done = copy.flyrun(site, *ARM)
    assert done.returncode == 2
    assert done.stderr.startswith("flyrun: error: sampler=barker: ")
    assert text in done.stderr
    assert "the package flyrun-barker" in done.stderr
    assert done.stderr.count("\n") == 1
    assert copy.flyrun(site, "list", "samplers").returncode == 0


PROBLEM = {
    "dataset": "drifts = flyrun_quakes:Drifts",
    "model": "logistic_noise = flyrun_quakes:LogisticNoise",
    "prior": "elastic_net = flyrun_quakes:ElasticNet",
}


@pytest.mark.thorough
def test_another_packages_data_likelihood_and_prior_run_like_flyruns_own(copy, tmp_path):
    """What needed a fork: data, a likelihood with its bound under Firefly Monte Carlo, and a prior."""
    install(tmp_path, *(f"{group}s: {point}" for group, point in PROBLEM.items()), package="flyrun-quakes")
    shutil.copy(EXAMPLE.with_name("flyrun_quakes.py"), tmp_path)
    words = [f"{group}={point.split()[0]}" for group, point in PROBLEM.items()]
    words += ["bound=map", "sampler=random_walk", "protocol=smoke", "protocol.seeds=1", "executor.workers=1"]
    # compiling takes longer than 300 iterations
    done = python(tmp_path, "-m", "flyrun", *words, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader((tmp_path / "results/runs/random_walk-map/table.csv").open())
    assert (row["dataset"], row["model"], row["n_data"]) == ("drifts", "logistic_noise", "40")
    assert float(row["bright_mean"]) < 20
    assert row["exact"] == "unknown"  # nothing proves another package's likelihood
    assert "nobody knows whether it follows the posterior" in done.stdout
    for group, point in PROBLEM.items():
        assert point.split()[0] in copy.flyrun(tmp_path, "list", group).stdout
    assert "model.scale=0.4" in copy.flyrun(tmp_path, "info", "logistic_noise").stdout
    text = (tmp_path / "flyrun_quakes.py").read_text()
    (tmp_path / "flyrun_quakes.py").write_text(text.replace("def fingerprint", "def digest"))
    said = copy.flyrun(tmp_path, *words).stderr
    assert "dataset=drifts: flyrun_quakes has no fingerprint(config)" in said
    assert said.count("\n") == 1


def test_a_broken_plug_in_of_any_group_harms_only_those_who_choose_it(copy, tmp_path):
    """A choice that cannot be made was tried where another's remedies were listed, and ended that run."""
    install(tmp_path, *(f"{group}s: broken = nowhere:Broken" for group in (*PROBLEM, "sampler")))
    usual = {"dataset": "toy_2d", "model": "logistic", "prior": "gaussian", "sampler": "gibbs"}
    for group in (*PROBLEM, ""):
        chosen = usual | {group: "broken"}
        done = copy.flyrun(tmp_path, *(f"{key}={value}" for key, value in chosen.items() if key))
        said = f"{group}=broken: cannot be loaded" if group else "with this model choose random_walk, "
        assert said in done.stderr
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.thorough
def test_none_takes_the_place_of_flyruns_own(copy, site):
    (site / "flyrun_barker.py").write_text(EXAMPLE.read_text().replace('"barker"', '"hmc"'))
    (site / "flyrun_barker-1.0.dist-info/entry_points.txt").write_text(
        "[flyrun.samplers]\nhmc = flyrun_barker:Barker\n"
    )
    assert "Duane et al. 1987" in copy.flyrun(site, "info", "hmc").stdout
    chosen = [word.replace("barker", "hmc") for word in ARM]
    for words in (chosen, ["prove", "hmc"], ["experiment=toy_flymc", "sampler=hmc"]):
        done = copy.flyrun(site, *words)
        assert "sampler=hmc: is flyrun's own, and the package flyrun-barker brings another" in done.stderr
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert copy.flyrun(site, "prove", "hmc.x").stderr.count("no choice that is proven has this name") == 1


MOMENTS = """
import numpy as np
from flyrun.experiments.config import compose
from flyrun.experiments.samplers.chain.brightness import implicit as brightness
from tests.exactness.chains import TOYS, firefly_target, sample, z_scores

compose.compose_job({arm!r})  # finds the plug-in as a run does
import flyrun_barker
problem = TOYS["logistic"]()
kernel = flyrun_barker.build(flyrun_barker.Barker(), 2)
target = firefly_target(problem, gradients=True)
sweep = brightness.implicit(0.2, problem.features.rows.shape[0])
draws = sample(target, kernel, sweep, np.zeros(2), 200_000, seed=11)
print(np.abs(z_scores(draws.theta, problem)).max())
"""


@pytest.mark.slow
def test_the_example_has_the_exact_moments(site, monkeypatch):
    """In a process of its own: compiled code that knows the example stays out of flyrun's own cache."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = python(site, "-c", MOMENTS.format(arm=ARM))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 4.5  # four scores: fails once in 36,000 runs
