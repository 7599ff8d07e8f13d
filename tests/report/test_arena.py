"""Scores of an arena: what independent draws are worth, what is a tie, what errors are made of."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.report import arena_curves, arena_errors
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.sections import arena, convergence

pytestmark = pytest.mark.figures

D, N_DATA = 20, 1000


def _gold(**more):
    none, one = np.zeros(D), np.ones(D)
    known = {"mean": none, "variance": one, "sd": one, "kurtosis": 3 * one, "floors": (1e-6, 1e-6)}
    return SimpleNamespace(
        **{**known, "facts": {"n_data": N_DATA, "n_predictors": 1, "settings": {}}, **more}
    )


def _cell(draws, cost=N_DATA, workers=1):
    """Snapshots of estimates from the first k draws, `cost` queries each, shared by workers."""
    count = np.arange(1, len(draws) + 1)[:, None]
    mean, square = (np.cumsum(draws**power, axis=0) / count for power in (1, 2))
    values = {
        "step": count[:, 0],
        "queries": count[:, 0] * float(cost),
        "span": count[:, 0] * float(cost) / workers,
        "seconds": count[:, 0] * 0.1,
        "mean": mean,
        "square": square,
    }
    values["mean_all"] = mean
    folder = Path("results/runs/it/arm/key/seed=0")
    return SimpleNamespace(
        info={"settings": {}},
        facts={},
        values=lambda group, name: values.get(name),
        cell=SimpleNamespace(folder=folder),
    )


@pytest.fixture
def pooled(monkeypatch):
    monkeypatch.setattr(arena_errors.store, "matching", lambda settings, beside: ("it", _gold()))
    monkeypatch.setattr(arena_errors, "_about", lambda name, gold: "")
    monkeypatch.setattr(arena_errors, "_at_the_end", lambda chains, name, gold: {})
    return lambda cells: arena_errors.pool(cells)["arena"]


def _arm(values, exact=True):
    info = {"facts": {"exact": exact, "update": "it"}, "answers": "draws"}
    return ArmResult("it", 1, (info,), (SimpleNamespace(),), SimpleNamespace(arena=values), {}, {}, {})


def test_what_workers_share_is_sooner_there_on_the_critical_path(pooled):
    draws = np.random.default_rng(3).standard_normal((2, 512, D))
    found, alone = (pooled([_cell(one, workers=n) for one in draws]) for n in (4, 1))
    assert found["workers"]
    assert not alone["workers"]
    np.testing.assert_array_equal(np.array(alone["critical"], float), np.array(alone["mse"], float))
    ten = int(np.searchsorted(arena_errors.PASSES, 10.0))
    for told, n in ((found["critical"], 40), (found["mse"], 10)):
        assert told[0][ten] == pytest.approx(np.mean(draws[:, :n].mean(axis=1) ** 2))


def test_independent_draws_score_one_over_their_number(pooled):
    rng = np.random.default_rng(0)
    found = pooled([_cell(rng.standard_normal((512, D))) for _ in range(16)])
    place = int(np.flatnonzero(arena_errors.PASSES <= 512)[-1])
    n = int(arena_errors.PASSES[place] * (1 + 1e-9))
    mean, variance = np.array(found["mse"])[:, place]
    # 16 · 20 squares: an sd of 8 %
    assert mean == pytest.approx(1 / n, rel=0.25)
    assert variance == pytest.approx(1 / n, rel=0.25)
    assert np.isnan(np.array(found["mse"], float)[0, 0])  # no estimate before the first draw
    assert found["bias"][place] == pytest.approx(0, abs=0.3 / n)


def test_a_shift_is_bias(pooled):
    rng = np.random.default_rng(1)
    found = pooled([_cell(rng.standard_normal((512, D)) + 0.3) for _ in range(8)])
    assert found["bias"][-4] == pytest.approx(0.09, rel=0.1)
    assert arena.regime(_arm(found, exact=False)) == "bias that did not fall"


@pytest.mark.parametrize(
    ("power", "said"), [(1.0, "still falling when it ended"), (0.0, "bias that did not fall")]
)
def test_a_bias_that_falls_to_the_end_is_no_limit(pooled, power, said):
    """Of errors .3·k^−power the first would be nearer after twice as many passes."""
    noise = 1e-3 * np.random.default_rng(2).standard_normal((4, 64, D))
    cells = [_cell(one) for one in noise]
    for cell, one in zip(cells, noise, strict=True):
        mean = 0.3 * np.arange(1, 65.0)[:, None] ** -power + one
        known = {name: cell.values("", name) for name in ("step", "queries", "span", "seconds")}
        known |= {"mean": mean, "mean_all": mean, "square": mean**2 + 1}
        cell.values = lambda group, name, known=known: known.get(name)
    found = pooled(cells)
    assert found["ended"] == 64
    arm = _arm(found, exact=False)
    assert arena.regime(arm) == said
    # so its last half of the steps did not settle it, however little they moved it
    seed = SimpleNamespace(moved_last_half=0.001)
    arm = replace(arm, cells=(seed,) * 4, infos=arm.infos * 4)
    assert convergence.settled(arm) == (power == 0.0)


def test_steps_that_do_nothing_are_no_fall(pooled):
    """A path that has ended costs nothing more: half of its queries are not half of its steps."""
    mean = 0.3 / np.minimum(np.arange(1, 65.0), 20)[:, None] + np.zeros((64, D))
    cells = [_cell(np.zeros((64, D))) for _ in range(2)]
    for cell in cells:
        known = {name: cell.values("", name) for name in ("step", "seconds")}
        queries = np.minimum(known["step"], 20) * float(N_DATA)
        known |= {"queries": queries, "span": queries, "mean": mean, "mean_all": mean, "square": mean**2 + 1}
        cell.values = lambda group, name, known=known: known.get(name)
    assert arena.regime(_arm(pooled(cells), exact=False)) == "bias that did not fall"


def test_the_larger_error_is_told_of_be_it_of_variances(pooled):
    """Means that are right from the first step say nothing of variances that still come near."""
    cells = [_cell(np.zeros((64, D))) for _ in range(2)]
    for cell in cells:
        known = {name: cell.values("", name) for name in ("step", "queries", "span", "seconds")}
        mean, off = np.zeros((64, D)), 0.3 / np.arange(1, 65.0)[:, None]
        known |= {"mean": mean, "mean_all": mean, "square": 1.0 + off + mean}
        cell.values = lambda group, name, known=known: known.get(name)
    assert arena.regime(_arm(pooled(cells), exact=False)) == "still falling when it ended"


def test_what_ended_before_a_budget_has_no_error_there_and_says_so(pooled):
    arm = _arm(pooled([_cell(one) for one in np.random.default_rng(1).standard_normal((4, 40, D))]))
    row = arena.SECTION.row(None, arm)
    assert {"error_1", "error_10"} <= row.keys()
    assert not {"error_100", "error_1000"} & row.keys()
    assert arena.standing(arm, 10).ended is None
    assert arena.standing(arm, 100).text.endswith(", ended after 40)")


def test_no_arm_scores_below_the_floor(pooled):
    found = pooled([_cell(np.tile([[1.0], [-1.0]], (256, D))) for _ in range(2)])
    last = arena.standing(_arm(found), 1000)
    assert last.error == pytest.approx(3e-6)
    assert last.at_floor
    assert arena.regime(_arm(found)) == "at the floor"
    assert "at least 333,333" in last.text


def _standing(error, se, floor=1e-9):
    return arena._Standing(SimpleNamespace(own_name="it"), error, se, floor)


def test_ties():
    assert arena.tied(_standing(1.0, 0.1), _standing(1.2, 0.1))
    assert not arena.tied(_standing(1.0, 0.1), _standing(1.3, 0.1))
    assert not arena.tied(_standing(0.01, 0.001), _standing(1.0, 0.8)), "a hundred times larger, if unsurely"
    assert arena.tied(_standing(1.0, 0.0), _standing(1.19, 0.0))
    assert not arena.tied(_standing(1.0, 0.0), _standing(1.21, 0.0))
    assert arena.tied(_standing(3e-6, 0.0, 1e-6), _standing(1.5e-6, 0.0, 1e-6))


def test_sentences_say_who_cannot_be_told_apart():
    named = [
        arena._Standing(SimpleNamespace(own_name=name), error, 0.01 * error, 1e-9)
        for name, error in (("slow", 0.5), ("quick", 0.1), ("brisk", 0.101))
    ]
    assert arena._sentence(named, 10) == (
        "With 10 passes quick (10) is worth the most independent draws; not told from it: brisk (9.9); "
        "then slow (2.0)."
    )
    assert arena._sentence([], 10) == ""


def test_lines_that_hide_each_other_are_one(pooled):
    """As of mean field and its linear response, whose means are the same."""
    draws = np.random.default_rng(0).standard_normal((3, 40, D)) + 1.0
    own, other = pooled([_cell(one) for one in draws]), pooled([_cell(1.5 * one) for one in draws])
    arms = [replace(_arm(values), name=name) for name, values in zip("abc", (own, own, other), strict=True)]
    assert [[arm.name for arm in group] for group in arena_curves._alike(arms)] == [["a", "b"], ["c"]]


def test_what_ends_at_the_references_noise_stretches_no_axis(pooled):
    """Biased arms of a figure: one above the floor is there, one at it is not."""
    rng = np.random.default_rng(2)
    draws = rng.standard_normal((2, 512, D))

    def arm(name, values, exact):
        one = _arm(pooled([_cell(part) for part in values]), exact=exact)
        return replace(one, name=name)

    shown = {"chain": (draws, True), "biased": (draws + 0.3, False), "near": (1e-4 * draws, False)}
    arms = [arm(name, *told) for name, told in shown.items()]
    assert arena_curves._at_floor(arms[2])
    assert not arena_curves._at_floor(arms[1])
    figure = arena_curves.regimes(arms, styles_of(arms), "")
    names = {line.get_label() for axis in figure.axes for line in axis.lines}
    assert "biased" in names
    assert "near" not in names
