"""What tests of streams and shards share: problems of known answers, and a count of likelihoods looked at."""

from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import factors, passes
from flyrun.experiments.models.features import Linear
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.numerics.compiled import implements

SMALL = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
LARGE = [SMALL[0], "dataset.n_data=4000", *SMALL[2:]]
STUDENT = ["dataset=two_modes", "model=student_t", "prior=gaussian"]


def method_of(folder, *more, words=SMALL):
    """The method of a problem's words and its own."""
    return prepare(arm_of(words, more), folder)


class Normal(NamedTuple):
    """y ~ N(η, sd²): a likelihood under which a Gaussian prior stays one."""

    target: np.ndarray  # (N,)
    sd: float
    n_predictors: int = 1


@implements(log_likelihood, Normal)
def _log_likelihood(model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        z = (model.target[index[i]] - eta[i, 0]) / model.sd
        values[i] = -0.5 * z * z
        if slopes is not None:
            slopes[i, 0] = z / model.sd


NORMAL = SimpleNamespace(
    LOG_CONCAVE=True,
    part=lambda model, which: model._replace(target=model.target[which]),
    curvature=lambda model, eta: np.full((len(eta), 1, 1), model.sd**-2),
)


def linear_gaussian(method, sampler=None, n_data=90, sd=0.7):
    """The same method, or another's options, for a regression with normal noise and prior N(0, I).

    With it the posterior's P and h.
    """
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((n_data, 3))
    target = rows @ np.array([1.0, -0.5, 0.3]) + sd * rng.standard_normal(n_data)
    old = method.arm
    model = SimpleNamespace(code=NORMAL, name="normal", auxiliary=False)
    settings = {"prior": old.prior, "dataset": old.dataset, "model": model, "method": old.method}
    arm = SimpleNamespace(sampler=sampler or old.sampler, **settings)
    dataset = replace(method.problem.dataset, features=rows, target=target, feature_names=("a", "b", "c"))
    problem = method.problem._replace(dataset=dataset, model=Normal(target, sd), features=Linear(rows))
    return type(method)(arm, problem), np.eye(3) + rows.T @ rows / sd**2, rows.T @ target / sd**2


def count_looks(monkeypatch):
    """A list of how many likelihoods every call from now on looks at."""
    seen = []
    by_value, by_position = passes.values_and_slopes, passes.log_likelihoods

    def values_and_slopes(model, eta):
        seen.append(len(eta))
        return by_value(model, eta)

    def log_likelihoods(module, model, features, thetas):
        seen.append(len(features.rows) * len(thetas))
        return by_position(module, model, features, thetas)

    monkeypatch.setattr(factors.passes, "values_and_slopes", values_and_slopes)
    monkeypatch.setattr(passes, "log_likelihoods", log_likelihoods)
    return seen


def assert_cuts_do_not_matter(method, cuts, seed=3):
    """The same bits in the state and the records of one run and of its parts."""
    whole, records = method.advance(method.init(seed), sum(cuts))
    state, parts = method.init(seed), []
    for n in cuts:
        state, part = method.advance(state, n)
        parts.append(part)
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])
    for name in records:
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), records[name])
    other = method.advance(method.init(seed + 1), sum(cuts))[0]
    assert not np.array_equal(other["linear"], whole["linear"])


def divergence(found, known):
    """KL of the Gaussian `found` from the one known, dictionaries of mean and covariance."""
    precision = np.linalg.inv(known["covariance"])
    both, away = precision @ found["covariance"], found["mean"] - known["mean"]
    return 0.5 * (np.trace(both) - len(away) + away @ precision @ away - np.linalg.slogdet(both)[1])
