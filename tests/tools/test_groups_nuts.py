"""`make bench_groups_nuts`: tables are the same again, wrong answers are told, and the page says so."""

import numpy as np
import pandas as pd
import pytest

from tools.groups import against_nuts
from tools.groups.against_nuts import TABLES, apart, page, row_of
from tools.groups.beside import Answer, effects_of


def answer(stretch: float = 1.0, shift: float = 0.0, refused: str = "", seed: int = 0) -> Answer:
    """Draws of a coefficient and of an sd whose log is normal."""
    z = np.random.default_rng(seed).standard_normal((2, 4, 4_000)) * stretch + shift
    return Answer({"x": 3.0 + 2.0 * z[0], "sd(g)": np.exp(0.4 * z[1])}, refused, "8 chains of 500 draws")


def test_tables_are_twelve_and_the_same_again() -> None:
    assert len({table.name for table in TABLES}) == 12
    for table in TABLES:
        case = table.case()
        assert case.frame.equals(table.case().frame)
        assert len(case.frame) == table.rows
        assert case.frame[list(case.columns)].mean().abs().max() < (0.2 if case.trials else 1e-12)


@pytest.mark.parametrize(("stretch", "shift"), [(0.85, 0.0), (1.15, 0.0), (1.0, 0.2)])
def test_wrong_answers_are_told_negative_control(stretch: float, shift: float) -> None:
    case, known = TABLES[0].case(), answer()
    for its in apart(answer(seed=1), known):
        assert not its.wrong
        assert its.of_wide == pytest.approx(16_000**-0.5, rel=0.1)
    right = row_of(case, answer(seed=1), known, 4e3)
    wrong = row_of(case, answer(stretch, shift, seed=1), known, 4e3)
    refused = row_of(case, answer(stretch, shift, "chains do not agree", seed=1), known, 4e3)
    unsettled = row_of(case, answer(seed=1), answer(refused="R-hat 1.05"), 4e3)
    outcomes = [row["outcome"] for row in (right, wrong, refused, unsettled)]
    assert outcomes == ["right", "wrong", "exit code 3", "not settled"]
    assert (right["beyond"], wrong["beyond"]) == (0, 2)
    text = page(pd.DataFrame([right, wrong]))
    assert "- slopes, normal: wrong x; sd(g)." in text
    assert "2 of 4" in text


def test_a_number_that_the_answer_lacks_is_an_error() -> None:
    with pytest.raises(KeyError):
        apart(Answer({"x": np.zeros((4, 100))}, "", ""), answer())


def test_numbers_of_three_effects_are_named_as_a_fit_names_them() -> None:
    rng = np.random.default_rng(0)
    case = next(table for table in TABLES if table.columns == ("x", "z")).case()
    sds, u = np.exp(rng.standard_normal((2, 5, 3))), rng.standard_normal((2, 5, 4, 3))
    found = effects_of(case.bars[0], list("abcd"), sds, u, rng.uniform(-1.0, 1.0, (2, 5, 3)))
    assert [name for name in found if name[:3] in ("sd(", "cor")] == [
        "sd(g)", "sd(x by g)", "sd(z by g)", "cor(x by g)", "cor(z by g)", "cor(x, z by g)",
    ]  # fmt: skip
    assert np.array_equal(found["g[b] z"], u[:, :, 1, 2])
    assert against_nuts.SETTINGS == {"warm_up": 1_500, "draws": 2_500, "accepted": 0.95}
