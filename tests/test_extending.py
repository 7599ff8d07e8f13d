"""docs/extending.md and inside.md walked through: new files where they say, commands run as printed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = "\n".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("inside", "extending"))
FENCED = r"`([^`]+)`:\n\n```\w+\n(.*?)```"
NEW = re.findall(rf"^New file {FENCED}", TEXT, re.DOTALL | re.MULTILINE)
APPENDED = re.findall(rf"^Appended to {FENCED}", TEXT, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^\$ (flyrun .*)$", TEXT, re.MULTILINE)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout that somebody has extended, with a package beside it as pip would leave it."""
    root = tmp_path_factory.mktemp("extended")
    own = ("flyrun", "conf", "datasets/registry.yaml", "results/reference", "pyproject.toml")
    for name in (*own, "docs/generate.py"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, root / name)
    for name, text in NEW:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        assert not (root / name).exists(), name
        (root / name).write_text(text, encoding="utf-8")
    for name, text in APPENDED:
        with open(root / name, "a", encoding="utf-8") as file:
            file.write(f"\n\n{text}")
    made = run(root, "docs/generate.py")
    assert made.returncode == 0, made.stderr
    shutil.copy(root / "flyrun-plain-walk/flyrun_plain_walk.py", root)
    project = tomllib.loads((root / "flyrun-plain-walk/pyproject.toml").read_text())["project"]
    told = root / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (group,) = project["entry-points"]
    points = [f"{name} = {value}" for name, value in project["entry-points"][group].items()]
    (told / "entry_points.txt").write_text("\n".join([f"[{group}]", *points, ""]))
    return root


def run(checkout, *words, compiled=True):
    environment = {**os.environ, "PYTHONPATH": str(checkout), "NUMBA_DISABLE_JIT": str(int(not compiled))}
    return subprocess.run(
        [sys.executable, *words], cwd=checkout, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_text_has_all_of_it():
    assert len(NEW) == 8
    assert len(APPENDED) == 5
    assert len(COMMANDS) == 7


TYPED = """
import contextlib, io, json, sys, traceback
from flyrun.ground import children
from flyrun.cli.main import main
from flyrun.ground.page import figures
from flyrun.experiments.runner import executors

figures.saved = lambda figure: (b"", "")  # a fifth of the time
ended, commands = {}, json.loads(sys.argv[1])
try:
    exec(sys.argv[2])
except Exception:
    ended["imports"] = 1, traceback.format_exc()
for command in commands:
    # the last one's cells, of a package's sampler, run in worker processes, which take seconds to start
    executors.cores = children.cores if command == commands[-1] else lambda: 1
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(command.split()[1:])
    ended[command] = code, said.getvalue()
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def ended(checkout):
    """Command -> exit code and what it said, all typed in one process of the extended checkout, which has
    first done the text's imports.

    Not compiled, which takes longer than 300 iterations; below what is added is, all of it at once.
    """
    lines = re.findall(r"^from flyrun\S* import (?:\([^)]*\)|.*$)", TEXT, re.MULTILINE)
    done = run(checkout, "-c", TYPED, json.dumps(COMMANDS), "\n".join(lines), compiled=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_imports_are_where_it_says(ended):
    assert "imports" not in ended, ended["imports"][1]


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(ended, command):
    code, said = ended[command]
    assert code == 0, said


@pytest.mark.thorough
def test_what_the_text_adds_compiles(checkout):
    arm = ["dataset=toy_2d", "model=logistic", "sampler=random_walk", "protocol=smoke", "executor.workers=1"]
    added = ["acceptance=barker", "brightness=everyone", "bound=origin", "sampler=walk"]
    done = run(checkout, "-m", "flyrun", *arm, *added)
    assert done.returncode == 0, done.stdout + done.stderr


MOMENTS = """
import numpy as np
from types import SimpleNamespace
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance import barker
from flyrun.experiments.samplers.chain.brightness import everyone, implicit
from tests.exactness.chains import TOYS, firefly_target, sample, z_scores

problem = TOYS["logistic"]()
n_data = problem.features.rows.shape[0]
kernel = random_walk.build(SimpleNamespace(target_accept=0.3, step=None), 2)
usual, all_of_them = implicit.implicit(0.2, n_data), everyone.build(None, n_data, np.empty(0))
for rule, brightness in ((barker.Barker(), usual), (kernel.rule, all_of_them)):
    target = firefly_target(problem)
    draws = sample(target, kernel._replace(rule=rule), brightness, np.zeros(2), 100_000, seed=5)
    print(np.abs(z_scores(draws.theta, problem)).max())
"""


@pytest.mark.slow
def test_what_the_text_adds_is_exact(checkout):
    shutil.copytree(ROOT / "tests", checkout / "tests", dirs_exist_ok=True)
    done = run(checkout, "-c", MOMENTS)
    assert done.returncode == 0, done.stderr
    assert max(map(float, done.stdout.split())) < 4.5  # four scores each: fails once in 18,000 runs
