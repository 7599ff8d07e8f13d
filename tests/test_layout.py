"""The house: arrows between packages point one way, and what is imported late says why."""

import ast
import importlib
from collections import Counter
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType

import flyrun
from flyrun.families.family import names
from flyrun.families.prior_kinds import KINDS

PACKAGE = Path(flyrun.__file__).parent


@cache  # each test of the house reads all of it
def parsed(file):
    """The tree of a Python file."""
    return ast.parse(file.read_text(encoding="utf-8"))


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
        for _, name in imports(parsed(file), whole):
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
    assert circle(arrows(PACKAGE / "experiments", "flyrun.experiments")) == []


def file_arrows(root, whole=None):
    """Dotted name of a file of `root` -> those of the files that it imports, be it late."""
    whole = whole or root.name
    names = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        names[".".join([whole, *(part for part in parts if part != "__init__")])] = file
    found = {}
    for name, file in names.items():
        for node in ast.walk(parsed(file)):
            wanted = []
            if isinstance(node, ast.ImportFrom) and node.module:
                each = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [one if one in names else node.module for one in each]
            elif isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            found.setdefault(name, set()).update(
                other for other in wanted if other in names and other != name
            )
    return found


def test_no_circle_between_files():
    """Files that import each other, be it late, cannot be read one after the other."""
    assert circle(file_arrows(PACKAGE)) == []


#: what a file of this name holds, wherever it lies: only such names may stand twice
MEANINGS = {
    "__init__": "a package",
    "arena": "every method's error against its cost: the verb, its section",
    "arms": "the arms of a run in a report",
    "base": "the base class of a package's options",
    "batches": "which rows a step looks at: drawn, and as an arm asks for them",
    "bundle": "the verb bundle, and its work",
    "build": "makes what a verb is asked for from what a run left",
    "cite": "the verb cite, and its work",
    "colours": "colours: the palette, those of arms",
    "compare": "the verb compare, and its work",
    "draws": "the draws of one cell on disk: written, read",
    "ess": "effective sample sizes: computed, shown",
    "figures": "figures: how they look and are saved, those of a run",
    "gibbs": "Gibbs sampling: its options, its kernel",
    "hogwild": "Hogwild Gibbs: its options, its section",
    "logistic": "logistic regression: its family, its compiled likelihood with bounds",
    "loop": "the compiled loop of a family",
    "method": "the contract of a method, and the family that it prepares",
    "metrics": "a number of a table: how it is said, those of arms",
    "mixture": "the mixture of two normals: its model, its samplers",
    "none": "no bounds, no brightness",
    "options": "options: of a table, of a regression",
    "poisson_estimator": "a density estimated by Poisson numbers of its terms: of a graph, of a likelihood",
    "predict": "a fit's predictions of new rows: the work, the verb",
    "prefetching": "prefetching: its options, its method, its section",
    "probit": "probit regression: its family, its compiled likelihood with bounds",
    "progress": "what is told while something takes time: of anything, of cells",
    "prove": "the verb prove, and its work",
    "publish": "the verb publish, and its work",
    "python": "a product from Python",
    "run": "a verb that runs chains: a bundle's again, the check's",
    "shards": "shards of data: cut, shown",
    "softmax": "softmax regression: its compiled model, its family",
    "student_t": "Student-t noise: its family, its compiled likelihood with bounds",
    "store": "what a package keeps on disk",
    "sweep": "the jobs of one sweep: run, tabled",
    "target": "what a method sees of a model",
    "taylor": "Taylor polynomials of log likelihoods: by row, summed",
    "weights": "weights of particles: computed, shown",
}


def test_files_of_one_name_hold_the_same():
    """A second file of a name is found by the first one's readers: it must mean the same."""
    stems = Counter(file.stem for file in PACKAGE.rglob("*.py"))
    twice = {stem for stem, count in stems.items() if count > 1}
    assert twice == set(MEANINGS)


def test_a_circle_is_found(tmp_path):
    for name, text in {
        "a": "from house import b",
        "b": "def f():\n    import house.c",
        "c": "import house.a",
    }.items():
        (tmp_path / "house").mkdir(exist_ok=True)
        (tmp_path / "house" / f"{name}.py").write_text(text.replace("from house import b", "import house.b"))
    assert set(circle(arrows(tmp_path / "house"))) == {"a", "b", "c"}
    assert set(circle(file_arrows(tmp_path / "house"))) == {"house.a", "house.b", "house.c"}


def missing_modules(root):
    """Files of the project that import a module of flyrun or of its tools that is not there."""
    folders = ("flyrun", "flyrun_peers", "tools", "tests", "docs", "datasets", "results")
    for file in (path for folder in folders for path in sorted((root / folder).rglob("*.py"))):
        for whole in ("flyrun", "tools"):
            for line, name in imports(parsed(file), whole):
                path = root.joinpath(*name.split("."))
                there = path.is_dir() or path.with_suffix(".py").is_file() or name.count(".") == 1
                if name.startswith(f"{whole}.") and not there:
                    yield f"{file.relative_to(root)}:{line}: {name}"


def test_scripts_import_what_is_there():
    """Scripts beside a reference or a data set too, which no other test runs."""
    assert not list(missing_modules(PACKAGE.parent))


def test_a_module_that_moved_is_missed(tmp_path):
    for path, text in {
        "flyrun/ground/errors.py": "",
        "results/make.py": "from flyrun.ground.errors import DataError\nimport flyrun.config.compose",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    assert list(missing_modules(tmp_path)) == ["results/make.py:2: flyrun.config.compose"]


def test_who_stands_above_whom():
    """Of experiments; test_two_products has the packages that it stands beside."""
    found = arrows(PACKAGE / "experiments", "flyrun.experiments")
    for below, above in {
        "models": {"samplers", "runner", "report", "compare"},
        "samplers": {"gold", "runner", "report", "compare"},
        "runner": {"report", "compare", "check"},
        "config": {"data", "models", "samplers", "runner", "report"},
        "gold": {"runner", "report", "compare", "check"},
        "report": {"compare", "check"},
    }.items():
        assert (PACKAGE / "experiments" / below).is_dir()
        assert not found.get(below, set()) & above, below


def late(source, tree):
    """(line, text) of imports inside functions whose line, or the one above, does not say `# late`."""
    lines = source.splitlines()
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in (node for function in functions for node in ast.walk(function)):
        said = isinstance(node, (ast.Import, ast.ImportFrom)) and lines[node.lineno - 2 : node.lineno]
        if said and not any("# late" in line for line in said):
            yield node.lineno, lines[node.lineno - 1].strip()


def test_what_is_imported_late_says_why():
    silent = [
        f"{file.relative_to(PACKAGE).as_posix()}:{line}: {text}"
        for file in PACKAGE.rglob("*.py")
        for line, text in late(file.read_text(encoding="utf-8"), parsed(file))
    ]
    assert silent == []
    text = "def f():\n    import numpy"
    assert list(late(text, ast.parse(text)))


def undocumented(module):
    """Public methods of a module's own classes that say nothing and override nothing that does."""
    for cls in [cls for cls in vars(module).values() if isinstance(cls, type)]:
        for name, method in vars(cls).items() if cls.__module__ == module.__name__ else ():
            written = isinstance(method, (FunctionType, property, cached_property, classmethod, staticmethod))
            said = any(vars(base)[name].__doc__ for base in cls.__mro__ if name in vars(base))
            private = "_" in (cls.__qualname__[0], name[0]) or name in getattr(
                cls, "__dataclass_fields__", ()
            )
            if written and not said and not private:
                yield f"{cls.__qualname__}.{name}"


def test_public_methods_say_what_they_do():
    for file in PACKAGE.rglob("*.py"):
        if file.stem not in ("__main__", "__init__", "dask_executor"):  # which run at once, or need an extra
            name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
            assert not list(undocumented(importlib.import_module(name))), name


def test_an_undocumented_method_is_found():
    class Base:
        def said(self):
            """Something."""

    class Derived(Base):
        def said(self):
            return 1

        def unsaid(self):
            return 1

    module = ModuleType("made")
    for cls in (Base, Derived):
        cls.__module__, cls.__qualname__ = "made", cls.__name__
    module.base, module.derived = Base, Derived
    assert list(undocumented(module)) == ["Derived.unsaid"]


#: names of families that mean something else there: a prior's kind, and what a target is fitted by unnamed
ELSEWHERE = {
    "scan/row_weights.py": {"gaussian"},
    "scan/many_files.py": {"binomial", "ordinal", "logistic"},
    "fitted_draws.py": {"probit"},
}


def families_named(tree):
    """Names of families that code compares with or imports; docstrings may have them."""
    known = set(names()) - set(KINDS)
    texts = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    imported = {
        alias.name.rpartition(".")[2]
        for each in ast.walk(tree)
        if isinstance(each, ast.Import | ast.ImportFrom)
        for alias in each.names
    }
    return known & (texts | imported)


def test_groups_scans_predictions_and_loo_learn_no_familys_name():
    home = PACKAGE / "fitting"
    files = [*sorted((home / "groups").glob("*.py")), *sorted((home / "scan").glob("*.py"))]
    others = ("predict", "fitted_draws", "loo", "comparisons", "weighted_draws", "mode")
    files += [home / f"{name}.py" for name in others]
    found = {str(file.relative_to(home)): families_named(parsed(file)) for file in files}
    assert len(found) > 40
    assert {name: some for name, some in found.items() if some} == ELSEWHERE
    assert families_named(ast.parse('if family.name == "tweedie": ...')) == {"tweedie"}  # the control
    assert families_named(ast.parse("from flyrun.families import weibull")) == {"weibull"}
