"""What depends on priors: reweighted draws against normal distributions known exactly."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flyrun
from flyrun.fitting import sensitivity


def normal(prior_sd, data, data_sd, s=40_000):
    """Draws under the prior N(0, prior_sd²) and the likelihood N(data, data_sd²), and the logs of both."""
    precision = prior_sd**-2 + data_sd**-2
    x = data * data_sd**-2 / precision + np.random.default_rng(0).normal(size=s) * precision**-0.5
    parts = stats.norm.logpdf(x, 0.0, prior_sd), stats.norm.logpdf(x, data, data_sd)
    return x[:, None], np.full(s, 1.0 / s), *parts


def exactly(prior_sd, data, data_sd, of_prior):
    """The distance per doubling, by normal distribution functions on a grid."""

    def posterior(a, b):
        precision = a * prior_sd**-2 + b * data_sd**-2
        return stats.norm(b * data * data_sd**-2 / precision, precision**-0.5)

    base, total = posterior(1.0, 1.0), 0.0
    for alpha in (1.0 / 1.01, 1.01):
        other = posterior(alpha, 1.0) if of_prior else posterior(1.0, alpha)
        both = []
        for side in (1.0, -1.0):
            low, high = base.mean() - 6 * base.std(), base.mean() + 4.1 * base.std()
            if side < 0:
                low, high = base.mean() - 4.1 * base.std(), base.mean() + 6 * base.std()
            grid = np.linspace(low, high, 20_001)
            p, q = (each.cdf(grid) if side > 0 else each.sf(grid) for each in (base, other))
            m = 0.5 * (p + q)
            apart = np.trapezoid(p * np.log2(p / m) + q * np.log2(q / m), grid)
            both.append(np.sqrt(apart / np.trapezoid(p + q, grid)))
        total += max(both)
    return total / (2 * np.log2(1.01))


CASES = {(1.0, 6.0, 1.0): sensitivity.DISAGREE, (1.0, 1.5, 5.0): sensitivity.WEAK, (10.0, 1.0, 0.2): ""}


@pytest.mark.parametrize("case", CASES)
def test_the_distance_is_that_of_normal_distributions(case):
    x, w, *parts = normal(*case)
    for part, of_prior in zip(parts, (True, False), strict=True):
        found = sensitivity.of_power(x, w, part)[0]
        assert found == pytest.approx(exactly(*case, of_prior), rel=0.1, abs=0.003)


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case):
    x, w, of_prior, of_data = normal(*case)
    assert sensitivity.verdicts(x, w, of_prior, of_data) == [CASES[case]]
    flat = 0.0 * of_prior  # a prior that is not reweighted says nothing
    assert sensitivity.verdicts(x, w, flat, of_data) == [""]


def test_a_report_names_what_depends_on_its_prior():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 60))
    frame = pd.DataFrame({"x": x, "z": z, "y": 2.0 * x + rng.normal(size=60)})
    fit = flyrun.fit(frame, "y ~ x + z", model="gaussian", priors={"x": "normal(-1, 0.2)"})
    rows = {row["coefficient"]: row["prior_data"] for row in fit._about["coefficients"]}
    assert rows["x"] == sensitivity.DISAGREE
    usual = flyrun.fit(frame, "y ~ x + z", model="gaussian")
    assert {row["prior_data"] for row in usual._about["coefficients"]} == {""}
    assert sensitivity.DISAGREE not in usual.report.read_text(encoding="utf-8")
    assert sensitivity.DISAGREE in fit.report.read_text(encoding="utf-8")


def test_distances_by_weighted_draws_are_those_of_a_normal_posterior(monkeypatch):
    """Draws of next to no weight would stretch the range, and so halve the distance."""
    distances, of_power = [], sensitivity.of_power

    def kept(values, weights, log_part):
        distances.append(of_power(values, weights, log_part))
        return distances[-1]

    monkeypatch.setattr(sensitivity, "of_power", kept)
    rng = np.random.default_rng(0)
    x = rng.normal(size=4_000)
    frame = pd.DataFrame({"x": x, "y": rng.random(4_000) < 1.0 / (1.0 + np.exp(-x))})
    flyrun.fit(frame, "y ~ x", model="logistic")
    exact = rng.normal(size=(4_000, 1))
    right = of_power(exact, np.full(4_000, 1 / 4_000), -0.5 * exact[:, 0] ** 2)
    assert distances[1] / right == pytest.approx(1.0, abs=0.25)
    wide = 3.0 * rng.standard_t(4, size=(4_000, 1))  # the control
    weights = np.exp(-0.5 * wide[:, 0] ** 2) * (1.0 + (wide[:, 0] / 3.0) ** 2 / 4.0) ** 2.5
    assert of_power(wide, weights / weights.sum(), -0.5 * wide[:, 0] ** 2) < 0.5 * right
