"""Groups against NUTS, which samples every effect: references.json, by grouped_reference.py."""

import numpy as np
import pytest

from flyrun.fitting import weighted_draws
from flyrun.fitting.python import fit
from tests.fit import reference
from tests.fit.grouped_reference import TABLES


@pytest.mark.thorough(but=2)
@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("name", sorted(TABLES.keys() & reference.read().keys()))
def test_means_sds_and_effects_are_those_of_nuts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # of 5,000 draws sds are known to 2 to 3 %, and the farthest of five was 5.7 % off
    monkeypatch.setattr(weighted_draws, "ALL_DRAWS", 20_000)
    one, right = TABLES[name], reference.read()[name]
    assert right["rhat"] < 1.01
    found = fit(one.frame(), one.formula, model=one.model)
    summary, effects = found.summary(), found.groups
    # sds and effects at a column's mean follow from those at 0
    summary = summary[~summary.index.str.contains(" where ")]
    effects = effects[[" where " not in str(index) for index in effects.index]]
    mean, sd = (np.array([right[key][term] for term in summary.index]) for key in ("mean", "sd"))
    assert (np.abs(summary["mean"] - mean) < 0.1 * sd).all()
    assert (np.abs(summary["sd"] / sd - 1.0) < 0.05).all()
    levels = [index if isinstance(index, tuple) else (one.groups[0], index) for index in effects.index]
    terms = [_term(one, *level) for level in levels]
    assert len(terms) == sum(key.endswith("]") and key not in summary.index for key in right["mean"])
    mean, sd = (np.array([right[key][term] for term in terms]) for key in ("mean", "sd"))
    assert (np.abs(effects["mean"] - mean) < 0.15 * sd).all()  # of at most 1,000 draws
    # what groups' means say by themselves, unshrunken, would show
    assert (np.abs(effects["mean"] / (1.0 - effects["shrinkage"]) - mean) > 0.15 * sd).any()


def _term(one, first: str, second: str) -> str:
    """Of an effect: its factor and level, or of one with a slope its level and effect."""
    if not one.slope:
        return f"{first}[{second}]"
    group = one.groups[0]
    return f"{group}[{first}]" if second == "intercept" else f"{second} by {group}[{first}]"
