"""Two products on one ground: a fit of a table and experiments do not import each other."""

import ast
from pathlib import Path

import flyrun

ROOT = Path(flyrun.__file__).parent
#: what is of experiments alone
EXPERIMENTS = (
    "accuracy", "check", "compare", "config.compose", "gold", "models.problem", "plan", "prove",
    "report.build", "report.section", "report.sections", "report.summaries", "runner.launch", "runner.cell",
    "samplers",
)  # fmt: skip
#: what is of a fit alone
FITTING = ("fitting",)
#: both are reached from here
DOORS = ("api", "cli")


def imports(folder):
    """Each module of a folder, and what it imports of flyrun, without `flyrun.`."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            for name in names:
                if name.startswith("flyrun."):
                    yield path.relative_to(ROOT).as_posix(), name.removeprefix("flyrun.")


def arrows(folders, to):
    """Arrows from modules of these folders to these packages."""
    return {
        f"{path} -> {name}"
        for folder in folders
        for path, name in imports(folder)
        for one in to
        if name == one or name.startswith(f"{one}.")
    }


def test_a_fit_knows_no_experiment_and_an_experiment_no_fit():
    packages = [one.name for one in ROOT.iterdir() if one.is_dir() and one.name not in DOORS]
    assert arrows(FITTING, EXPERIMENTS) == set()
    assert arrows([one for one in packages if one not in FITTING], FITTING) == set()


def test_an_arrow_is_seen():
    """The control: verbs know both."""
    assert any(one.startswith("cli/verbs/fit.py -> fitting") for one in arrows(["cli"], FITTING))
    assert any("-> report.build" in one for one in arrows(["cli"], EXPERIMENTS))
