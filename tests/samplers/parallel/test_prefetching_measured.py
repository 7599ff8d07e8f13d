"""Steps a round on 4,000 rows and five coefficients: theory, and how far each scheme gets."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.method import prepare
from flyrun.tables.dataset import Dataset

N, D, LONG, BURN_IN = 4_000, 5, 5_000, 1_000
WORDS = ["dataset=toy_2d", "model=logistic", "prior=gaussian", f"protocol.iterations={LONG}"]
NEAR = [*WORDS, "protocol.init=map", f"protocol.burn_in={BURN_IN}", "sampler.target_accept=0.165"]
# round steps of a twentieth from a draw of a wide prior
FAR = [*WORDS, "prior.scale=10", "protocol.init=prior", "protocol.burn_in=10", "sampler.metric=identity"]
FAR = [*FAR, "sampler.step=0.05"]


@functools.cache
def rows():
    rng = np.random.default_rng(1)
    features = np.column_stack([rng.standard_normal((N, D - 1)), np.ones(N)])
    margins = features @ np.array([1.0, -1.0, 0.5, 0.5, 0.2])
    target = np.where(rng.random(N) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
    names = tuple(f"x{d}" for d in range(D))
    return Dataset("it", features, target, np.empty((0, D)), np.empty(0), names, "rows", task="binary")


@pytest.fixture
def method_of(tmp_path, monkeypatch):
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: rows())
    arms = functools.cache(lambda *words: arm_of(list(words), ("sampler=prefetching",)))

    def made(words, scheme, workers, **more):
        arm = arms(*words)
        sampler = replace(arm.sampler, scheme=scheme, workers=workers, **more)
        return prepare(replace(arm, sampler=sampler), tmp_path)

    return made


def steps(method, n, first=0, seed=0):
    state, told = method.advance(method.init(seed), n)
    return (n - first) * N / told["span"][first:].sum(), method.facts(state).more


@pytest.mark.slow
@pytest.mark.parametrize("workers", [4, 16, 64])
def test_near_the_mode_theory_holds_and_predictions_gain(method_of, workers):
    found = {}
    for scheme in ("naive", "rejections", "static", "foretold"):
        found[scheme], more = steps(method_of(NEAR, scheme, workers), LONG, BURN_IN)
        assert found[scheme] == pytest.approx(more["expected_steps"], rel=0.05)
    found["predictive"], _ = steps(method_of(NEAR, "predictive", workers), LONG, BURN_IN)
    assert found["predictive"] >= {4: 3.0, 16: 6.0, 64: 9.0}[workers]
    assert found["predictive"] >= found["static"] > found["naive"]
    assert found["foretold"] >= {4: 3.9, 16: 14.0, 64: 45.0}[workers]


@pytest.mark.slow
def test_far_from_the_mode_few_sums_tell_most(method_of):
    for workers, least in ((16, 10.0), (64, 18.0)):
        for seed in range(3):
            assert steps(method_of(FAR, "predictive", workers), 300, seed=seed)[0] >= least
        assert steps(method_of(FAR, "static", workers), 300)[0] < 0.6 * least


@pytest.mark.slow
def test_two_threads_keep_most_of_what_theory_allows(method_of):
    for scheme in ("static", "foretold"):
        # an evaluation waits, so that it takes as long whatever else the machine does
        method = method_of(NEAR, scheme, 2, team="threads", pause=0.2)
        method.warm_up()
        _, told = method.advance(method.init(0), 40)
        allowed = 40 * N / told["span"].sum()
        assert 0.2 * 40 / told["seconds"].sum() > 0.85 * allowed > 1.2
