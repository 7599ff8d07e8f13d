"""Digests of source files: what compiled code, and what a cell's draws, depend on."""

import ast
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import flyrun
from flyrun.ground import paths

#: what draws do not depend on: settings have a place of their own in a cell's key
_ASIDE = (
    "flyrun.extend", "flyrun.experiments.config", "flyrun.families.options", "flyrun.tables.options",
    "flyrun.tables.dataset_options", "flyrun.ground.schema", "flyrun.ground.executor",
    "flyrun.ground.errors", "flyrun.ground.paths", "flyrun.ground.files", "flyrun.ground.children",
)  # fmt: skip
PACKAGE = Path(flyrun.__file__).parent


def plugin_points() -> list[metadata.EntryPoint]:
    """The entry points of installed plug-ins, by group and name; none is imported."""
    every = metadata.entry_points()  # once: it reads a file of each installed distribution
    groups = (group for group in every.groups if group.startswith("flyrun."))
    points = (point for group in groups for point in every.select(group=group))
    return sorted(points, key=lambda point: (point.group, point.name))


def digest(files: Iterable[Path], root: Path) -> str:
    """Digest of files, their places under `root` included (12 hex digits)."""
    total = hashlib.sha256()
    for file in files:
        total.update(f"{_place(file, root)}\0{_source(file)[0]}".encode())
    return total.hexdigest()[:12]


@functools.cache
def _place(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix()


def of_modules(names: Iterable[str], bodies: Iterable[tuple[str, str]] = ()) -> str:
    """Digest of modules and of all that they import, and that imports in turn: of flyrun and of plug-ins.

    An edit elsewhere leaves it as it is. A module of a plug-in stands for all modules of its distribution.
    bodies: (module, module): the second counts where the first does.
    """
    files: set[Path] = set()
    others: dict[str, list[tuple[Path, Path]]] = {}
    waiting, seen, left = list(names), set[str](), set(bodies)
    lies_in = functools.cache(_lies_in)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        package = name.partition(".")[0]
        if name.startswith("flyrun.extend."):
            waiting += [home for home in _homes_of([name]) if home not in seen]
        elif package == "flyrun":
            if (file := _file(name)) is not None and file not in files:
                files.add(file)
                waiting += _source(file)[1][0]
        elif package not in others:
            others[package] = list(_modules_of(package))
            for root, file in others[package]:
                flyruns, packages = _source(file)[1]
                waiting += flyruns + _homes_of(flyruns) + [name for name in packages if lies_in(name, root)]
        if not waiting:
            called = {pair for pair in left if pair[0] in seen or pair[0].partition(".")[0] in others}
            waiting, left = [body for _, body in called], left - called
    _known(paths.cache_dir("sources")).keep()
    parts = [digest([file], root) for package in sorted(others) for root, file in others[package]]
    return hashlib.sha256("".join([digest(sorted(files), PACKAGE), *parts]).encode()).hexdigest()[:12]


def _homes_of(names: Iterable[str]) -> list[str]:
    """Where names lie that packages import of flyrun.extend, or as the last version had them."""
    extend = importlib.import_module("flyrun.extend")
    return [home for name in names for home in extend.homes_of(name)]


@functools.cache
def _file(name: str) -> Path | None:
    """Of a module of flyrun; None for a name that is none, as of a function."""
    if any(f"{name}.".startswith(f"{aside}.") for aside in _ASIDE):
        return None
    path = PACKAGE.joinpath(*name.split(".")[1:])
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _source(file: Path) -> tuple[str, list[list[str]]]:
    """The digest of a file's content, of a module's without docstrings, and what it imports."""
    now = os.stat(file)
    return _read(file, (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@functools.cache
def _read(file: Path, state: tuple[int, ...]) -> tuple[str, list[list[str]]]:
    # A run asks for some hundred files each time that it loads a compiled function.
    content = file.read_bytes()
    key = hashlib.sha256(content).hexdigest()
    if file.suffix != ".py":
        return key, [[], []]
    return _known(paths.cache_dir("sources")).of(key, content)


class _Known:
    """What is found in files, by the digest of their content, kept in the cache: to parse all takes 2 s."""

    def __init__(self, folder: Path) -> None:
        self.place, self.new = folder / "modules.json", False
        try:
            stored = json.loads(self.place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = {}
        self.found: dict[str, tuple[str, list[list[str]]]] = stored if isinstance(stored, dict) else {}

    def of(self, key: str, content: bytes) -> tuple[str, list[list[str]]]:
        """A module's digest without docstrings; what it imports of flyrun, with the packages of that; which
        other packages it imports."""
        if key not in self.found:
            tree = ast.parse(content)
            code = hashlib.sha256(_without_docstrings(tree, content)).hexdigest()
            self.found[key], self.new = (code, _imports(tree)), True
        return self.found[key]

    def keep(self) -> None:
        """Write what is new."""
        if self.new:
            from flyrun.ground import files  # late: numpy, which `flyrun --help` need not wait for

            files.keep(files.write_json, self.place, self.found)
            self.new = False


_known = functools.cache(_Known)


def _without_docstrings(tree: ast.Module, content: bytes) -> bytes:
    """What a module does: an edit of what only people read outdates nothing."""
    lines = content.splitlines(keepends=True)
    for node in (tree, *_statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None:
                top, last = first.lineno - 1, (first.end_lineno or first.lineno) - 1
                rest = lines[last][first.end_col_offset :]
                lines[top : last + 1] = [lines[top][: first.col_offset] + rest, *[b""] * (last - top)]
    return b"".join(lines)


def _imports(tree: ast.Module) -> list[list[str]]:
    names = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
            # of a module that is imported whole all names may be meant
            names += ["flyrun.extend.*" for alias in node.names if alias.name == "flyrun.extend"]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            names += ["flyrun.extend.*"] * (names[-1] == "flyrun.extend")
    parts = [name.split(".") for name in names]
    flyruns = (".".join(path[:n]) for path in parts if path[0] == "flyrun" for n in range(1, len(path) + 1))
    return [list(dict.fromkeys(flyruns)), sorted({path[0] for path in parts} - {"flyrun"})]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements, without what they are made of: nine tenths of a walk through all nodes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from _statements(child)


_MODULES = tuple(importlib.machinery.SOURCE_SUFFIXES + importlib.machinery.EXTENSION_SUFFIXES)


def _modules_of(package: str) -> Iterator[tuple[Path, Path]]:
    """Files of modules, and the folder that each is told from, of a package and of all that is installed
    with it."""
    packages, listed = {package}, set()
    for point in plugin_points():
        if point.dist is not None and point.module.partition(".")[0] == package:
            packages |= {other.module.partition(".")[0] for other in point.dist.entry_points} - {"flyrun"}
            for file in point.dist.files or ():
                if file.name.endswith(_MODULES) and file.parts[0] != "flyrun":
                    listed.add((Path(str(point.dist.locate_file(""))), Path(str(file.locate()))))
    for name in packages:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
            modules = (file for file in folder.rglob("*") if file.name.endswith(_MODULES))
            listed |= {(folder.parent, file) for file in modules}
        if spec and spec.origin and not spec.submodule_search_locations:
            listed.add((Path(spec.origin).parent, Path(spec.origin)))
    yield from sorted((root, file) for root, file in listed if file.is_file())


def _lies_in(package: str, folder: Path) -> bool:
    """Whether a plug-in's folder, not one where pip installs, holds another package that it imports."""
    there = (folder / package, *(folder / f"{package}{ending}" for ending in _MODULES))
    return any(place.exists() for place in there) and folder.resolve() not in _installed()


@functools.cache
def _installed() -> set[Path]:
    """Where pip installs."""
    return {Path(sysconfig.get_path(scheme)).resolve() for scheme in ("purelib", "platlib")}
