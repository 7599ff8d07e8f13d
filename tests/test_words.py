"""Words of the code: names that say nothing only become fewer, and docstrings say shapes."""

import ast
import re

import pytest

from tests.test_layout import PACKAGE, parsed

#: say nothing of what they hold
EMPTY = {"found", "told", "made", "said", "own", "one", "words"}
_MOST_EMPTY, _LEAST_SHAPES, _MOST_ANY = 120, 0.9, 303
#: (n, D), (S,), (C, T, P)
_SHAPE = re.compile(r"\(\s*[^()\s,]+(?:\s*[-+·/*]\s*[^()\s,]+)*\s*,[^()]*\)")


def empty_names(tree):
    """Names of EMPTY that a module binds: variables, parameters, errors."""
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
        name = node.arg if isinstance(node, ast.arg) else name
        name = node.name if isinstance(node, ast.ExceptHandler) else name
        if name in EMPTY:
            yield name


def of_arrays(tree):
    """(name, docstring) of documented functions that take or return arrays."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            hints = [argument.annotation for argument in arguments] + [node.returns]
            if any("ndarray" in ast.unparse(hint) for hint in hints if hint is not None):
                yield node.name, text


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.thorough
def test_names_without_content_only_become_fewer():
    assert sum(1 for file in FILES for _ in empty_names(parsed(file))) <= _MOST_EMPTY


@pytest.mark.thorough
def test_docstrings_of_functions_of_arrays_state_shapes():
    documented = [(file.name, *function) for file in FILES for function in of_arrays(parsed(file))]
    silent = [(file, name) for file, name, text in documented if not _SHAPE.search(text)]
    assert len(silent) <= (1 - _LEAST_SHAPES) * len(documented), silent


@pytest.mark.thorough
def test_few_types_are_left_open():
    assert sum(len(re.findall(r": Any\b", file.read_text("utf-8"))) for file in FILES) <= _MOST_ANY


def test_what_is_counted_is_seen():
    source = "def f(one: np.ndarray) -> float:\n    'Of numbers (n,).'\n    found = [own for own in one]\n"
    assert sorted(empty_names(ast.parse(source))) == ["found", "one", "own"]
    ((_, text),) = of_arrays(ast.parse(source))
    assert _SHAPE.search(text)
    assert not _SHAPE.search("Of numbers (all of them).")
