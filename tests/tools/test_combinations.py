"""`make bench_combinations`: combinations fit together, truths are right, and a wrong answer is told."""

import itertools

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.runner.posterior import PosteriorFile
from tools import combinations

WORDS = ["model=logistic", "prior=gaussian", "bound=none", "sampler=random_walk", "protocol.init=map"]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(combinations, "SEEDS", 4)
    monkeypatch.setattr(combinations, "ITERATIONS", 1_500)


def words(folder):
    path = folder / "table.csv"
    combinations.table(np.random.default_rng(3), "logistic", "plain").to_csv(path, index=False)
    return ["dataset=table", f"dataset.path={path}", "dataset.target=y", *WORDS]


@pytest.mark.thorough
def test_combinations_fit_together_and_are_of_many_kinds(tmp_path):
    every, chosen = combinations.types(np.random.default_rng(1)), []
    for k in range(12):
        rng = np.random.default_rng([1, k])
        chosen.append(
            combinations.fitting(rng, itertools.islice(itertools.cycle(every), 9 * k, None), tmp_path)
        )
    assert all(len(compose_job(one).arms) == 1 for one in chosen)
    assert len({word for one in chosen for word in one if word.startswith("sampler=")}) >= 5
    assert len({tuple(one) for one in chosen}) == 12


@pytest.mark.thorough
def test_a_truth_is_a_normals(tmp_path):
    """Little is known of the data under a tight prior: the posterior is about the prior."""
    arm = compose_job([*words(tmp_path), "prior.scale=0.01"]).arms[0]
    truth = combinations.Truth(arm, tmp_path)
    assert truth.settled
    assert np.abs(truth.mean).max() < 0.01
    np.testing.assert_allclose(truth.sd, 0.01, rtol=0.01)
    np.testing.assert_allclose(truth.expected, [0, 0, 1, 1, 0, 0.836, 0.836, 0.164, 0.164], atol=0.01)


@pytest.mark.thorough
def test_a_right_run_is_right_and_one_of_another_spread_is_not(few, tmp_path, monkeypatch):
    row = combinations.judged(words(tmp_path), tmp_path / "right", 1e-4)
    assert row["verdict"] == combinations.RIGHT, row
    add = PosteriorFile.add

    def narrower(self, chunks):
        def shrunk(draws):
            theta = draws["theta"]
            return {**draws, "theta": theta * 0.8}

        return add(self, (chunk._replace(draws=shrunk(chunk.draws)) for chunk in chunks))

    monkeypatch.setattr(PosteriorFile, "add", narrower)
    monkeypatch.setattr(combinations, "ITERATIONS", 6_000)
    row = combinations.judged(words(tmp_path), tmp_path / "wrong", 1e-2)
    assert row["verdict"] == combinations.SILENT, row


def test_what_is_refused_is_no_fault(few, tmp_path):
    row = combinations.judged([*words(tmp_path), "dataset.limit=1"], tmp_path, 1e-4)
    assert row["verdict"] == combinations.REFUSED
    assert row["why"]
