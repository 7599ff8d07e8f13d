"""flyrun.extend: what a package may import, documented and kept; what is said of what it does not have."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun import extend
from flyrun.ground.numerics import code_digest
from tests.plugins.processes import copies
from tests.plugins.rows import FOLDERS
from tests.plugins.test_plugins import ARM, EXAMPLE, install
from tests.stored import write_cell, write_run

ROOT = Path(__file__).parents[1]
TEXT = "\n".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("inside", "extending"))
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
PLUGINS = [path for folder in FOLDERS for path in sorted(folder.glob("flyrun_*.py"))]


def imports(source):
    """(module, name) of what a text imports of flyrun."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "flyrun":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names if one.name.partition(".")[0] == "flyrun")


@pytest.mark.parametrize("source", [*(path.read_text() for path in PLUGINS), *BLOCKS])
def test_packages_and_the_text_import_nothing_else(source):
    assert {module for module, _ in imports(source)} <= {"flyrun", "flyrun.extend"}


def test_the_test_of_imports_sees_others():
    assert [*imports("import flyrun.models\nfrom flyrun.models import passes")][1] == (
        "flyrun.models",
        "passes",
    )


def test_each_name_is_documented_and_used_where_tests_run_it():
    rows = re.findall(
        r"^\| (`.*?) \| (.+) \|$", "".join(re.split(r"^## What .* imports?$", TEXT, flags=re.M)[1:]), re.M
    )
    named = {name for row, _ in rows for name in re.findall(r"`(\w+)", row)}
    assert named == set(extend.__all__) - {"CONTRACT"}
    templates = (ROOT / "flyrun/cli/templates").rglob("*.py.tmpl")  # that tests/cli/test_new.py runs
    code = "".join([*BLOCKS, *(path.read_text() for path in (*PLUGINS, *templates))])
    used = re.sub(r"^from flyrun\.extend import .*$", "", code, flags=re.MULTILINE)
    for name in named:
        value = getattr(extend, name)
        assert inspect.getdoc(value), name
        if not (isinstance(value, type) and issubclass(value, Exception)):
            assert re.search(rf"\b{name}\b", used), f"{name}: no example runs it"


def test_an_auxiliary_number_of_the_text_has_its_prior():
    made = {}
    exec(next(block for block in BLOCKS if "SHAPE = " in block), made)
    assert made["SHAPE"].sampled == "log_shape"
    assert str(made["SHAPE"].prior) == "exponential(0.5)"
    assert made["Shaped"].auxiliary


def test_nothing_of_it_is_loaded_before_it_is_used():
    code = "import sys; from flyrun import extend; print('numpy' in sys.modules, 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "False"], done.stderr
    code = """if True:
        import sys
        from flyrun.ground.numerics import code_digest
        code_digest.plugin_points = list  # no package is installed
        from flyrun.cli.main import main
        main(["--help"])
        print(*sys.modules, sep="\\n")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "flyrun.cli.main" in done.stdout.splitlines(), done.stderr
    assert "flyrun.extend" not in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "loads"),
    [
        ("import flyrun_steps, flyrun_rows", False),
        ("from flyrun.extend import Auxiliary, Dataset, Domain, Facts, Family, Method, OnData", False),
        ("from flyrun.extend import bind", True),  # which a package needs within a function alone
    ],
)
def test_every_command_imports_a_package_s_top_without_waiting(line, loads):
    code = f"{line}\nimport sys; print(bool({{'numba', 'scipy.special', 'jax'}} & {{*sys.modules}}))"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(loads), done.stderr


def test_a_number_of_ones_own_is_in_a_section(tmp_path):
    """The text's section on a stored cell: its meter's number comes to table.csv by one Metric."""
    from flyrun.experiments.report import summaries

    (source,) = (block for block in BLOCKS if "SECTION = " in block)
    made = {"__name__": "flyrun.experiments.report.sections.costliest"}
    exec(source, made)
    root = write_run(tmp_path, {"regular": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed)
    section = made["SECTION"]
    cells = []
    for cell in summaries.store.open_cells(root):
        kept = section.summarise(summaries.Draws(cell))
        assert kept["most_queries"] == max(summaries.Draws(cell).values("sample_stats", "queries"))
        cells.append(SimpleNamespace(**kept))
    arm = SimpleNamespace(
        has=lambda *names: True, done=2, each=lambda name: np.array([getattr(one, name) for one in cells])
    )
    row = section.cells_of(None, arm)
    assert row["most_queries"] == np.mean([one.most_queries for one in cells])


def as_of_the_last_version(source):
    """The example as it was written before: `ranged`, and modules that have moved."""
    source = source.replace("setting", "ranged").replace('FLYRUN_CONTRACT = "1.0"', 'FLYRUN_CONTRACT = "0.9"')
    found = [name for _, name in imports(source)]
    source = re.sub(r"^from flyrun\\.extend import .*$|^# isort: split$", "", source, flags=re.MULTILINE)
    old = {
        "ranged": "config.schema",
        "option": "schema",
        "log_base": "models.base",
        "unsaved": "samplers.state",
    }
    old |= dict.fromkeys(("StepSize", "adapt", "step_size", "tune", "update"), "samplers.update")
    old |= dict.fromkeys(("kept_log_data", "log_data"), "samplers.target") | {"implements": "compiled"}
    old |= {"ThetaUpdate": "config.sampler"}
    lines = [f"from flyrun.{old.get(name, 'extend')} import {name}" for name in found]
    return source.replace("import numpy as np\n", "\n".join(["import numpy as np", *lines, ""]))


SLOPES = """
import numpy as np
from ext_slopes import slopes
from flyrun.extend import jit, log_base, log_data
from tests.exactness.chains import full_target, toy

@jit
def density(target, theta):
    return log_base(target.base, theta, None) + log_data(target, theta, None)

target, theta, found = full_target(toy(), gradients=True), np.array([0.3, -0.4]), np.empty(2)
slopes(target, theta, found)
for d, step in enumerate(1e-6 * np.eye(2)):
    numeric = (density(target, theta + step) - density(target, theta - step)) / 2e-6
    assert abs(found[d] - numeric) < 1e-6, (found, numeric)
"""


@pytest.mark.thorough
def test_the_slopes_of_the_text_are_those_of_the_density(tmp_path):
    (source,) = (block for block in BLOCKS if "def slopes" in block)
    (tmp_path / "ext_slopes.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "NUMBA_DISABLE_JIT": "0"}
    words = [sys.executable, "-c", SLOPES]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def copy():
    with copies() as made:
        yield made


def plug_in(tmp_path, source):
    install(tmp_path, "barker = flyrun_barker:Barker")
    (tmp_path / "flyrun_barker.py").write_text(source)
    return tmp_path


WARNED = """
import warnings
warnings.simplefilter("always", DeprecationWarning)
from flyrun.cli.main import main
raise SystemExit(main(["info", "barker"]))
"""


@pytest.mark.thorough
def test_names_of_the_last_version_are_served_with_a_warning(copy, tmp_path):
    site = plug_in(tmp_path, as_of_the_last_version(EXAMPLE.read_text()))
    done = copy.run(site, WARNED)
    assert done.returncode == 0, done.stderr
    assert "Barker's proposal" in done.stdout
    said = "flyrun.config.schema.ranged has moved, and the next version does not know it: write "
    assert f"DeprecationWarning: {said}`from flyrun.extend import setting`" in done.stderr
    for name in ("models.base.log_base", "samplers.update.adapt", "compiled.implements", "schema.option"):
        assert f"flyrun.{name} has moved" in done.stderr
    assert (
        copy.flyrun(site, "info", "barker").stderr == ""
    )  # Python shows these warnings to who asks for them
    code = "from flyrun.ground.numerics import code_digest; print(code_digest.of_modules(['flyrun_barker']))"
    assert len(copy.run(site, f"import flyrun.experiments.config.arm; {code}").stdout.strip()) == 12


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "option, ",
            "options, ",
            "imports options from flyrun.extend, which contract 1.0 does not have; write `from",
        ),
        (
            "import numpy as np",
            "import numpy as np\nfrom flyrun.samplers.updates import StepSize",
            "imports flyrun.samplers.updates, which contract 1.0 does not have; docs/extending.md lists",
        ),
        (
            "import numpy as np",
            "import numpy as np\nfrom flyrun.models.passes import log_base",
            "imports log_base from flyrun.models.passes, which contract 1.0 does not have; write `from",
        ),
        (
            'FLYRUN_CONTRACT = "1.0"',
            'FLYRUN_CONTRACT = "1.7"',
            "is written for contract 1.7, and this flyrun has",
        ),
        ('FLYRUN_CONTRACT = "1.0"', "FLYRUN_CONTRACT = 1", "states FLYRUN_CONTRACT = 1; write two numbers"),
    ],
)
def test_what_a_package_must_change_is_one_line(copy, tmp_path, old, new, text):
    site = plug_in(tmp_path, EXAMPLE.read_text().replace(old, new))
    done = copy.flyrun(site, *ARM)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"flyrun: error: sampler=barker: {text}"), done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.thorough(but="refused")
@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        pytest.param(
            lambda kernel: kernel.replace("metropolis, ", "metropoli, "),
            2,
            "imports metropoli from flyrun.extend",
            id="refused",
        ),
        pytest.param(lambda kernel: as_of_the_last_version(kernel), 0, "", id="served"),
    ],
)
def test_code_that_is_loaded_late_is_held_to_the_same(copy, tmp_path, change, code, text):
    """A class that names a kernel of its own, which keeps the command line quick."""
    head, _, body = EXAMPLE.read_text().partition('@unsaved(workspace=("work",))')
    config = "from typing import ClassVar\n\nfrom flyrun.extend import ThetaUpdate, option, setting\n\n\n"
    config += head[head.index("@option") :].replace(
        '    """Barker', '    kernel = "barker_kernel"\n\n    """Barker', 1
    )
    site = plug_in(tmp_path, config.replace('kernel = "barker_kernel"\n\n    ', ""))
    with open(site / "flyrun_barker.py", "a") as file:
        file.write('\n\nBarker.kernel = "barker_kernel"\n')
    kernel = head[: head.index("@option")] + '@unsaved(workspace=("work",))' + body
    (site / "barker_kernel.py").write_text(change(kernel))
    done = copy.flyrun(site, *ARM, "executor.workers=1")
    assert done.returncode == code, done.stderr
    assert text in done.stderr


def test_digests_follow_names_to_where_they_lie(tmp_path, monkeypatch):
    """A module that is imported whole stands for all of it; names of the last version for today's."""
    monkeypatch.syspath_prepend(tmp_path)
    found = {}
    for name, source in {
        "named": "from flyrun.extend import option",
        "whole": "import flyrun.extend as fx",
        "from_flyrun": "from flyrun import extend",
        "star": "from flyrun.extend import *",
        "old": "from flyrun.samplers.update import adapt",
    }.items():
        (tmp_path / f"ext_{name}.py").write_text(source + "\n")
        asked = set()
        monkeypatch.setattr(code_digest, "_file", lambda module, asked=asked: asked.add(module))
        code_digest.of_modules([f"ext_{name}"])
        found[name] = asked
    assert "flyrun.experiments.samplers.chain.update" not in found["named"]
    assert {"flyrun.ground.schema"} <= found["named"]
    assert "flyrun.experiments.samplers.chain.update" in found["old"]
    assert all(
        set(extend.homes_of("flyrun.extend.*")) <= found[name] for name in ("whole", "from_flyrun", "star")
    )
