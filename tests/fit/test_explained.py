"""Of fits with groups: shares of variance, R², sds where columns are at their means, figures of effects."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from flyrun.fitting import page_figures, stored
from flyrun.fitting.bars import read
from flyrun.fitting.groups.stored_effects import numbers, sd_names
from flyrun.fitting.python import Fit, fit
from flyrun.tables.layout import Column


def table(n: int = 600, groups: int = 60) -> pd.DataFrame:
    """A number, a count and two values of rows of clinics."""
    rng = np.random.default_rng(0)
    clinic, x = rng.integers(0, groups, n), rng.normal(5.0, 1.0, n)
    effect = rng.normal(0.0, [1.0, 0.4], (groups, 2))
    eta = 0.6 * (x - 5.0) + effect[clinic, 0] + effect[clinic, 1] * (x - 5.0)
    y = 20.0 + 3.0 * eta + rng.normal(0.0, 2.0, n)
    ill = np.where(rng.random(n) < expit(eta), "yes", "no")
    names = [f"clinic {k:02d} of the river's northern bank" for k in clinic]
    return pd.DataFrame({"x": x, "clinic": names, "y": y, "ill": ill, "falls": rng.poisson(np.exp(eta))})


FORMULAS = {
    "y": ("y ~ x + (1 + x | clinic)", "gaussian"),
    "ill": ("ill ~ x + (1 | clinic)", "logistic"),
    "falls": ("falls ~ x + (1 | clinic)", "poisson"),
}


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fit]:
    folder = str(tmp_path_factory.mktemp("fits"))
    return {
        name: fit(table(), formula, model=model, name=name, results_dir=folder)
        for name, (formula, model) in FORMULAS.items()
    }


def rows(fit: Fit) -> dict[str, dict[str, float]]:
    """What table.json holds, by name."""
    told = json.loads((fit.folder / "table.json").read_text(encoding="utf-8"))
    return {row["coefficient"]: row for row in told["rows"]}


@pytest.mark.parametrize("name", FORMULAS)
def test_shares_are_those_of_the_draws(fits: dict[str, Fit], name: str) -> None:
    """By hand, of each draw: variances over rows, and what a new group's effects would have."""
    made, data = fits[name], table()
    one, found = stored.fitted(made.folder), rows(made)
    even, _ = stored.draws(made.folder)
    its, x = one.effects[0], data["x"].to_numpy()
    z = np.column_stack([np.ones(len(x)), x])[:, : its.values.shape[2]]
    root = np.einsum("ni,sik->snk", z, its.triangle)
    by_groups = (root**2).sum(axis=2).mean(axis=1)
    columns = one.beta[:, 1] if one.layout.names[0] != "x" else one.beta[:, 0]
    plain = columns**2 * x.var()
    share = by_groups / (by_groups + plain)
    assert found["share(clinic)"]["mean"] == pytest.approx(share.mean(), abs=0.006)
    assert found["share(columns)"]["mean"] == pytest.approx(1.0 - share.mean(), abs=0.006)
    if name == "falls":
        assert "icc(clinic)" not in found
        return
    noise = even["sigma"].ravel()[its.draws] ** 2 if name == "y" else np.pi**2 / 3.0
    icc = by_groups / (by_groups + noise)
    assert found["icc(clinic)"]["mean"] == pytest.approx(icc.mean(), abs=0.006)
    assert found["icc(clinic)"]["q03"] == pytest.approx(np.quantile(icc, 0.03), abs=0.03)


@pytest.mark.parametrize("name", FORMULAS)
def test_r2_is_what_expected_targets_vary_by(fits: dict[str, Fit], name: str) -> None:
    made, data = fits[name], table()
    one = stored.fitted(made.folder)
    even, _ = stored.draws(made.folder)
    its, x = one.effects[0], data["x"].to_numpy()
    place = [its.levels.index(level) for level in data["clinic"]]
    plain = one.beta[:, -1:] + one.beta[:, :1] * x
    eta = plain + its.values[place, :, 0].T
    eta = eta + (its.values[place, :, 1].T * x if its.values.shape[2] == 2 else 0.0)

    def r2(eta: np.ndarray) -> float:
        mean = {"y": eta, "ill": expit(eta), "falls": np.exp(eta)}[name]
        sigma = even["sigma"].ravel()[its.draws] if name == "y" else None
        noise = {"ill": mean * (1.0 - mean), "falls": mean}.get(name)
        left = sigma**2 if sigma is not None else noise.mean(axis=1)
        return float((mean.var(axis=1) / (mean.var(axis=1) + left)).mean())

    found = rows(made)["R2"]
    assert found["mean"] == pytest.approx(r2(eta), abs=0.012)
    assert found["q03"] < found["mean"] < found["q97"]
    assert abs(r2(plain) - found["mean"]) > 0.05  # without groups: the control


def test_an_intercepts_sd_is_told_at_zero_and_at_the_columns_means(fits: dict[str, Fit]) -> None:
    found = rows(fits["y"])
    (where,) = (name for name in found if name.startswith("sd(clinic where x is "))
    assert found[where]["mean"] == pytest.approx(3.0, rel=0.25)
    assert found["sd(clinic)"]["mean"] > 1.5 * found[where]["mean"]
    assert not [name for name in rows(fits["ill"]) if "where" in name]
    (bar,) = read(["(1 + x | g)"])
    t = np.array([[[2.0, 0.0], [-0.3, 0.4]]])
    told = numbers(bar, t, [Column("x", mean=5.0, sd=1.0)])
    root = t[0, 0] + 5.0 * t[0, 1]
    assert told["sd(g where x is 5)"][0] == pytest.approx(np.sqrt(root @ root))
    assert told["sd(g)"][0] == pytest.approx(2.0)
    assert list(numbers(bar, t, [Column("x", mean=0.05, sd=1.0)])) == sd_names(bar)


def test_each_terms_effects_are_drawn_by_their_means(fits: dict[str, Fit]) -> None:
    told = stored.about(fits["y"].folder)
    plots = page_figures.of(told, "a title")
    panels = plots["effects_1"]().axes
    every = pd.read_csv(fits["y"].folder / "groups.csv")
    names = ["intercept", "intercept where x is " + f"{table()['x'].mean():.4g}", "x"]
    assert [axis.get_title() for axis in panels] == [f"{name} by clinic (40 of 60)" for name in names]
    for axis, effect in zip(panels, names, strict=True):
        means = np.sort(every[every["effect"] == effect]["mean"])
        drawn = axis.lines[0].get_xdata()
        assert np.allclose(drawn, [*means[:20], *means[-20:]])
        labels = [label.get_text() for label in axis.get_yticklabels()]
        assert all(len(label) == 4 for label in labels)  # what tells them apart
        assert len(set(labels)) == 40
    assert sorted(every["effect"].value_counts()) == [60, 60, 60]
    at = {name: part.set_index("level") for name, part in every.groupby("effect")}
    middle = at["intercept"]["mean"] + table()["x"].mean() * at["x"]["mean"]
    assert np.allclose(at[names[1]]["mean"], middle, atol=1e-4)
    assert (at[names[1]]["sd"] < 0.6 * at["intercept"]["sd"]).mean() > 0.9
    assert (Path(fits["y"].folder) / "figures/effects_1.png").exists()
    assert "calibration" in told["predictive"]
