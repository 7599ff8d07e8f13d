"""Groups in a formula: what is taken out of it, what stays, and what is refused with a remedy."""

import pytest

from flyrun.fitting.bars import Bar, split
from flyrun.ground.errors import FlyrunError


@pytest.mark.parametrize(
    ("formula", "rest", "bars"),
    [
        ("y ~ x", "y ~ x", []),
        ("y ~ x + (1 | g)", "y ~ x", [Bar(("g",))]),
        ("y ~ (1|g)", "y ~ 1", [Bar(("g",))]),
        ("died | trials ~ a*C(b) + (1 + a | `the clinic`) - 1", "died | trials ~ a*C(b) - 1",
         [Bar(("the clinic",), ("a",))]),
        ("log(y) ~ (a + b)**2 + (x | g) + (1 | h.2)", "log(y) ~ (a + b)**2",
         [Bar(("g",), ("x",)), Bar(("h.2",))]),
        ("y ~ -1 + (1 | g)", "y ~ - 1", [Bar(("g",))]),
        ("y ~ C(a, levels=['p|q', 'r+s']) + `a|b` + (1|g)", "y ~ C(a, levels=['p|q', 'r+s']) + `a|b`",
         [Bar(("g",))]),
        ("`y ~ 1` ~ `a|b` + (1 + `dose-rate` | `g|h`) + (1 | `0`)", "`y ~ 1` ~ `a|b`",
         [Bar(("g|h",), ("dose-rate",)), Bar(("0",))]),
        ("y ~ `~` + (1 + `1` | g)", "y ~ `~`", [Bar(("g",), ("1",))]),
        ("y ~ x + (x + z | g)", "y ~ x", [Bar(("g",), ("x", "z"))]),
        ("y ~ x + (0 + x | g) + (x - 1 | h)", "y ~ x",
         [Bar(("g",), ("x",), False), Bar(("h",), ("x",), False)]),
        ("y ~ x + (x || g) + (1 || h)", "y ~ x",
         [Bar(("g",), ("x",), correlated=False), Bar(("h",), correlated=False)]),
        ("y ~ (1 | g/s)", "y ~ 1", [Bar(("g",)), Bar(("g", "s"))]),
        ("y ~ (1 | `a:b`:`c/d`/e)", "y ~ 1", [Bar(("a:b", "c/d")), Bar(("a:b", "c/d", "e"))]),
        ("y ~ x + (1 + `a+b` | `p) + (q`)", "y ~ x", [Bar(("p) + (q",), ("a+b",))]),
    ],
)  # fmt: skip
def test_groups_are_taken_out_and_the_rest_is_a_formula(formula: str, rest: str, bars: list[Bar]) -> None:
    assert split(formula) == (rest, bars)
    for bar in bars:  # as it prints itself, it reads itself
        assert split(f"y ~ {bar}")[1] == [bar]


@pytest.mark.parametrize(
    ("formula", "remedy"),
    [
        ("y ~ (0 | g)", "(1 | g)"),
        ("y ~ (1 | mm(a, b))", "mm() is not fitted"),
        ("y ~ (1 | a/a)", "(1 | clinic/ward)"),
        ("y ~ (x + x | g)", "(1 + x | g)"),
        ("y ~ (x - z | g)", "make a column of z"),
        ("y ~ (log(x) | g)", "(1 + x | g)"),
        ("y ~ ( | g)", "(1 | g)"),
        ("y ~ x * (1 | g)", "+ (1 | clinic)"),
        ("y ~ x | g", "+ (1 | clinic)"),
        ("y ~ x - (1 | g)", "+ (1 | clinic)"),
        ("y ~ (1 | g) + (x | g)", "(1 + x | g)"),
    ],
)
def test_other_forms_are_refused_in_one_line(formula: str, remedy: str) -> None:
    with pytest.raises(FlyrunError) as refused:
        split(formula)
    assert remedy in str(refused.value)
    assert "\n" not in str(refused.value)
