"""flyrun diagnose: exact draws pass the Stein test, wrong ones do not; log Z lies in its bracket."""

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.ground.diagnostics.distances import stein_terms, stein_test


def test_p_values_of_exact_draws_are_uniform_and_of_wrong_ones_small():
    rng, one = np.random.default_rng(3), np.eye(3)
    exact = [rng.standard_normal((80, 3)) for _ in range(60)]
    found = np.array([stein_test(stein_terms(x, -x, one), k, 300) for k, x in enumerate(exact)])
    # 60 uniform numbers: a mean within three standard errors, and few below 0.05
    assert found.mean() == pytest.approx(0.5, abs=3 * 0.29 / np.sqrt(60))
    assert (found < 0.05).sum() <= 9
    many = np.concatenate(exact[:3])
    for wrong in (0.5 + many, 1.6 * many):
        assert stein_test(stein_terms(wrong, -wrong, one)) < 0.01


WORDS = ["dataset=toy_2d", "dataset.n_data=30", "model=logistic", "prior=gaussian", "executor.workers=1"]


@pytest.mark.thorough
def test_stored_draws_are_diagnosed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    chain = ["sampler=sgld_cv", "protocol=smoke", "protocol.iterations=4000", "protocol.seeds=1"]
    for name, step in (("short", "0.2"), ("long", "2.5")):
        assert main([*WORDS, *chain, f"sampler.step={step}", f"name={name}"]) == 0
    capsys.readouterr()
    assert main(["diagnose", "short", "--draws", "200", "--bracket"]) == 0
    said = capsys.readouterr().out
    assert float(said.split("p ")[1].split(",")[0]) > 0.01
    low, high = map(float, said.split("log Z ")[1].split(",")[0].split(" to "))
    assert said.endswith("by its last draw\n")
    assert low - 0.1 < high < low + 2
    assert main(["diagnose", "long", "--draws", "200"]) == 0
    assert float(capsys.readouterr().out.split("p ")[1].split(",")[0]) < 0.01
    assert main(["diagnose", "long", "--arm", "nobody"]) == 2
    assert "diagnose: no finished arm nobody; choose from sgld_cv" in capsys.readouterr().err
    next((tmp_path / "results/runs/long").rglob("done")).unlink()
    assert main(["diagnose", "long"]) == 2
    assert "no chain is finished; `flyrun report results/runs/long` says what" in capsys.readouterr().err
