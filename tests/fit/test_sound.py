"""What is known of any posterior: answers that cannot be are refused at the one door, whatever made them."""

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.cli.main import main
from flyrun.families.family import family, names
from flyrun.fitting import coefficients, gaussian_noise, hmc_on_rows, sound, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import FlyrunError
from flyrun.tables.layout import Column, Layout

NAMES = ["x", "intercept"]


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def made(name="gaussian", n=200):
    rng = np.random.default_rng(0)
    one, features = family(name), np.column_stack([rng.standard_normal(n), np.ones(n)])
    levels = 3 if one.target in ("ordered", "classes") else 0
    if not one.intercept:
        features = features[:, :1]
    predictors = [np.zeros(n)] * (one.linear(levels) + len(one.auxiliary(levels, 1.0)))
    target = np.asarray(one.draw(rng, np.ones(n, int), predictors), float)
    size = features.shape[1] * one.linear(levels)
    return Posterior(
        one, Rows(features, target), CoefficientPrior(np.zeros(size), np.full(size, 2.5)), levels
    )


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", names())
def test_draws_of_a_posterior_pass(name):
    posterior = made(name)
    drawn = weighted_draws.fit(posterior)
    sound.refuse_unsound(posterior, NAMES, drawn.x, drawn.weights)
    chains = hmc_on_rows.Sampler(
        posterior, drawn.proposal.centre[None], drawn.proposal.root, np.random.default_rng(0)
    )
    sound.refuse_unsound(posterior, NAMES, chains.draw(100).reshape(-1, posterior.size))


def spoil(how, x):
    """Draws (S, P) that are of no posterior."""
    x = x.copy()
    if how == "far beyond the prior":
        x[:, 0] += 1e9
    elif how == "one number and its rounding":
        x[:, 0] = 0.3 + 1e-17 * x[:, 0]
    elif how == "no number":
        x[3, 0] = np.nan
    elif how == "infinite":
        x[3, 0] = np.inf
    elif how == "wider than its prior":
        x[:, 0] *= 1e4
    elif how == "no noise":
        x[:, -1] -= 40.0
    elif how == "less likely than where nothing is known":
        x[:, 0] += 200.0
    return x


@pytest.mark.parametrize(
    "how",
    [
        "far beyond the prior",
        "one number and its rounding",
        "no number",
        "infinite",
        "wider than its prior",
        "no noise",
        "less likely than where nothing is known",
    ],
)
def test_draws_of_no_posterior_are_refused(how):
    posterior = made()
    x = gaussian_noise.draw(posterior, np.random.default_rng(0), 500)
    with pytest.raises(FlyrunError) as error:
        sound.refuse_unsound(posterior, NAMES, spoil(how, x))
    assert "--drop" in str(error.value)


def frame(kind):
    """Tables whose targets their columns or groups explain to the last digit."""
    rng = np.random.default_rng(3)
    site, x = np.repeat(np.arange(20), 5), rng.normal(size=100)
    level = rng.normal(size=20)[site]
    other = np.tile(np.arange(5), 20)
    y = {"group": level, "slope": 2.0 * x, "both": level + 2.0 * x, "crossed": level + np.arange(5.0)[other]}[
        kind
    ]
    return pd.DataFrame({"x": x, "site": [f"s{k}" for k in site], "other": [f"o{k}" for k in other], "y": y})


@pytest.mark.thorough(but=("both-y ~ x + (1", "slope"))
@pytest.mark.parametrize(
    ("kind", "formula", "model"),
    [
        ("group", "y ~ 1 + (1 | site)", "gaussian"),
        ("both", "y ~ x + (1 | site)", "gaussian"),
        ("both", "y ~ x + (x | site)", "gaussian"),
        ("crossed", "y ~ 1 + (1 | site) + (1 | other)", "gaussian"),
        ("slope", "y ~ x", "gaussian"),
        ("slope", "y ~ x", "student_t"),
    ],
)
def test_a_target_without_noise_is_refused_in_every_path(kind, formula, model, capsys):
    """Of groups the intercept was −3e154 ± 8e139, with 5,000 effective draws and exit 0."""
    table = frame(kind)
    table.to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", formula, "--model", model]) == 2
    error = capsys.readouterr().err
    assert "no noise is left to fit" in error
    assert "leave" in error
    assert "Warning" not in error
    with pytest.raises(FlyrunError, match="no noise is left"):
        flyrun.fit(table, formula, model=model)
    if kind == "slope":
        with pytest.raises(ValueError, match="no noise is left"):
            flyrun.FlyrunRegressor(model).fit(table[["x"]], table["y"])


@pytest.mark.thorough
def test_the_remedy_for_groups_without_noise_works(capsys):
    frame("group").groupby("site").first().to_csv("one.csv")
    frame("group").to_csv("t.csv", index=False)
    assert main(["fit", "one.csv", "y ~ 1"]) == 0
    assert main(["fit", "t.csv", "y ~ 1"]) == 0


@pytest.mark.thorough
def test_a_scan_of_a_target_without_noise_is_refused(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    (tmp_path / "many").mkdir()
    for k in range(2):
        frame("slope")[["x", "y"]].to_parquet(f"many/{k}.parquet", index=False)
    for model in ("gaussian", "student_t"):
        assert main(["fit", "many", "--target", "y", "--model", model, "--workers", "1"]) == 2
        assert "no noise is left to fit" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["weighted", "even"])
def test_what_is_stored_is_worth_enough_draws(kind, monkeypatch):
    """Of 200,000 draws the first 20,000 were stored, whatever these were worth."""
    with pytest.raises(FlyrunError, match=f"only 300 of the {kind} draws are effective"):
        sound.refuse_few(300.0, kind)
    with pytest.raises(FlyrunError, match="effective"):
        sound.refuse_few(float("nan"), kind)
    sound.refuse_few(weighted_draws.ENOUGH, kind)


def test_weights_alike_for_want_of_digits_are_refused():
    """Log densities of −1e17 differ by 16 at least, or not at all: even weights say nothing then."""
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.standard_normal(50), np.ones(50)])
    posterior = Posterior(
        family("poisson"), Rows(features, np.full(50, 1e16)), CoefficientPrior(np.zeros(2), np.full(2, 10.0))
    )
    assert "no digits" in weighted_draws.fit(posterior).why


@pytest.mark.parametrize(("values", "told"), [
    ("normal", True), ("exponential", True), ("standard_t of 5", True),
    ("lognormal of 3", False), ("standard_t of 1", False),
])  # fmt: skip
def test_an_sd_that_few_draws_decide_is_not_told(values, told):
    rng, (kind, _, number) = np.random.default_rng(0), values.partition(" of ")
    draws = getattr(rng, kind)(
        *([0.0] * (kind == "lognormal")), *map(float, filter(None, [number])), size=4_000
    )
    layout = Layout("regression", Column("y", mean=0.0, sd=1.0), [])
    beta = rng.normal(size=(4_000, 1))
    some = {"beta": beta, "phi": np.abs(draws)}
    weighted = coefficients.summarise_weighted(some, np.full(4_000, 1 / 4_000), layout)
    chained = coefficients.summarise_chains(
        {k: v.reshape(4, 1_000, *v.shape[1:]) for k, v in some.items()}, layout
    )
    for rows in (weighted, chained):
        assert np.isfinite(rows[0]["sd"])
        assert np.isfinite(rows[1]["sd"]) == told
        lines = coefficients.without_mean(rows)
        assert not lines if told else lines[0].startswith("phi: a long tail")


def test_a_category_that_nothing_uses_is_refused():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.integers(0, 5, 60), "z": rng.integers(0, 3, 60), "y": rng.normal(size=60)})
    for key in ("categorical", "numeric"):
        with pytest.raises(FlyrunError, match=rf"{key}: nothing that is fitted uses z; leave it out there"):
            flyrun.fit(table, "y ~ x", model="gaussian", **{key: ["z"]})
    flyrun.fit(table, ["y ~ x", "sigma ~ z"], model="gaussian", categorical=["z"])
    flyrun.fit(table, "y ~ x + (1 | z)", model="gaussian", categorical=["z", "x"])
