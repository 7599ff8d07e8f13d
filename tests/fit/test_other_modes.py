"""Modes that one start does not find: few rows tell of a column, and a family may take them for outliers."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import flyrun
from flyrun.cli.main import main
from flyrun.families.family import family
from flyrun.fitting import hmc_on_rows, mode, other_modes, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.proposal import Mixture, Several
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.ground.exit_codes import DONE, UNTRUSTED


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(controls, values, spread=1.0, seed=0):
    """Controls at x = 0, and rows at x = 1 with these targets."""
    rng = np.random.default_rng(seed)
    y = np.append(spread * rng.standard_t(4, controls), values)
    return pd.DataFrame({"x": np.repeat([0.0, 1.0], [controls, len(values)]), "y": y})


def posterior_of(frame):
    """As `flyrun fit` has it but for the scale of a column of two values."""
    y = ((frame.y - frame.y.mean()) / frame.y.std(ddof=0)).to_numpy()
    features = np.column_stack([frame.x - frame.x.mean(), np.ones(len(frame))])
    return Posterior(
        family("student_t"), Rows(features, y), CoefficientPrior(np.zeros(2), np.array([2.5, 10.0]))
    )


def effect(posterior):
    """Mean and sd of the effect given the other numbers at the mode, by quadrature over all its range."""
    at, _ = mode.find(posterior)
    grid = np.linspace(-30.0, 30.0, 60_001)
    x = np.tile(at, (len(grid), 1))
    x[:, 0] = grid
    x[:, 1] += (at[0] - grid) * posterior.rows.features[0, 0]  # the controls' mean stays where it is
    log = posterior.log_density(x)
    w = np.exp(log - logsumexp(log))
    return w @ grid, np.sqrt(w @ (grid - w @ grid) ** 2)


def found(posterior):
    at, likelihood = mode.find(posterior)
    shape = mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)
    rng = np.random.default_rng(0)
    return other_modes.several(posterior, at, shape, other_modes.leverage(posterior), rng)


FOUR = [8.0, 8.0, -8.1, -8.1]
SPLIT = [
    (900, FOUR),
    (10, [300.0, -300.0]),
    (60, [300.0, -300.0]),
    (900, [*np.linspace(7, 9, 20), *np.linspace(-9, -7, 20)]),
    (20_000, FOUR),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("controls", "values"), SPLIT)
def test_each_group_of_rows_that_agrees_is_a_mode(controls, values):
    posterior = posterior_of(table(controls, values))
    several = found(posterior)
    assert len(several.parts) >= 2
    ends = several.centres[:, 0] * table(controls, values).y.std(ddof=0)
    # means about each mode, which is skewed towards 0
    assert ends.max() > 0.85 * np.median([v for v in values if v > 0])
    assert ends.min() < 0.85 * np.median([v for v in values if v < 0])
    assert weighted_draws.fit(posterior).modes is not None


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("controls", "values"), [(200, []), (200, [8.0, 8.2, 7.9, 8.1]), (1_000, [0.5] * 300)]
)
def test_tables_without_two_ways_have_one_mode(controls, values):
    """The control: heavy tails, a large effect of few rows, and a common one."""
    frame = table(controls, values)
    frame["x"] += 0.0 if values else np.random.default_rng(1).normal(size=controls)
    assert len(found(posterior_of(frame)).parts) == 1


@pytest.mark.thorough
@pytest.mark.parametrize(("controls", "values"), [(900, FOUR), (30, [300.0, -300.0]), (60, [9.0, -7.0])])
def test_a_posterior_of_two_modes_is_answered_whole(controls, values, capsys):
    """7.3 ± 1.4 with exit 0 where the effect is 0 ± 7.5; 300 ± 3 where it is 0 ± 300."""
    frame = table(controls, values)
    frame.to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "y ~ x", "--model", "student_t"]) == DONE
    out = capsys.readouterr().out
    assert "several modes" in out
    mean, sd = (value * frame.y.std(ddof=0) for value in effect(posterior_of(frame)))
    (row,) = [line.split() for line in out.splitlines() if line.split()[:1] == ["x"] and "normal" in line][
        -1:
    ]
    assert float(row[1]) == pytest.approx(mean, abs=0.15 * sd)
    assert float(row[2]) == pytest.approx(sd, rel=0.08)


@pytest.mark.thorough
def test_estimators_and_python_answer_the_same():
    frame = table(60, [9.0, -7.0])
    fit = flyrun.fit(frame, "y ~ x", model="student_t")
    one = flyrun.FlyrunRegressor("student_t").fit(frame[["x"]], frame["y"])
    assert fit.posterior["posterior"]["beta"].to_numpy()[..., 0].std() > 5.0
    assert one.draws_[:, 0].std() > 5.0


@pytest.mark.slow
def test_a_scan_answers_the_same(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    frame = table(60, [9.0, -7.0]).sample(frac=1.0, random_state=1)
    (tmp_path / "many").mkdir()
    for k in range(3):
        frame[k::3].to_parquet(f"many/{k}.parquet", index=False)
    assert main(["fit", "many", "--target", "y", "--model", "student_t", "--workers", "1"]) == DONE
    out = capsys.readouterr().out
    (row,) = [line.split() for line in out.splitlines() if line.split()[:1] == ["x"] and "normal" in line][
        -1:
    ]
    assert float(row[2]) > 5.0


@pytest.mark.thorough
def test_chains_that_keep_to_their_modes_are_not_trusted(monkeypatch, capsys):
    """The broken twin: without jumps chains begin at both modes and stay; the exit code says so."""
    monkeypatch.setattr(hmc_on_rows.Sampler, "_jump", lambda self, several: None)
    table(60, [300.0, -300.0]).to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "y ~ x", "--model", "student_t", "--budget", "2000"]) == UNTRUSTED
    assert "have not passed between the posterior's modes" in " ".join(capsys.readouterr().out.split())


def test_chains_connect_modes_only_where_one_was_at_both():
    parts = tuple(Mixture.of(np.array([x]), np.eye(1)) for x in (-9.0, 0.0, 9.0))
    several = Several(parts, np.full(3, 1 / 3))

    def chains(*places):
        return np.array(places, float)[..., None]

    assert several.connected(chains([-9, -8, 0], [0, 1, 9]))
    assert several.connected(chains([9, 0, 0], [-9, -9, 9]))
    assert not several.connected(chains([-9, -8, 0], [9, 9, 9]))
    assert not several.connected(chains([-9, -9, -9], [9, 9, 9]))


@pytest.mark.thorough
def test_jumps_leave_a_posterior_of_two_modes_as_it_is():
    """Against quadrature; the control: jumps that forget how they were proposed."""
    posterior = posterior_of(table(200, [9.0, -7.0]))
    several, rng = found(posterior), np.random.default_rng(0)
    root = several.parts[0].root

    def draws():
        chains = hmc_on_rows.Sampler(posterior, several.centres, root, rng, 8, several=several)
        return chains.draw(1_500)[..., 0]

    mean, sd = effect(posterior)
    x = draws()
    error = np.sqrt(x.mean(axis=1).var(ddof=1) / len(x)) + 0.05 * sd
    assert abs(x.mean() - mean) < 4 * error
    assert x.std() == pytest.approx(sd, rel=0.1)
    share = np.append(np.full(len(several.parts) - 1, 0.02), 1.0)
    several = Careless(several.parts, share / share.sum())
    assert abs(draws().mean() - mean) > 8 * error


class Careless(Several):
    """Proposals whose own density is forgotten, and none from mode to mode, which would be right."""

    def log_density(self, x):
        return np.zeros(len(x))

    def nearest(self, x):
        return np.zeros(len(x), dtype=int)
