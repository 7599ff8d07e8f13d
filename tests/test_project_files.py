"""The workflow, the linters before a commit and the bug form say what pyproject, make and the program say."""

import re
import tomllib

import yaml

from flyrun.cli.version import text
from flyrun.ground.paths import conf_dir

ROOT = conf_dir().parent


def read(path):
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_workflow_runs_ci_on_every_python_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    said = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"]
    ]
    job = read(".github/workflows/ci.yml")["jobs"]["run"]
    assert job["strategy"]["matrix"]["python"] == [one[1] for one in said if one]
    [step] = [step for step in job["steps"] if "run" in step]
    assert step["run"] == ".ci/run"
    assert step["env"].keys() == {"PYTHON"}
    assert "${PYTHON:-python3}" in (ROOT / ".ci/run").read_text("utf-8")


def test_before_a_commit_run_the_linters_of_make_lint():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    by_make = [line.strip().replace("$(VENV)", ".venv").removesuffix(" .") for line in lint[1].splitlines()]
    hooks = read(".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert [hook["entry"].removesuffix(" --force-exclude") for hook in hooks] == by_make


def test_the_bug_form_names_what_version_prints():
    form = read(".github/ISSUE_TEMPLATE/bug.yml")["body"]
    asked = next(item for item in form if item["id"] == "version")["attributes"]
    assert "`flyrun --version`" in asked["label"]
    words = {"flyrun": "version", "cpu": "processor", "platform": "system"}
    for line in text().splitlines():
        key = line.partition(" ")[0]
        assert words.get(key, key) in asked["description"].lower(), key
