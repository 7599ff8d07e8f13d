"""What `flyrun fit` is made of: its words, the noise's scale, coefficients on the columns' own scales."""

import numpy as np
import pytest
from scipy import optimize, stats

from flyrun.cli.main import main
from flyrun.cli.verbs import fit as arguments
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models.fits.noise_fit import noise_scale
from flyrun.families.options import for_tables
from flyrun.fitting import coefficients, page
from flyrun.fitting.column_scales import Scales
from flyrun.fitting.request import run_name
from flyrun.ground.errors import ConfigError
from flyrun.tables.layout import Column, Layout


def test_words_are_read():
    request = arguments.parse(
        ["a.csv", "--target", "y", "--drop=id, name", "--budget=90s", "--rows", "50", "dataset.ones=3"]
    )
    assert (request.file, request.target, request.budget.seconds) == ("a.csv", "y", 90.0)
    assert request.table == {"drop": ("id", "name"), "limit": 50}
    assert {key: entry.value for key, entry in request.typed.items()} == {"dataset.ones": 3}
    assert str(request.budget) == "90 seconds"
    assert str(arguments.parse(["a.csv", "--target", "y"]).budget) == "10 minutes"
    assert arguments.parse(["a.csv", "--target", "y", "--budget", "20000"]).budget.iterations == 20_000
    dashes = arguments.parse(["a.csv", "--target", "y", "--na=--", "--na", "-999", "na=?"])
    assert dashes.table == {"na": ("--", "-999", "?")}
    again = arguments.parse(["a=b.csv", "--target", "y", "--fresh"])
    assert (again.fresh, again.words, again.file) == (True, ("a=b.csv", "--target", "y"), "a=b.csv")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "y"], "fit: FILE is missing"),
        (["a.csv"], "name the column to explain"),
        (["a.csv", "b.csv", "--target", "y"], "b.csv is one word too many"),
        (["a.csv", "--target"], "--target: a value is missing"),
        (["a.csv", "--targt", "y"], r"no such option of `flyrun fit` \(did you mean --target\?\)"),
        (["a.csv", "--target", "y", "--model", "logit"], "is called logistic here"),
        (["a.csv", "--target", "y", "--budget", "soon"], "must be a time"),
        (["a.csv", "--target", "y", "--budget", "0s"], "must be a time"),
        (["a.csv", "--target", "y", "--missing", "keep"], "must be refuse or drop"),
        (["a.csv", "--target", "y", "--workers", "0"], "must be a whole number"),
        (["a.csv", "--target", "y", "--prior-scale", "-1"], "must be a number above 0"),
    ],
)
def test_bad_words_are_told_in_one_line(words, message):
    with pytest.raises(ConfigError, match=message):
        arguments.parse(words)


@pytest.mark.parametrize(
    "words",
    [
        ["nothing.csv", "--target", "y"],
        ["mine.csv", "--target", "z"],
        ["mine.csv", "--target", "y", "sampler.steps=3"],
        ["mine.csv", "--target", "y", "sampler=nuts"],
        ["mine.csv", "--target", "y", "--name", "a/b"],
        ["mine.csv", "--target", "x", "--model", "logistic"],
    ],
)
def test_what_cannot_be_fitted_exits_with_2(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("x,y\n" + "".join(f"{k},{k % 2}\n" for k in range(30)))
    assert main(["fit", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("flyrun: error: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_a_file_or_a_name_may_be_a_number():
    job = compose_job(["experiment=mnist_logreg", "only=regular", "name=2024"])
    assert job.name == "2024"
    words = ["dataset=table", "dataset.path=2024", "dataset.target=7", "model=logistic", "sampler=hmc"]
    dataset = compose_job(words).arms[0].dataset
    assert (dataset.path, dataset.target) == ("2024", "7")


def test_the_example_names_a_column_of_the_file(tmp_path):
    (tmp_path / "mine.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ConfigError, match=r"--target y`$"):
        arguments.parse([str(tmp_path / "mine.csv")])


def test_help_of_fit_is_its_own(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["fit", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n--{word}" in said for word in ("target COLUMN", "exposure COLUMN", "prior PRIOR"))
    assert "--model list names all" in said
    assert said.count("\n") <= 40  # one screen
    assert main(["--help"]) == 0
    assert "fit FILE FORMULA" in capsys.readouterr().out
    assert main(["fit", "t.csv", "y ~ x", "--model", "list"]) == 2
    refused = capsys.readouterr().err
    assert all(name in refused for name in for_tables())


def test_a_run_is_named_after_its_file():
    assert run_name("/data/my patients (2).csv.gz") == "my_patients_2_"
    assert run_name("..csv") == "fit"


def test_noise_scale_is_the_maximum_likelihood_value():
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=(800, 2)), np.ones(800)])
    y = x @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_t(4, 800)

    def loss(values):
        return -stats.t.logpdf(y - x @ values[:3], 4, scale=np.exp(values[3])).sum()

    found = optimize.minimize(loss, np.zeros(4), method="BFGS", tol=1e-10)
    scale, queries = noise_scale(x, y, 4.0)
    assert scale == pytest.approx(np.exp(found.x[3]), rel=1e-4)
    assert queries % 800 == 0


def test_noise_scale_from_the_heaviest_tails_to_the_normal():
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.normal(size=(400, 2)), np.ones(400)])
    y = x @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=400)
    residuals = y - x @ np.linalg.lstsq(x, y)[0]
    assert noise_scale(x, y, 1e9)[0] == pytest.approx(residuals.std(), rel=1e-6)
    for nu in (0.5, 1e3):
        scale, queries = noise_scale(x, y, nu)

        def loss(values, nu=nu):
            return -stats.t.logpdf(y - x @ values[:3], nu, scale=np.exp(values[3])).sum()

        start = np.r_[np.linalg.lstsq(x, y)[0], np.log(scale)]
        found = optimize.minimize(loss, start, method="BFGS", tol=1e-9)
        assert scale == pytest.approx(np.exp(found.x[3]), rel=1e-3)
        assert queries < 100 * 400
    assert 0.0 < noise_scale(x, y, 0.05)[0] < 0.1  # of many maxima one, but settled


LAYOUT = Layout(
    "regression",
    Column("y", mean=5.0, sd=2.0),
    [Column("age", mean=40.0, sd=10.0), Column("colour", ["blue", "red"], True)],
    rows=3,
)


def test_coefficients_on_their_own_scales_predict_the_same():
    rng = np.random.default_rng(0)
    theta, age, red = rng.normal(size=(4, 3)), rng.normal(40, 10, 6), rng.integers(0, 2, 6)
    standard = np.column_stack([(age - 40.0) / 10.0, red, np.ones(6)])
    beta = Scales.of(LAYOUT).apply(theta)
    own = np.column_stack([age, red, np.ones(6)])
    np.testing.assert_allclose(beta @ own.T, 5.0 + 2.0 * theta @ standard.T, rtol=1e-12)


def test_the_summary_names_and_agrees_only_when_chains_do():
    rng = np.random.default_rng(0)
    beta = rng.normal(size=(4, 500, 3))
    rows = coefficients.summarise_chains({"beta": beta}, LAYOUT)
    assert [row["coefficient"] for row in rows] == ["intercept", "age", "colour[red]"]
    assert coefficients.agreed(rows)
    np.testing.assert_allclose(rows[1]["mean"], beta[..., 0].mean())
    np.testing.assert_allclose(rows[1]["effect_mean"], beta[..., 0].mean() * 10.0 / 2.0)
    np.testing.assert_allclose(rows[2]["q97"], np.quantile(beta[..., 1], 0.97))
    beta[0, :, 1] += 0.5
    assert not coefficients.agreed(coefficients.summarise_chains({"beta": beta}, LAYOUT))
    assert not coefficients.agreed(coefficients.summarise_chains({"beta": beta[:, :50]}, LAYOUT))


def test_a_rare_tail_leaves_a_variance_unknown_where_chains_agree():
    """One draw of a hundred is far out, a dozen at a time: of 500 draws a chain that is five visits."""
    rng = np.random.default_rng(1)
    beta = rng.normal(size=(4, 480, 3))
    far = np.repeat(rng.random((4, 40)) < 0.02, 12, axis=1)
    beta[..., 1] = np.where(far, -4.0 + beta[..., 1], beta[..., 1])
    rows = coefficients.summarise_chains({"beta": beta}, LAYOUT)
    assert coefficients.agreed(rows)  # the control: what chains were asked for alone
    error = coefficients.of_variances(beta)
    assert error[1] > 0.06 > max(error[0], error[2])
    heavy = rng.standard_t(0.8, size=(4, 480, 1))  # of which no sd is told
    assert coefficients.of_variances(heavy)[0] == 0.0


def test_a_table_shows_two_figures_of_every_sd():
    rows = [
        {"class": "", "coefficient": "income", "mean": 1.60123e-5, "sd": 1.25e-7, "q03": -1.23456e-5},
        {"class": "", "coefficient": "age", "mean": 0.532904, "sd": 0.00047, "q03": -0.000001},
    ]
    full = [{**row, "q97": row["mean"], "ess_bulk": 400.0, "ess_tail": 400.0, "rhat": 1.0} for row in rows]
    full[0]["effect_mean"], full[1]["effect_mean"] = 0.12345, float("nan")
    (view,) = page.views({"coefficients": full})
    assert view.header[5] == "effect"
    assert [row[5] for row in view.rows] == ["0.123", "-"]
    assert view.rows[0][:4] == ("income", "1.601e-05", "1.2e-07", "-1.235e-05")
    assert view.rows[1][:4] == ("age", "0.53290", "0.00047", "0.00000")


def test_a_setting_that_is_typed_twice_is_refused():
    """The last would count without a word."""
    with pytest.raises(
        ConfigError, match=r"dataset\.limit: is given twice; keep one of dataset\.limit=9 and"
    ):
        arguments.parse(["a.csv", "--target", "y", "dataset.limit=9", "dataset.limit=12"])


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("sampler=hmc", "fit draws from the posterior itself"),
        ("sampler.n_steps=8", "fit draws from the posterior itself"),
        ("bound=none", "fit draws from the posterior itself"),
        ("experiment=toy_flymc", "fit draws from the posterior itself"),
        ("executor=dusk", "fit works here"),
        ("executor=local", "fit works here"),
        ("executor.workers=3", "is of executor=dask"),
        ("dataset.shard=[0,4]", "a fit is of the whole table"),
    ],
)
def test_a_setting_that_a_fit_does_not_have_is_refused(word, why, tmp_path, monkeypatch, capsys):
    """No word is passed over in silence: left out, as the line says, the same command fits."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    x = rng.normal(size=120)
    np.savez("mine.npz", x=x, y=(x + rng.normal(size=120) > 0).astype(int))
    words = ["fit", "mine.npz", "--target", "y"]
    assert main([*words, word]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"flyrun: error: {word}: {why}")
    assert "leave " in said
    assert not (tmp_path / "results").exists()
