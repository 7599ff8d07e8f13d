"""The distance from a posterior that is known on a grid: its numbers, its page, and what it says of modes."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import mixture
from flyrun.experiments.models.problem import bind
from flyrun.experiments.report import summaries
from flyrun.experiments.report.build import build
from flyrun.experiments.report.draws import at_cost
from flyrun.experiments.report.sections import density
from flyrun.experiments.runner.launch import run

pytestmark = pytest.mark.figures

ARMS = "[pmd_weighted,pmd,one_pass_smc,npv,gibbs_swap,tempered_smc]"
SMALL = ["sampler.particles=100", "arms.npv.sampler.components=20", "protocol.seeds=2"]


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    arm = arm_of(["dataset=mixture", "model=mixture", "prior=gaussian", "sampler=pmd"])
    return mixture.truth(bind(arm, tmp_path_factory.mktemp("setup"), needs_map=False))


@pytest.mark.thorough
def test_distances_of_what_is_known(truth):
    """Of the posterior itself 0; of half of it, one mode doubled, what that mode lacks; of nothing 1."""
    one = truth.density * (truth.points[:, 1] < 0) / truth.mass
    both = np.stack([truth.density, one, np.zeros_like(one)])
    variation, divergence = density._distances(truth, both)
    assert variation == pytest.approx([0, 1 - truth.mass, 1], abs=2e-5)
    prior = (truth.density * np.log(truth.density / truth.prior)).sum() * truth.cell
    assert divergence[[0, 2]] == pytest.approx([1e-3, prior + np.log(1000)], abs=2e-3)
    assert divergence[0] < 1.1e-3 < 1 < divergence[1] < divergence[2]


def test_moments_within_a_mode(truth):
    """Of the posterior itself, the other mode left out or not, no error; of a power, and of one tilted."""
    kernel = truth.bandwidths[0] ** 2
    below = truth.points[:, 1] < 0
    centre, variance = density._moments(truth.points[below], truth.density[below])
    narrow = truth._replace(bandwidths=np.zeros((3, 2)))
    for whole in (truth.density, np.where(below, truth.density, 0.0)):
        assert density._in_its_mode(narrow, whole) == pytest.approx((0, 1), abs=1e-12)
    assert density._in_its_mode(truth, truth.density)[1] == pytest.approx(
        np.sqrt(np.prod(1 - kernel / variance)) ** 0.5
    )
    one = np.where(below, truth.density, 0.0)
    assert density._in_its_mode(narrow, one ** (1 / 0.49)) == pytest.approx((0, 0.7), abs=0.1)
    tilt = np.linalg.solve(np.cov(truth.points[below].T, aweights=one[below]), 0.5 * np.sqrt(variance))
    tilted = one * np.exp((truth.points - centre) @ tilt)
    assert density._in_its_mode(narrow, tilted)[0] == pytest.approx(0.5, abs=0.1)
    assert np.isnan(density._in_its_mode(truth, np.zeros(len(below)))).all()


@pytest.mark.thorough
def test_exact_draws_have_a_floor(truth):
    """Of 1,500 about 0.10, its sd over sets a tenth of that; smoothed too much they are further off."""
    floor = density._floor(truth)
    assert floor.mean() == pytest.approx(0.102, abs=0.005)
    assert floor.std(ddof=1) < 0.012
    wide = truth._replace(bandwidths=2 * truth.bandwidths)
    assert density._floor(wide).mean() > floor.mean() + 0.02


def test_one_pass_is_between_the_snapshots_about_it():
    """On a logarithmic axis of visits; of what reads fewer rows, or more at once, nothing is known."""
    visits, values = np.array([0.0, 10.0, 100.0, 10_000.0]), np.array([1.0, 0.9, 0.8, 0.4])
    assert at_cost(visits, values, 1_000) == pytest.approx(0.6)
    assert at_cost(visits, values, 100) == pytest.approx(0.8)
    assert np.isnan(at_cost(visits, values, 20_000))
    assert np.isnan(at_cost(visits, values, 5))
    assert np.isnan(at_cost(visits[:1], values[:1], 5))


def test_what_is_shown_is_the_first_seeds_and_the_mean_over_seeds(truth, monkeypatch):
    """Two seeds in a mode each: both modes stand in the mean alone."""
    monkeypatch.setattr(density, "_truth", lambda draws: truth)
    below = truth.points[:, 1] < 0
    modes = [np.where(side, truth.density, 0.0) for side in (below, ~below)]
    ends = [np.stack([np.zeros_like(one), one, truth.prior])[None] for one in modes]  # by kernel: the middle
    pooled = density.pool([SimpleNamespace(values=lambda group, name, one=one: one) for one in ends])
    np.testing.assert_array_equal(pooled["density_shown"], modes[0])
    np.testing.assert_allclose(pooled["density_average"], truth.density / 2)


def test_seeds_that_miss_a_mode_are_told():
    cells = tuple(SimpleNamespace(mode_mass=mass) for mass in (0.5, 0.01, 0.99))
    arm = SimpleNamespace(
        pooled=SimpleNamespace(density_truth=[[], [], 0.54, 0]),
        done=3,
        each=lambda name: np.array([getattr(cell, name) for cell in cells]),
    )
    assert density._one_mode(None, arm) == ["2 of 3 seeds miss a mode."]


@pytest.mark.thorough
def test_a_run_has_its_table_and_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(summaries, "_WORTH_BYTES", 1 << 30)  # starts no processes for a second's work
    words = [
        "experiment=pmd_mixture",
        f"only={ARMS}",
        *SMALL,
        f"results_dir={tmp_path}",
        "executor.workers=1",
    ]
    words += ["protocol.iterations=60", "arms.tempered_smc.protocol.iterations=8"]
    result = run(compose_job(words), None)
    assert [outcome.state for outcome in result.outcomes] == ["done"] * 12
    made = build(result.run_dir)
    rows = {row["arm"]: row for row in csv.DictReader((result.run_dir / "table.csv").open())}
    assert list(rows) == ARMS[1:-1].split(",")
    assert all(0.05 < float(row["tv"]) < 1 for row in rows.values())
    assert float(rows["tempered_smc"]["tv"]) < float(rows["pmd_weighted"]["tv"])
    assert float(rows["pmd"]["total_visits"]) == 600
    assert float(rows["pmd"]["total_queries"]) == 60_000
    assert float(rows["pmd"]["kernel_evaluations"]) % 10_000 == 0 < float(rows["pmd"]["kernel_evaluations"])
    assert float(rows["gibbs_swap"]["total_visits"]) == 60 * 1000
    page = (result.run_dir / "report.html").read_text()
    assert "1,500 exact draws have a total variation of" in page
    drawn = {path.stem for path in made.files if path.suffix == ".svg"}
    assert {"total_variation", "modes", "densities", "average_densities"} <= drawn
