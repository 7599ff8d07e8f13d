"""Figures that an experiment asks for: drawn from a run, left out with a reason, refused by name."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.config.catalogue import illustrations
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.report.build import build
from flyrun.experiments.report.illustrations import (
    bound_distance,
    flymc_illustration,
    mgpmh_gap,
)
from flyrun.experiments.report.illustrations.flymc_illustration import one_datum, replay
from flyrun.experiments.runner import store
from flyrun.ground.errors import ConfigError, StoreError
from flyrun.ground.page.figures import caption

pytestmark = pytest.mark.figures


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    root = tmp_path_factory.mktemp("toy")
    words = ["experiment=toy_flymc", "protocol=smoke", "executor.workers=1", f"results_dir={root}"]
    assert main(words) == 0
    return root / "runs" / "toy_flymc"


@pytest.mark.thorough
def test_toy_has_its_figures(toy):
    for name in flymc_illustration.FIGURES:
        assert (toy / "figures" / f"{name}.png").stat().st_size > 10_000
        assert f"figures/{name}.png" in (toy / "report.md").read_text()
    assert (toy / "report.html").read_text().count("<svg") == 3 + len(flymc_illustration.FIGURES)


@pytest.mark.thorough
def test_replay_gives_the_stored_draws_and_their_bright_counts(toy):
    cell = next(cell for cell in store.open_cells(toy) if cell.arm == "untuned")
    stretch = replay.replay(cell, toy / "setup", 90, 30)
    with cell.tree() as tree:
        theta = np.concatenate([tree[f"{part}posterior"]["theta"].values[0] for part in ("warmup_", "")])
        bright = np.concatenate([tree[f"{part}sample_stats"]["bright"].values[0] for part in ("warmup_", "")])
    np.testing.assert_array_equal(stretch.theta, theta[89:120])
    np.testing.assert_array_equal(stretch.bright.sum(axis=1), bright[89:120])


@pytest.mark.thorough
def test_draws_of_another_code_are_not_illustrated(toy, monkeypatch):
    cell = next(cell for cell in store.open_cells(toy) if cell.arm == "untuned")
    other = store.StoredCell(**{**vars(cell), "seed": 1})
    with pytest.raises(StoreError, match="not those that this flyrun gives"):
        replay.replay(other, toy / "setup", 100, 20)

    def refuse(*_):
        raise StoreError("its draws are others")

    monkeypatch.setattr(replay, "replay", refuse)
    said = build(toy).warnings
    assert "figure flymc_steps is left out: its draws are others." in said
    assert "flymc_augmented" in (toy / "report.md").read_text()


@pytest.mark.thorough
def test_unknown_figures(toy, tmp_path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package _global_\nfigures: [nothing]\n")
    words = ["experiment=mine", "dataset=toy_2d", "model=logistic", "sampler=random_walk"]
    with pytest.raises(ConfigError, match=r"figures=\[nothing\]: must be .*bound_distance"):
        compose_job(words, [tmp_path])
    info = json.loads((toy / "run.json").read_text())
    (toy / "run.json").write_text(json.dumps({**info, "figures": ["../html"]}))
    assert "figures: ../html is no figure that this flyrun draws." in build(toy).warnings
    (toy / "run.json").write_text(json.dumps(info))


def test_every_plot_file_has_figures_with_captions():
    for module in (flymc_illustration, bound_distance):
        assert module.__name__.rpartition(".")[2] in illustrations()
        assert all(caption(plot) for plot in module.FIGURES.values())


def test_distances_are_the_points_of_the_axes():
    def arm(name, offset):
        counts = {"bright_mean": np.array([offset + 1.0, offset + 3.0])}
        return SimpleNamespace(name=name, has=counts.__contains__, each=counts.get, setting=lambda *_: offset)

    origins = {"a": ("at", "map"), "b": ("sds", 3), "typed_otherwise": ("sds", 10), "another": ("n", 5)}
    arms = [{"name": name, "sweep": {"axis": axis, "point": at}} for name, (axis, at) in origins.items()]
    run = SimpleNamespace(
        info={"arms": [*arms, {"name": "own"}]},
        arms=[
            arm("b", 3.0),
            arm("a", 0.0),
            arm("typed_otherwise", 7.0),
            arm("another", 5.0),
            arm("own", 1.0),
        ],
    )
    assert bound_distance.distances(run) == [(0, 2.0, np.sqrt(2)), (3, 5.0, np.sqrt(2))]


def test_the_telling_step_moves_theta_and_darkens_few():
    theta = np.array([[0.0], [0.0], [1.0], [2.0], [3.0]])
    bright = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
    assert flymc_illustration.figure.telling_step(theta, bright) == 2


def test_chain_of_one_datum_follows_the_joint_density():
    chain = one_datum.chain(200_000, seed=3)
    theta = np.linspace(-20, 20, 20_001)
    bound, likelihood = (one_datum.prior(theta) * f(theta) for f in (one_datum.bound, one_datum.likelihood))
    total = likelihood.sum()
    # some 10 iterations to an effective draw: errors of about 0.005 and 0.02
    assert chain.bright.mean() == pytest.approx(1 - bound.sum() / total, abs=0.02)
    assert chain.theta.mean() == pytest.approx((theta * likelihood).sum() / total, abs=0.08)
    assert chain.theta[~chain.bright].mean() == pytest.approx((theta * bound).sum() / bound.sum(), abs=0.08)


def test_the_figure_of_two_variables_shows_which_bound_fails():
    assert "mgpmh_gap" in compose_job(["experiment=potts_mgpmh"]).figures
    figure = mgpmh_gap.gap_against_batch(None, None)
    measured, recalled, derived = figure.axes[0].lines
    assert derived.get_xdata().min() >= 2.0
    fails = recalled.get_ydata() > measured.get_ydata()
    assert fails[recalled.get_xdata() > 7.0].all()
    assert not fails[0]
    assert np.all(derived.get_ydata() < measured.get_ydata()[-len(derived.get_ydata()) :])
