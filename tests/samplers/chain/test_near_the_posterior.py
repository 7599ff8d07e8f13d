"""Chains that start from, and propose from, Gaussians near the posterior."""

import numpy as np
import pytest
from scipy.stats import chi2

from flyrun.cli.main import main
from flyrun.experiments.models.local_bounds import brought_in
from flyrun.experiments.samplers.chain.method import Chain
from tests.samplers.approximations.exact import after, by_grid, method_of
from tests.samplers.chain.starts import starts

CHAIN = ("sampler=independence", "bound=none", "sampler.freedom=null")


@pytest.mark.thorough
@pytest.mark.parametrize("metric", ["hessian", "ep"])
def test_proposals_from_a_gaussian_come_to_the_posterior(tmp_path, metric):
    mean, covariance, _ = by_grid(tmp_path)
    method = method_of(tmp_path, *CHAIN, f"sampler.metric={metric}", "protocol.init=map")
    theta = np.stack([method.advance(method.init(seed), 4_000)[1]["theta"] for seed in range(20)])
    for values, truth in ((theta, mean), (theta**2, mean**2 + np.diag(covariance))):
        each = values.mean(axis=1)
        z = (each.mean(axis=0) - truth) / (each.std(axis=0, ddof=1) / np.sqrt(20))
        assert np.abs(z).max() < 4.5, z


def test_negative_control_laplaces_proposals_all_accepted_do_not(tmp_path):
    mean, covariance, _ = by_grid(tmp_path)
    found = after(method_of(tmp_path, "sampler=laplace"), 1)["mean"]
    assert np.abs((found - mean) / np.sqrt(np.diag(covariance) / 80_000)).max() > 6


@pytest.mark.thorough
def test_proposals_from_ep_are_accepted_more_often_and_its_passes_count(tmp_path):
    methods = [method_of(tmp_path, *CHAIN, f"sampler.metric={one}") for one in ("hessian", "ep")]
    accepted = [one.advance(one.init(0), 4_000)[1]["accepted"].mean() for one in methods]
    assert accepted[1] > accepted[0] + 0.05
    shaped, by_ep = (one.facts().setup_queries for one in methods)
    assert by_ep - shaped == 60 * 3 * 5


@pytest.mark.thorough
@pytest.mark.parametrize(("freedom", "wider"), [("null", 1.0), ("8", 8 / 6)])
def test_starts_are_draws_of_eps_gaussian_or_of_a_t_about_it(tmp_path, freedom, wider):
    words = (*CHAIN, "protocol.init=ep", f"protocol.init_freedom={freedom}")
    method = method_of(tmp_path, *words)
    mean, covariance = method.setup.ep
    z = (starts(method, 800) - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    assert np.abs(z.mean(axis=0)).max() < 4 * np.sqrt(wider / 800)
    assert z.var() == pytest.approx(wider, abs=0.15)


@pytest.mark.parametrize("bound", ["local", "map"])
def test_local_bounds_alone_bring_a_start_from_beyond_to_the_near_side_of_their_border(tmp_path, bound):
    words = (
        "sampler=hmc",
        f"bound={bound}",
        "brightness=per_datum",
        "protocol.init=prior",
        "prior.scale=300",
    )
    method = method_of(tmp_path, *words)
    centre = method.problem.fit.theta_map
    away = starts(method, 20) - centre
    white = away @ method.setup.lower
    distances, border = np.linalg.norm(white, axis=1), np.sqrt(chi2.isf(1e-4, len(centre)))
    near = np.isclose(distances, 0.99 * border) | (distances < border)
    assert near.all() if bound == "local" else not near.all()
    assert np.ptp(white / distances[:, None], axis=0).max() > 1.0  # each from its own side


@pytest.mark.thorough
@pytest.mark.parametrize("thin", [1, 4])
def test_every_iteration_tells_on_which_side_of_the_border_it_is(tmp_path, thin):
    words = ("sampler=hmc", "bound=local", "bound.mass_outside=0.5", "brightness=per_datum")
    length = ("protocol.iterations=400", "protocol.burn_in=40", f"protocol.thin={thin}")
    method = method_of(tmp_path, *words, *length)
    (first, whole), second = method.advance(method.init(3), 400), method.init(3)
    parts = []
    for n in (1, 2, 150, 247):  # wherever it is cut
        second, records = method.advance(second, n)
        parts.append(records["outside"])
    assert np.array_equal(np.concatenate(parts), whole["outside"])
    white = (whole["theta"] - method.problem.fit.theta_map) @ method.setup.lower
    beyond = (white**2).sum(axis=1) > chi2.isf(0.5, white.shape[1])
    assert np.array_equal(whole["outside"][thin - 1 :: thin], beyond)
    assert 0.2 < beyond[10:].mean() < 0.8
    told = method.facts(first).plain()["occupation"]["outside"]
    assert told["share"] == 0.5
    plain = method_of(tmp_path, "sampler=hmc", "bound=map", "brightness=per_datum").facts().plain()
    assert "outside" not in plain["occupation"]


LOCAL = [
    "dataset=toy_2d",
    "dataset.n_data=60",
    "model=logistic",
    "prior=gaussian",
    "sampler=hmc",
    "bound=local",
]
RUN = [
    "brightness=per_datum",
    "protocol.seeds=2",
    "protocol.iterations=2000",
    "protocol.burn_in=500",
    "--quiet",
]


@pytest.mark.thorough
@pytest.mark.parametrize("held", [False, True])
def test_a_report_marks_chains_that_never_cross_though_they_should(tmp_path, monkeypatch, held):
    """The broken twin turns back at the border: R-hat and ESS are as before, and the share tells."""
    if held:
        advance = Chain.advance

        def turned_back(self, state, n):
            after, records = advance(self, state, n)
            region = self._region
            for theta in records["theta"]:
                theta[:] = brought_in(region, theta)
            records["outside"][:] = False
            return after, records

        monkeypatch.setattr(Chain, "advance", turned_back)
    words = [
        *LOCAL,
        *RUN,
        "bound.mass_outside=0.5",
        "executor.workers=1",
        "name=x",
        f"results_dir={tmp_path}",
    ]
    assert main(words) == 0
    page = (tmp_path / "runs" / "x" / "report.md").read_text()
    assert "Where chains are" in page
    assert ("no chain has crossed" in page) == held
    assert ("do not trust its means and sds" in page) == held


@pytest.mark.thorough
def test_a_report_shows_no_table_of_shares_that_are_rare_by_design(tmp_path):
    """The usual 1e-4 is nothing to read of an arm that nothing is wrong with; table.csv has it."""
    assert main([*LOCAL, *RUN, "executor.workers=1", "name=x", f"results_dir={tmp_path}"]) == 0
    folder = tmp_path / "runs" / "x"
    assert "Where chains are" not in (folder / "report.md").read_text()
    assert "outside_design" in (folder / "table.csv").read_text()
