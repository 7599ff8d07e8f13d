"""The house: arrows between packages point one way, and what is imported late says why."""

import ast
from pathlib import Path

import flyrun

PACKAGE = Path(flyrun.__file__).parent


def imports(tree, whole="flyrun"):
    """(line, dotted name) of every import of a module, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            base = (
                [f"{whole}.{alias.name}" for alias in node.names] if node.module == whole else [node.module]
            )
            yield from ((node.lineno, name) for name in base)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def arrows(root, whole=None):
    """Package or module of `root`, whose dotted name is `whole` -> those that it imports."""
    found, whole = {}, whole or root.name
    for file in sorted(root.rglob("*.py")):
        here = file.relative_to(root).parts[0].removesuffix(".py")
        for _, name in imports(ast.parse(file.read_text()), whole):
            other = name.removeprefix(f"{whole}.").partition(".")[0]
            if name.startswith(f"{whole}.") and other != here:
                found.setdefault(here, set()).add(other)
    return found


def circle(found):
    """Names that import each other in a circle; [] where there is none."""

    def walk(name, path):
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        done.add(name)
        return next((one for other in sorted(found.get(name, ())) if (one := walk(other, [*path, name]))), [])

    done = set()
    return next((one for name in sorted(found) if (one := walk(name, []))), [])


def test_no_circle_between_packages():
    assert circle(arrows(PACKAGE)) == []


def test_no_circle_between_files_of_the_runner():
    """Files that import each other, be it late, cannot be read one after the other."""
    assert circle(arrows(PACKAGE / "runner", "flyrun.runner")) == []


def test_a_circle_is_found(tmp_path):
    for name, text in {
        "a": "from house import b",
        "b": "def f():\n    import house.c",
        "c": "import house.a",
    }.items():
        (tmp_path / "house").mkdir(exist_ok=True)
        (tmp_path / "house" / f"{name}.py").write_text(text.replace("from house import b", "import house.b"))
    assert set(circle(arrows(tmp_path / "house"))) == {"a", "b", "c"}


def test_who_stands_above_whom():
    found = arrows(PACKAGE)
    for below, above in {
        "numerics": {"models", "samplers", "runner", "config", "report", "cli"},
        "models": {"samplers", "runner", "report", "compare", "fit", "cli"},
        "samplers": {"gold", "runner", "report", "compare", "fit", "cli"},
        "runner": {"report", "compare", "fit", "check", "cli"},
        "config": {"data", "models", "samplers", "runner", "report", "fit", "cli"},
        "gold": {"runner", "report", "compare", "fit", "check", "cli"},
        "report": {"compare", "fit", "check", "cli"},
    }.items():
        assert not found.get(below, set()) & above, below


def late(source):
    """(line, text) of imports inside functions whose line, or the one above, does not say `# late`."""
    lines = source.splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in (node for function in functions for node in ast.walk(function)):
        said = isinstance(node, (ast.Import, ast.ImportFrom)) and lines[node.lineno - 2 : node.lineno]
        if said and not any("# late" in line for line in said):
            yield node.lineno, lines[node.lineno - 1].strip()


def test_what_is_imported_late_says_why():
    silent = [
        f"{file.relative_to(PACKAGE).as_posix()}:{line}: {text}"
        for file in PACKAGE.rglob("*.py")
        for line, text in late(file.read_text(encoding="utf-8"))
    ]
    assert silent == []
    assert list(late("def f():\n    import numpy"))
