"""Links of chances: beside SciPy's distributions, the posterior beside quadrature, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flyrun
from flyrun.cli.main import main
from flyrun.families import links
from flyrun.families.family import family, names
from flyrun.fitting import weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from tests.fit.test_censoring import grid

#: SciPy's distribution function F
THEIRS = {"probit": stats.norm, "cloglog": stats.gumbel_l, "cauchit": stats.cauchy}
ETA = np.array([-300.0, -30.0, -7.0, -6.8, -1.2, 0.0, 0.4, 2.0, 3.0, 6.0])


@pytest.mark.parametrize("link", links.CHANCES)
def test_a_chance_is_scipys_in_both_tails(link):
    hit, miss, *_ = links.CHANCES[link]
    theirs = THEIRS[link]()
    if link == "cauchit":  # SciPy's tails have no digits
        theirs = type("Cauchy", (), {"logcdf": lambda x: stats.t(1).logcdf(x)})
        theirs.logsf = lambda x: theirs.logcdf(-x)
    np.testing.assert_allclose(hit(ETA)[0], theirs.logcdf(ETA), rtol=1e-9)
    np.testing.assert_allclose(miss(ETA)[0], theirs.logsf(ETA), rtol=1e-9)


@pytest.mark.parametrize("link", links.CHANCES)
@pytest.mark.parametrize("name", ["logistic", "binomial"])
def test_derivatives_are_those_of_the_density(name, link):
    own, trials = family(f"{name}({link})"), np.where(name == "binomial", 9.0, 1.0)
    assert own.name == f"{name}({link})"
    eta = np.linspace(-8.0, 3.0, 23)
    y = np.minimum(np.arange(23.0) % 4.0, trials)
    slope, curvature = (one[0] for one in own.derivatives(y, trials, [eta]))
    up, down = ([eta + way * 1e-5] for way in (1.0, -1.0))
    rise = (own.log_density(y, trials, up) - own.log_density(y, trials, down)) / 2e-5
    np.testing.assert_allclose(slope, rise, rtol=1e-6, atol=1e-7)
    bend = (own.derivatives(y, trials, down)[0][0] - own.derivatives(y, trials, up)[0][0]) / 2e-5
    np.testing.assert_allclose(curvature[0], bend, rtol=1e-6, atol=1e-7)
    if links.CHANCES[link].concave:
        assert (curvature[0] >= 0.0).all()


@pytest.mark.parametrize("link", links.CHANCES)
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_far_out_there_are_numbers(link, y):
    far = np.array([-1e200, -1e4, -745.0, 709.0, 745.0, 1e4, 1e200])
    own = family(f"logistic({link})")
    with np.errstate(over="ignore"):
        found = [own.log_density(y, 1.0, [far]), *(np.ravel(one) for one in own.derivatives(y, 1.0, [far]))]
    assert not np.isnan(np.concatenate(found)).any()


def test_a_model_of_its_own_is_the_same_as_its_link():
    y, eta = np.array([0.0, 1.0, 1.0]), [np.array([-3.0, 0.2, 9.0])]
    ours, other = family("logistic(probit)"), family("probit")
    np.testing.assert_allclose(ours.log_density(y, 1.0, eta), other.log_density(y, 1.0, eta))
    assert family("logistic(logit)") is family("logistic")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("link", links.CHANCES)
@pytest.mark.parametrize("hits", [1, 10])
def test_answers_are_of_the_posterior_by_quadrature(link, hits):
    """Of twenty rows one success, or half of them."""
    x = np.random.default_rng(2).normal(size=20)
    y = np.zeros(20)
    y[np.argsort(-x)[np.arange(0, 2 * hits, 2)]] = 1.0

    def made(name):
        rows = Rows(np.stack([x, np.ones(20)], axis=1), y)
        return Posterior(family(name), rows, CoefficientPrior(np.zeros(2), np.array([1.0, 3.0])))

    at, weight = grid(made(f"logistic({link})"))
    mean = weight @ at
    sd = np.sqrt(weight @ (at - mean) ** 2)
    found = weighted_draws.fit(made(f"logistic({link})"))
    assert not found.why
    got, covariance = found.moments()
    error = 4.5 / np.sqrt(found.effective)
    assert np.abs((got - mean) / sd).max() < error
    assert np.abs(np.sqrt(np.diag(covariance)) / sd - 1.0).max() < 1.5 * error
    other, _ = weighted_draws.fit(made("logistic")).moments()  # the control: another link
    assert np.abs((other - mean) / sd).max() > error


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Successes of trials whose hazards x moves, in five groups; a column of whether there is one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    x, g, n = rng.normal(size=400), np.arange(400) % 5, rng.integers(1, 9, 400)
    hits = rng.binomial(n, THEIRS["cloglog"].cdf(-1.0 + 0.7 * x + 0.5 * (g - 2)))
    one = rng.binomial(1, THEIRS["cloglog"].cdf(-1.0 + 0.7 * x))
    made = pd.DataFrame({"x": x, "g": [f"g{k}" for k in g], "n": n, "hits": hits, "one": one})
    made.to_csv("t.csv", index=False)
    return made


@pytest.mark.thorough
def test_a_fit_a_prediction_and_leaving_out_know_of_the_link(table):
    made = flyrun.fit(table[["x", "one"]], "one ~ x", link="cloglog", name="linked")
    found = made.summary()
    assert (np.abs(found["mean"] - [-1.0, 0.7]) < 3.5 * found["sd"]).all()
    beta = made.posterior["posterior"]["beta"].values.reshape(-1, 2)
    chance = stats.gumbel_l.cdf(beta @ [[0.3], [1.0]]).mean()
    by_name = flyrun.load(made.folder).predict(pd.DataFrame({"x": [0.3]}))["mean"].item()
    assert by_name == pytest.approx(chance, rel=1e-6)
    assert "hazard_ratio" in made.summary(exp=True)
    logits = flyrun.fit(table[["x", "one"]], "one ~ x", name="logit")
    assert flyrun.difference(made.loo(), logits.loo()).elpd != 0.0
    with pytest.raises(Exception, match="other settings"):
        flyrun.fit(table[["x", "one"]], "one ~ x", link="cauchit", name="linked")


@pytest.mark.thorough
def test_groups_and_trials_have_the_link(table):
    found = flyrun.fit(table, "hits | n ~ x + (1 | g)", model="binomial", link="cloglog").summary()
    assert abs(found["mean"]["x"] - 0.7) < 3.5 * found["sd"]["x"]
    # which is not log-concave: effects are drawn by chains, not integrated out
    chains = flyrun.fit(table, "hits | n ~ x + (1 | g)", model="binomial", link="cauchit")
    assert chains.checks()["agreed"]
    assert "chains" in chains.checks()["how"]


@pytest.mark.thorough
def test_a_scan_of_files_has_the_link(table, tmp_path):
    (tmp_path / "many").mkdir()
    for k in range(2):
        part = table[["x", "one"]].iloc[200 * k : 200 * (k + 1)]
        part.to_parquet(tmp_path / "many" / f"{k}.parquet", index=False)
    one = flyrun.fit(table[["x", "one"]], "one ~ x", link="cloglog").summary()
    many = flyrun.fit(str(tmp_path / "many"), "one ~ x", link="cloglog").summary()
    assert (np.abs(one["mean"] - many["mean"]) < 0.15 * one["sd"]).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hits ~ x", "--model", "poisson", "--link", "cauchit"], "choose --model binomial or logistic"),
        (["one ~ x", "--link", "clog"], "choose logit, probit, cloglog or cauchit"),
        (["one ~ x", "--link", "cauchit", "--exp"], "leave --exp out"),
    ],
)
def test_a_link_that_is_none_of_the_model_is_refused(table, words, said, capsys):
    assert main(["fit", "t.csv", *words, "--quiet"]) == 2
    assert said in capsys.readouterr().err


def test_links_are_of_chances_alone():
    assert [name for name in names() if len(links.offered(family(name))) > 1] == ["binomial", "logistic"]
