"""What flyrun never does: load a pickle, evaluate text, make objects by dotted path, reach for a network."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flyrun
from flyrun.ground.paths import conf_dir

PACKAGE = Path(flyrun.__file__).parent

MODULES = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
NAMES = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "instantiate", "get_class", "system"}
ALLOWED = {
    # numba's compiled code, as numba itself keeps it, in a folder that only the user can write
    ("ground/numerics/compile_cache.py", "pickle"),
    ("ground/numerics/compiled.py", "exec"),  # a wrapper with the names of a function's own parameters
    # Hydra's own module, as installed, again with its assert statements under python -O
    ("experiments/config/overrides.py", "exec"),
    ("experiments/config/overrides.py", "compile"),
    ("experiments/config/plugins.py", "import_module"),  # the code of an option that a class registers
    ("families/domains.py", "import_module"),  # the family of a model that a package brings
    ("families/one_function.py", "exec"),  # what JAX traced of a package's likelihood, written out
    ("families/one_function.py", "compile"),
    ("experiments/models/compiled_families.py", "exec"),  # a tuple as long as a family has predictors
    ("experiments/models/compiled_families.py", "eval"),  # a typer with a function's own parameters
    (
        "experiments/models/compiled_families.py",
        "import_module",
    ),  # the files that a family's functions stand in
    ("experiments/samplers/method.py", "import_module"),  # the family that a sampler's class names
}


def offences(tree: ast.AST):
    """(line, what) of everything in a module that flyrun does not do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield node.lineno, node.module
        elif isinstance(node, ast.Constant) and node.value == "_target_":
            yield node.lineno, "_target_"
        elif isinstance(node, ast.Call) and (what := _offence(node)):
            yield node.lineno, what


def _offence(call: ast.Call) -> str:
    given = {word.arg: getattr(word.value, "value", None) for word in call.keywords}
    if isinstance(call.func, ast.Name):
        return call.func.id if call.func.id in NAMES else ""
    if not isinstance(call.func, ast.Attribute):
        return ""
    name, owner = call.func.attr, getattr(call.func.value, "id", "")
    if name in ATTRIBUTES or given.get("shell") or given.get("allow_pickle"):
        return name
    if (owner, name) == ("np", "load") and given.get("allow_pickle", True):
        return "np.load that may unpickle"
    if (owner, name) == ("yaml", "load"):
        return "yaml.load"
    if name == "import_module" and not _within_flyrun(call.args[0]):
        return "import_module"
    return ""


def _within_flyrun(argument: ast.expr) -> bool:
    """Whether a module's name is, or begins with, text that starts with flyrun."""
    if isinstance(argument, ast.JoinedStr):
        argument = argument.values[0]
    return isinstance(argument, ast.Constant) and str(argument.value).startswith("flyrun.")


def test_no_pickle_no_eval_no_dotted_paths():
    found = [
        f"{name}:{line}: {what}"
        for path in PACKAGE.rglob("*.py")
        for line, what in offences(ast.parse(path.read_text("utf-8")))
        if ((name := path.relative_to(PACKAGE).as_posix()), what) not in ALLOWED
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader)",
        "hydra.utils.instantiate(config)",
        "importlib.import_module(config.path)",
        "importlib.import_module(f'{name}.load')",
        "subprocess.run(line, shell=True)",
        "config['_target_']",
    ],
)
def test_each_offence_would_be_found(text):
    assert list(offences(ast.parse(text)))


def test_no_yaml_names_a_class_to_make():
    assert not [path for path in conf_dir().rglob("*.yaml") if "_target_" in path.read_text("utf-8")]


GUARD = """
import sys

FORBIDDEN = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}

def refuse(event, arguments):
    if event not in FORBIDDEN:
        return
    if event in ("socket.connect", "socket.bind") and isinstance(arguments[1], (str, bytes)):
        return  # a socket of the file system
    open(MARK, "a").write(f"{event} {arguments}\\n")
    raise RuntimeError(f"the network is forbidden here: {event} {arguments}")

sys.addaudithook(refuse)
"""


@pytest.mark.thorough
def test_a_run_from_committed_data_reaches_for_no_network(tmp_path):
    """Sockets are refused in the parent and in its worker processes; sockets of the file system are not."""
    mark = tmp_path / "reached"
    (tmp_path / "sitecustomize.py").write_text(GUARD.replace("MARK", repr(str(mark))))
    path = os.pathsep.join([str(tmp_path), str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    words = [
        "experiment=mnist_logreg",
        "only=map_tuned",
        "dataset.limit=500",
        "protocol=smoke",
        "executor.workers=2",
    ]
    command = [sys.executable, "-m", "flyrun", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()
    tried = "import socket; socket.create_connection(('127.0.0.1', 9))"
    refused = subprocess.run([sys.executable, "-c", tried], env=environment, capture_output=True, text=True)
    assert "the network is forbidden here" in refused.stderr
    assert mark.exists()
