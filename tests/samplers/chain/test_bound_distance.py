"""Bounds set off the MAP: more data are bright, about as many times as the square of the distance."""

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models.problem import posterior_curvature
from flyrun.experiments.report.illustrations import bound_distance
from flyrun.experiments.samplers.chain.bounds.map import centre
from flyrun.experiments.samplers.method import prepare
from tests.samplers.chain.starts import starts

WORDS = ["dataset=mnist_7v9", "dataset.limit=3000", "model=logistic", "prior.scale=0.5", "bound=map"]
SOFTMAX = ["dataset=cifar3", "dataset.limit=200", "model=softmax", "bound=map", "sampler=mala"]


def _program(folder, *words):
    (arm,) = compose_job([*WORDS, "sampler=random_walk", "protocol.init=map", "name=x", *words]).arms
    return prepare(arm, folder)


def _bright(state):
    return len(state["memory.partition.bright"])


def test_bright_count_grows_with_the_square_of_the_distance(tmp_path):
    at_map, off = _program(tmp_path), _program(tmp_path, "bound.offset_sds=3")
    ours, theirs = [[program.init(seed) for seed in range(20)] for program in (at_map, off)]
    assert np.array_equal(ours[4]["theta"], theirs[4]["theta"])
    mean, further = (np.mean([_bright(state) for state in states]) for states in (ours, theirs))
    # near 1 + 3²: pseudo-likelihoods grow with the square of the distance from the tight point
    assert 5 < further / mean < 25


def test_distance_is_in_posterior_sds(tmp_path):
    program = _program(tmp_path, "bound.offset_sds=2", "bound.direction_seed=5")
    problem, arm = program.problem, program.arm
    off = centre(arm.bound, program.setup) - problem.fit.theta_map
    root = np.linalg.cholesky(posterior_curvature(arm, problem))
    z = root.T @ off / 2
    assert z @ z == pytest.approx(len(z))
    direction = np.random.Generator(np.random.PCG64(5)).standard_normal(len(z))
    assert z @ direction / np.linalg.norm(direction) == pytest.approx(np.sqrt(len(z)))


def test_starts_are_draws_from_the_gaussian_of_the_curvature(tmp_path):
    """Level 1e-6: the mean of 300 squared lengths, each χ² of 51 degrees of freedom."""
    program = _program(tmp_path)
    root = np.linalg.cholesky(posterior_curvature(program.arm, program.problem))
    z = (starts(program, 300) - program.problem.fit.theta_map) @ root
    assert abs((z**2).sum(axis=1).mean() - 51) < 4.9 * np.sqrt(2 * 51 / 300)
    assert np.abs(z.mean(axis=0)).max() < 6 / np.sqrt(300)


@pytest.mark.thorough
def test_the_gauge_is_a_fact_of_softmax_alone(tmp_path):
    (arm,) = compose_job(SOFTMAX).arms
    facts = prepare(arm, tmp_path).facts().plain()
    assert (facts["gauge"], facts["gradients"]) == ({"classes": 3}, True)
    facts = _program(tmp_path).facts().plain()
    assert (facts["gauge"], facts["gradients"]) == ({}, False)


def test_the_papers_share_is_reached_at_more_sds_where_there_are_more_data():
    share = bound_distance.PAPER_SHARE
    points = [(0.0, 12.0, 1.0), (10.0, 1e6 * share / 4, 1.0), (30.0, 1e6 * share * 9 / 4, 1.0)]
    assert bound_distance.share_distance(points, 1_000_000) == pytest.approx(20)
    # the same bright counts of fewer data are a larger share, reached nearer
    assert bound_distance.share_distance(points, 500_000) == pytest.approx(20 / np.sqrt(2))
    assert np.isnan(bound_distance.share_distance(points, 10_000_000))
