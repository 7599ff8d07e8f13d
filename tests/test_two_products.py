"""Two products on one ground: a fit of a table and experiments do not import each other."""

import pytest

from tests.test_layout import PACKAGE, arrows

#: package -> those that it may import; whoever reads on imports what its package may
MAY = {
    "ground": set(),
    "families": {"ground"},
    "tables": {"ground", "families"},
    "fitting": {"ground", "families", "tables"},
    "experiments": {"ground", "families", "tables", "extend"},
    "cli": {"ground", "families", "tables", "fitting", "experiments", "extend"},
}


def test_there_are_no_others():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(MAY)


@pytest.mark.parametrize("package", MAY)
def test_arrows_point_down_and_none_joins_the_products(package):
    assert arrows(PACKAGE).get(package, set()) - {"__version__"} <= MAY[package]


def test_an_arrow_is_seen(tmp_path):
    """The control, an import that comes late and one of the whole package."""
    house = tmp_path / "house"
    for name, text in {
        "fitting": "def f():\n    from house.experiments.runner import launch",
        "experiments": "from house import fitting",
    }.items():
        (house / name).mkdir(parents=True)
        (house / name / "a.py").write_text(text)
    assert arrows(house) == {"fitting": {"experiments"}, "experiments": {"fitting"}}
