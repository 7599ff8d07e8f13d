"""Priors of coefficients that are not normal: a scan's draws are of all rows' posterior under them."""

from dataclasses import dataclass

import numpy as np
import pytest

from flyrun.fitting import mode, table_posterior, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.scan import row_weights
from tests.fit.test_scan import all_rows, scan, table, write

pytest.importorskip("pyarrow")
SD = 0.3  # so narrow that the prior's shape counts
DRAWS = 2_000


@dataclass(frozen=True)
class Student(CoefficientPrior):
    """A t of three degrees of freedom of this scale."""

    kind: str = "t"

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """(S,) of theta (S, P)."""
        z = (theta - self.mean) / self.sd
        return -2.0 * np.log1p(z * z / 3.0).sum(axis=1)

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slope and minus the second derivative, (P,) each."""
        z = (theta - self.mean) / self.sd
        below = 3.0 + z * z
        return -4.0 * z / below / self.sd, 4.0 * (3.0 - z * z) / below**2 / self.sd**2


def prior(kind, width):
    """Of so many coefficients."""
    zero, sd = np.zeros(width), np.full(width, SD)
    return Student(zero, sd) if kind == "t" else CoefficientPrior(zero, sd, kind)


def apart(found, post):
    """How far means are from those by all rows, in errors of the difference, (P,)."""
    at, likelihood = mode.find(post)
    about = weighted_draws.Mixture.of(at, mode.covariance(likelihood.curvature + post.prior_at(at).curvature))
    right = weighted_draws.by_all_rows(post, about, np.random.default_rng(0), DRAWS)
    assert right.why == ""
    (mean, covariance), (known, _) = found.moments(), right.moments()
    return np.abs(mean - known) / np.sqrt(
        np.diag(covariance) * (1.0 / found.effective + 1.0 / right.effective)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["laplace", pytest.param("t", marks=pytest.mark.slow)])
def test_draws_are_of_the_posterior_under_the_prior(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(row_weights, "DRAWS", DRAWS)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", DRAWS // 2)
    monkeypatch.setattr(table_posterior, "coefficient_prior", lambda one, levels, told: prior(kind, 6))
    columns = table(np.random.default_rng(3), 2_000, rare=12)
    made = scan(write(tmp_path / "shards", columns))
    assert made.scans == 1
    post = all_rows(made, columns, "logistic")
    assert apart(made.answer.found, post).max() < 3.5
    post.prior = prior("gaussian", 6)
    assert apart(made.answer.found, post).max() > 6
