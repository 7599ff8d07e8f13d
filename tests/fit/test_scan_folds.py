"""Folds of row groups: each one's posterior against the likelihoods of all other rows, and the densities of
its own rows against sums over all of that posterior's draws."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

from flyrun.cli.main import main
from flyrun.families.family import family
from flyrun.fitting.request import Request
from flyrun.fitting.scan import folds, mappers, row_weights, table_files
from flyrun.fitting.scan.pilot import Inputs
from flyrun.fitting.scan.stages import Scan
from flyrun.ground.schema import schema
from tests.fit.test_scan import against_all_rows, all_rows, table, write

pytest.importorskip("pyarrow")
FOLDS = 2


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """Draws enough to test by, and no reports."""
    monkeypatch.setattr(row_weights, "DRAWS", 2_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 1_000)
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)


def folded(folder, model):
    """What a scan with folds found, and the rows of each fold."""

    def in_turn(look, groups, words):
        return [mappers.run_group(look, group).result for group in groups]

    found, request = table_files.find(str(folder)), Request(str(folder), "y", model, folds=FOLDS)
    columns, one = table_files.chosen(found, "y", None, (), {}), family(model)
    made = Scan(Inputs(request, found, columns, request.typed_table, in_turn, lambda line: None), 0)
    pilot = made.pilot()
    rows = [
        np.concatenate([block.first + np.arange(block.rows) for group in made.groups[a:b] for block in group])
        for a, b in made.folds
    ]
    return made.run(pilot, made.encoding(pilot, schema("model", model).task, one), one), rows


def some_of(columns, rows):
    return {name: values[rows] for name, values in columns.items()}


def log_density(found, columns, model, x, weights):
    """Of rows given weighted draws x (S, P), in the target's own units."""
    post = all_rows(found, columns, model)
    rows = post.rows.take(slice(None))
    value = post.of_rows(replace(rows, target=rows.target[:, None]), post.predictors(rows, x))
    constant = post.family.constant(rows.target, 1.0) - np.log(found.layout.target.sd)
    return logsumexp(value, b=weights, axis=1) + constant


@pytest.mark.parametrize(("model", "rare"), [("logistic", 12), ("gaussian", 0)])
def test_a_fold_is_predicted_by_the_posterior_of_all_others(tmp_path, model, rare):
    columns = table(np.random.default_rng(3), 1_200, model, rare)
    found, rows = folded(write(tmp_path / "shards", columns, group=100), model)
    assert sorted(np.concatenate(rows)) == list(range(1_200))
    optimism = 0.0
    for k, own in enumerate(rows):
        others = some_of(columns, np.setdiff1d(np.arange(1_200), own))
        post, answer = found.without[k]
        one = replace(found, posterior=post, answer=answer)
        if model == "logistic":
            assert against_all_rows(one, all_rows(found, others, model))[0].max() < 3.7
            assert against_all_rows(one, all_rows(found, columns, model))[0].max() > 4  # of all rows
        left_out = some_of(columns, own)
        told = log_density(found, left_out, model, answer.found.x[:2_000], answer.found.weights[:2_000])
        told -= np.log(answer.found.weights[:2_000].sum())
        held = found.foretold[k]
        assert (held.rows, held.copies) == (len(own), len(own))
        assert held.total == pytest.approx(told.sum(), abs=1.0)
        assert held.error == pytest.approx(told.std() / len(own) ** 0.5, rel=0.05)
        whole = found.answer.found
        known = log_density(found, left_out, model, whole.x[:2_000], whole.weights[:2_000])
        optimism += (known - np.log(whole.weights[:2_000].sum())).sum() - held.total
    assert optimism > 4.0  # of draws that know the rows, half the nats of ten numbers or more
    assert found.rows_read == pytest.approx(2 * 1_200 + (model == "logistic") * 1_200, abs=1_200)


def test_folds_are_told_and_stored(tmp_path, monkeypatch, capsys):
    write(tmp_path / "shards", table(np.random.default_rng(3), 1_000), group=100)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flyrun.ground.page.document.show", lambda *words: None)
    assert main(["fit", "shards", "--target", "y", "--folds", "4"]) == 0
    assert "4 folds of row groups, each predicted by all others: log density -0." in capsys.readouterr().out
    told = json.loads(Path("results/runs/shards/fit.json").read_text())["scan"]
    assert sum(one["rows"] for one in told["folds"]) == 1_000
    whole = sum(one["rows"] * one["mean"] for one in told["folds"]) / 1_000
    assert told["held_out"]["mean"] == pytest.approx(whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shards", "--folds", "12"], "--folds 12: folds are of whole row groups, and there are 10; ask for"),
        (["shards", "--folds", "4", "--by", "x0"], "--folds: is for a scan of one posterior; leave --by out"),
        (["shards/part-0.parquet", "--folds", "4"], "--folds: is for a scan of many Parquet files; leave it"),
        (["shards", "--folds", "1"], "--folds 1: must be a whole number at least 2"),
    ],
)
def test_folds_that_there_cannot_be_are_refused(tmp_path, monkeypatch, capsys, words, said):
    write(tmp_path / "shards", table(np.random.default_rng(3), 1_000), files=1, group=100)
    monkeypatch.chdir(tmp_path)
    assert main(["fit", *words, "--target", "y", "--quiet"]) == 2
    assert said in capsys.readouterr().err


def test_folds_are_of_all_groups_in_turn():
    assert folds.ranges(3, 10) == [(0, 3), (3, 6), (6, 10)]
