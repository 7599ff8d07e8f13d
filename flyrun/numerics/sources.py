"""Digests of source files: what compiled code, and what a cell's draws, depend on."""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import flyrun
from flyrun import files, paths

#: entry point group of other packages' samplers
GROUP = "flyrun.samplers"
#: what draws do not depend on: settings have a place of their own in a cell's key
_ASIDE = ("config", "errors", "paths", "files", "children")
PACKAGE = Path(flyrun.__file__).parent


def plugin_points() -> list[metadata.EntryPoint]:
    """The entry points of installed plug-ins, by name; none is imported."""
    return sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name)


def digest(files: Iterable[Path], root: Path) -> str:
    """Digest of files, their places under `root` included (12 hex digits)."""
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return total.hexdigest()[:12]


def of_compiled() -> str:
    """Digest of the files whose edit changes what is compiled: flyrun's numerical ones, all plug-ins'."""
    parts = ("numerics", "models", "samplers")
    files = (file for part in parts for file in sorted((PACKAGE / part).rglob("*.py")))
    plugins = "".join(f"{point.name}{_of_other(point.module)}" for point in plugin_points())
    return hashlib.sha256(f"{digest(files, PACKAGE)}{plugins}".encode()).hexdigest()[:12]


def of_modules(names: Iterable[str]) -> str:
    """Digest of modules and of all that they import, and that imports in turn: of flyrun and of plug-ins.

    An edit elsewhere leaves it as it is. A module of another package stands for that package.
    """
    own: set[Path] = set()
    others: set[str] = set()
    waiting, known = list(names), _Known()
    while waiting:
        name = waiting.pop()
        if name.partition(".")[0] != "flyrun":
            others.add(name.partition(".")[0])
        elif (file := _file(name)) is not None and file not in own:
            own.add(file)
            waiting += known.imports(file)
    known.keep()
    return "".join([digest(sorted(own), PACKAGE), *map(_of_other, sorted(others))])


@functools.cache
def _file(name: str) -> Path | None:
    """Of a module of flyrun; None for a name that is none, as of a function."""
    parts = name.split(".")[1:]
    if parts[:1] and parts[0] in _ASIDE:
        return None
    path = PACKAGE.joinpath(*parts)
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


class _Known:
    """What files import, by the digest of their content, kept in the cache: to parse them all takes 0.1 s."""

    def __init__(self) -> None:
        self.place, self.new = paths.cache_dir("sources") / "imports.json", False
        try:
            self.found: dict[str, list[str]] = json.loads(self.place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.found = {}

    def imports(self, file: Path) -> list[str]:
        """Modules of flyrun that a file imports, with the packages that they lie in."""
        content = file.read_bytes()
        key = hashlib.sha256(content).hexdigest()
        if key not in self.found:
            self.found[key], self.new = _imports(content), True
        return self.found[key]

    def keep(self) -> None:
        """Write what is new."""
        if self.new:
            with contextlib.suppress(OSError):
                self.place.parent.mkdir(parents=True, exist_ok=True)
                files.write_json(self.place, self.found)


def _imports(content: bytes) -> list[str]:
    found = []
    for node in _statements(ast.parse(content)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    parts = [name.split(".") for name in found if name.partition(".")[0] == "flyrun"]
    return list(dict.fromkeys(".".join(words[:n]) for words in parts for n in range(1, len(words) + 1)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements, without what they are made of: nine tenths of a walk through all nodes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from _statements(child)


def _of_other(module: str) -> str:
    """Digest of the .py files of the package, or of the single file, that a module belongs to."""
    parts = [digest([file], root) for root, file in _files_of_package(module.partition(".")[0])]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:12]


def _files_of_package(package: str) -> Iterator[tuple[Path, Path]]:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return
    if spec.submodule_search_locations:
        for folder in map(Path, spec.submodule_search_locations):
            yield from ((folder.parent, file) for file in sorted(folder.rglob("*.py")))
    elif spec.origin:
        yield Path(spec.origin).parent, Path(spec.origin)
