"""`flyrun fit` with groups: rows of the answer, files that are mapped, and what is refused in one line."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting import coefficients, engine, fitted_draws, predict, stored
from flyrun.fitting.groups import draw
from flyrun.fitting.python import fit, load
from flyrun.ground.errors import ConfigError
from flyrun.tables import loader


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    rng, n = np.random.default_rng(0), 200
    clinic, x = rng.integers(0, 10, n), rng.normal(50.0, 10.0, n)
    eta = 0.05 * (x - 50.0) + rng.normal(0.0, 1.0, 10)[clinic]
    pd.DataFrame(
        {
            "x": x,
            "clinic": [f"c{k}" for k in clinic],
            "ill": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"),
            "pain": 20.0
            + 3.0 * eta
            + rng.normal(0.0, 0.3, 10)[clinic] * (x - 50.0)
            + rng.normal(0.0, 2.0, n),
            "z": clinic,
            "always": "the same",
            "lab": [f"l{k % 3}" for k in range(n)],
            "colon": [f"a:{k % 5}" for k in range(n)],
        }
    ).to_csv("t.csv", index=False)


def rows(*words: str) -> dict[str, dict[str, float]]:
    """The answer's rows by name."""
    assert main(["fit", "t.csv", *words, "--fresh", "--quiet"]) == 0
    told = json.loads(Path("results/runs/t/fit.json").read_text(encoding="utf-8"))
    assert "group effects" in told["how"]
    return {row["coefficient"]: row for row in told["coefficients"]}


@pytest.mark.thorough
def test_sd_of_a_group_is_a_row_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows("ill ~ x + (1 | clinic)")
    assert list(found) == ["intercept", "x", "sd(clinic)"]
    assert 0.4 < found["sd(clinic)"]["mean"] < 2.5
    monkeypatch.setattr(loader, "IN_MEMORY", 1_000)  # rows stand times the target's sign there
    mapped = rows("ill ~ x + (1 | clinic)")
    for name, row in found.items():
        assert mapped[name]["mean"] == pytest.approx(row["mean"], abs=0.02 * row["sd"])


@pytest.mark.thorough
def test_chains_are_run_where_weighted_draws_tell_a_number_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "ESS", 100_000)  # of weighted draws: chains have their ESS elsewhere
    words = ["fit", "t.csv", "pain ~ x + (1 | clinic)", "--fresh", "--quiet"]
    assert main([*words, "--budget", "20"]) == 3  # iterations
    how = json.loads(Path("results/runs/t/fit.json").read_text(encoding="utf-8"))["how"]
    assert "8 chains of 20 draws" in how
    assert re.search(r"because only [\d,]+ effective ones tell ", how)


def test_slopes_and_noise_are_told_on_the_columns_own_scales() -> None:
    found = rows("pain ~ x + (1 + x | clinic)")  # normal noise by itself
    assert found["sigma"]["mean"] == pytest.approx(2.0, rel=0.2)
    assert 0.15 < found["sd(x by clinic)"]["mean"] < 0.6
    assert found["sd(clinic)"]["mean"] > 5.0  # where x is 0, five sds away
    assert found["cor(x by clinic)"]["q97"] < 0.0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("formula", ["pain ~ x + (1 | clinic)", "ill ~ x + (1 | clinic)"])
def test_chains_answer_where_weighted_draws_are_refused(
    formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(formula)

    def refused(*words: Any) -> Any:
        drawn = draw.draw(*words)
        return replace(drawn, weighted=replace(drawn.weighted, why="k̂ is 0.9"))

    monkeypatch.setattr(engine, "draw_groups", refused)
    assert main(["fit", "t.csv", formula, "--fresh", "--quiet"]) == 0
    told = json.loads(Path("results/runs/t/fit.json").read_text(encoding="utf-8"))
    assert told["how"].startswith("8 chains")
    assert told["how"].endswith("because k̂ is 0.9")
    for row in told["coefficients"]:
        assert row["mean"] == pytest.approx(found[row["coefficient"]]["mean"], abs=0.15 * row["sd"])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_mode_without_digits_is_for_chains() -> None:
    frame = pd.DataFrame({"y": [0, 1, 1, 0, 0, 1, 1, 0, 1], "g": [f"g{k // 3}" for k in range(9)]})
    frame["x"] = np.random.default_rng(1).standard_normal(9)
    assert fit(frame, "y ~ x + (1 + x | g)", model="logistic").summary().notna().all(axis=None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ill ~ x + (1 | clinik)"], "clinik is no column"),
        (["ill ~ C(clinic) + (1 | clinic)"], "leave it out of one of them"),
        (["ill ~ (1 + x | clinic)"], "write x, a column of numbers, among the terms too"),
        (["ill ~ x + (1 + z | clinic)"], "write z, a column of numbers, among the terms too"),
        (["ill ~ x + (1 + zz | clinic)"], "zz is no column of the table"),
        (
            ["ill ~ x + C(lab) + (1 + lab | clinic)"],
            "write (1 | clinic) + (1 | clinic:lab)",
        ),
        (["ill ~ x + (1 | clinic) + (1 | z)"], "write (1 | clinic) alone"),
        (["ill ~ x + (1 | clinic/z)"], "write (1 | clinic) alone"),
        (["ill ~ x + z + (1 + z | clinic)"], "no slope within; write (1 | clinic)"),
        (["ill ~ x + (1 | mm(clinic, lab))"], "write (1 | clinic) + (1 | lab), effects of each"),
        (["ill ~ x + (z | always)"], "(1 + z | always): always has one level, 'the same'; leave"),
        (["ill ~ x + (1 | always)"], "always has one level, 'the same'; leave (1 | always) out"),
        (["ill ~ x + z + (1 + z + x | clinic)"], "no slope within; write (1 + x | clinic)"),
        (["ill ~ x + z + (0 + z | clinic)"], "no slope within; write (1 | clinic)"),
        (["ill ~ x + (1 | lab:colon)"], "rename it"),
        (
            ["ill ~ x + (1 + x | lab) + (1 | pain:clinic)", "--prior", "cor(y by lab): lkj(2)"],
            "cor(x by lab)",
        ),
        (["ill ~ x + (1 | clinic)", "sampler=hmc"], "fit draws from the posterior itself"),
    ],
)
def test_what_is_not_fitted_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["fit", "t.csv", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_check_names_groups_and_their_priors_and_refuses_as_a_fit_does(
    capsys: pytest.CaptureFixture,
) -> None:
    assert main(["fit", "t.csv", "ill ~ x + lab + (1 | clinic/lab)", "--check"]) == 0
    told = "".join(capsys.readouterr())
    assert "groups: (1 | clinic): 10 groups of " in told  # lab is a term, and what parts clinics
    assert "sd(clinic:lab)" in told
    assert main(["fit", "t.csv", "ill ~ x + (1 | always)", "--check"]) == 2
    assert "leave (1 | always) out" in capsys.readouterr().err


@pytest.mark.thorough
def test_terms_that_are_not_integrated_out_are_drawn_by_chains(capsys: pytest.CaptureFixture) -> None:
    """Nested groups, and slopes without correlation, of numbers above 0: rows, priors, new levels, files."""
    table = pd.read_csv("t.csv")
    rng = np.random.default_rng(3)
    clinic, part = table["clinic"].str[1:].astype(int), (np.arange(len(table)) // 2) % 3
    by_part = rng.normal(0.0, 0.5, (10, 3))[clinic, part]
    slope = rng.normal(0.0, 0.06, 10)[clinic] * (table["x"] - 50.0)
    cost = rng.gamma(5.0, np.exp(1.0 + by_part + slope) / 5.0)
    table.assign(cost=cost, part=[f"p{k}" for k in part]).to_csv("t.csv", index=False)
    formula = "cost ~ x + (1 + x || clinic) + (1 | clinic:part)"
    words = ["fit", "t.csv", formula, "--model", "gamma", "--prior", "sd(clinic:part): half_normal(1)"]
    assert main([*words, "--quiet"]) == 0
    told = json.loads(Path("results/runs/t/fit.json").read_text(encoding="utf-8"))
    assert told["how"].startswith("8 chains of ")
    found = {row["coefficient"]: row for row in told["coefficients"]}
    names = ["sd(clinic)", "sd(x by clinic)", "sd(clinic:part)"]
    at_means = f"sd(clinic where x is {table['x'].mean():.4g})"
    assert list(found) == ["intercept", "x", "shape", names[0], at_means, *names[1:]]
    assert found["sd(clinic:part)"]["prior"] == "half_normal(1)"
    assert 0.25 < found["sd(clinic:part)"]["mean"] < 0.8
    assert 0.03 < found["sd(x by clinic)"]["mean"] < 0.12
    effects = pd.read_csv("results/runs/t/groups.csv")
    assert effects["group"].value_counts().to_dict() == {"clinic:part": 30, "clinic": 30}
    nested = effects[effects["group"] == "clinic:part"].set_index("level")["mean"]
    truth = {f"c{c}:p{p}": by for c, p, by in zip(clinic, part, by_part, strict=True)}
    assert np.corrcoef(nested, [truth[level] for level in nested.index])[0, 1] > 0.8
    capsys.readouterr()
    assert main(["predict", "results/runs/t", "t.csv"]) == 0
    mean = pd.read_csv(io.StringIO(capsys.readouterr().out))["mean"]
    assert np.corrcoef(np.log(mean), by_part + slope)[0, 1] > 0.85
    table.assign(part="p9").to_csv("new.csv", index=False)
    assert main(["predict", "results/runs/t", "new.csv"]) == 2
    assert "column clinic:part holds 'c" in capsys.readouterr().err
    for choice in ("draw", "zero"):
        assert main(["predict", "results/runs/t", "new.csv", "--new-groups", choice]) == 0
    one, some = stored.fitted(Path("results/runs/t")).with_new("zero", 0), table.assign(part="p9").head(5)
    found = load("results/runs/t").predict(some, new_groups="draw")
    rows = predict.checked_rows(one, some)
    eta = fitted_draws.predictor(one, rows)  # clinics are known, and their effects there
    sd = one.effects[1].triangle[:, 0, 0]
    right = np.exp(eta + 0.5 * sd[:, None] ** 2).mean(axis=0)
    assert np.abs(found["mean"] / right - 1.0).max() < 0.04
    none = np.exp(fitted_draws.predictor(replace(one, effects=one.effects[1:]), rows))
    assert np.abs(none.mean(axis=0) / right - 1.0).max() > 0.1  # without the clinics: the control
    rows, groups = load("results/runs/t").loo(), load("results/runs/t").loo(by="clinic")
    assert (rows.rows, groups.rows) == (200, 10)
    assert groups.elpd < rows.elpd  # which says more of a row: others of its clinic
    with pytest.raises(ConfigError, match="cost: cost is a term or the target"):
        load("results/runs/t").loo(by="cost")


def test_a_budget_too_short_for_chains_ends_in_exit_3(capsys: pytest.CaptureFixture) -> None:
    words = ["fit", "t.csv", "pain ~ x + (1 + x || clinic)", "--budget", "25"]
    assert main([*words, "--quiet"]) == 3
    assert "the chains do not agree yet: R-hat of " in capsys.readouterr().err


@pytest.mark.thorough
def test_two_factors_that_cross_are_fitted_under_normal_noise(capsys: pytest.CaptureFixture) -> None:
    table = pd.read_csv("t.csv")
    code = np.arange(len(table)) % 6
    table["pain"] += np.array([0.0, 4.0, -3.0, 8.0, 1.0, -6.0])[code]
    table.assign(lab=[f"l{k}" for k in code]).to_csv("t.csv", index=False)
    found = rows("pain ~ x + (1 | lab) + (1 | clinic)")
    assert list(found) == ["intercept", "x", "sigma", "sd(clinic)", "sd(lab)"]
    assert 2.5 < found["sd(lab)"]["mean"] < 12.0
    capsys.readouterr()
    assert main(["predict", "results/runs/t", "t.csv"]) == 0
    told = pd.read_csv(io.StringIO(capsys.readouterr().out))
    left = pd.read_csv("t.csv")["pain"] - told["mean"]
    assert left.std() == pytest.approx(
        found["sigma"]["mean"], rel=0.1
    )  # both factors are in what is predicted
    assert left.groupby(code).mean().abs().max() < 0.5
    assert load("results/runs/t").loo().elpd > fit("t.csv", "pain ~ x + (1 | clinic)").loo().elpd + 20.0
    assert set(load("results/runs/t").groups.index.get_level_values(0)) == {"lab", "clinic"}


def test_two_factors_that_cross_are_fitted_to_counts(capsys: pytest.CaptureFixture) -> None:
    table = pd.read_csv("t.csv")
    code, rng = np.arange(len(table)) % 6, np.random.default_rng(1)
    clinic = table["clinic"].str[1:].astype(int)
    rate = np.exp(1.0 + np.array([0.0, 1.0, -0.8, 1.5, 0.3, -1.2])[code] + 0.2 * (clinic - 4.5))
    table.assign(lab=[f"l{k}" for k in code], falls=rng.poisson(rate)).to_csv("t.csv", index=False)
    found = rows("falls ~ (1 | lab) + (1 | clinic)", "--model", "poisson")
    assert list(found) == ["intercept", "sd(clinic)", "sd(lab)"]
    assert 0.5 < found["sd(lab)"]["mean"] < 2.5
    capsys.readouterr()
    assert main(["predict", "results/runs/t", "t.csv"]) == 0
    told = pd.read_csv(io.StringIO(capsys.readouterr().out))["mean"]
    assert np.corrcoef(told, rate)[0, 1] > 0.97
    assert set(load("results/runs/t").groups.index.get_level_values(0)) == {"lab", "clinic"}


@pytest.mark.thorough
def test_a_category_of_many_levels_is_offered_as_a_group(capsys: pytest.CaptureFixture) -> None:
    table = pd.read_csv("t.csv")
    table["street"] = [f"s{k % 130}" for k in range(len(table))]
    table.to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "ill ~ x + street"]) == 2
    assert "(1 | street)" in capsys.readouterr().err
    assert "sd(street)" in rows("ill ~ x + (1 | street)")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("model", "part"), [("hurdle_gamma", "gamma"), ("hurdle_lognormal", "lognormal")])
def test_effects_of_a_hurdle_are_those_of_what_is_above_0(model, part):
    """Its posterior is a product; with the zeros taken for small numbers it would not be."""
    rng = np.random.default_rng(3)
    g, x = rng.integers(0, 12, 300), rng.normal(size=300)
    mean = np.exp(0.5 + 0.4 * x + rng.normal(0.0, 0.7, 12)[g])
    y = rng.gamma(3.0, mean / 3.0) * (rng.random(300) > 0.3)
    table = pd.DataFrame({"x": x, "g": [f"g{k}" for k in g], "y": y})

    def moments(frame, model):
        found = fit(frame, "y ~ x + (1 | g)", model=model).summary().drop("hu", errors="ignore")
        return found["mean"], found["sd"]

    (mean_of, sd_of), (known, known_sd) = moments(table, model), moments(table[table.y > 0.0], part)
    assert ((mean_of - known) / known_sd).abs().max() < 0.12
    assert (sd_of / known_sd - 1.0).abs().max() < 0.12
    other, _ = moments(table.assign(y=table.y.clip(lower=0.05)), part)
    assert ((other - known) / known_sd).abs().max() > 1.0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("term", ["(1 | g)", "(1 | h:g)", "s(x) + (1 | g)"])
def test_rows_without_a_group_are_left_out_as_the_error_says(tmp_path, monkeypatch, capsys, term):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.normal(size=120).round(3), "g": np.repeat(list("abcdef"), 20), "h": "u"})
    table["y"] = (table.x + rng.normal(size=120)).round(3)
    whole = table.drop(index=[7, 50])
    table.loc[[7, 50], "g"] = None
    table.to_csv("t.csv", index=False)
    whole.to_csv("whole.csv", index=False)
    assert main(["fit", "t.csv", f"y ~ x + {term}".replace("x + s", "s"), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "row 7 (line 9 of the file), column g has no value" in said
    remedy = said.strip().rpartition("with ")[2].split()
    assert remedy == ["--missing", "drop"]
    for name in ("t", "whole"):
        assert main(["fit", f"{name}.csv", f"y ~ x + {term}".replace("x + s", "s"), "--quiet", *remedy]) == 0
    left, right = (pd.read_csv(f"results/runs/{name}/table.csv") for name in ("t", "whole"))
    pd.testing.assert_frame_equal(left[["coefficient", "mean", "sd"]], right[["coefficient", "mean", "sd"]])
