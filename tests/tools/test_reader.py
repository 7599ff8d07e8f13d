"""Five published figures, worked out again by a reader: from stored draws, data and definitions."""

import math

import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov

from flyrun.experiments import data
from flyrun.experiments.config.dataset.graph_data import Precision
from flyrun.experiments.config.dataset.row_data import Mixture, Mnist7v9
from flyrun.experiments.data import precision
from tools.results import published


def laplace_is_off_on_mnist():
    """Newton's mode, against the stored draws of the posterior: root mean square over coordinates, in sds."""
    rows = data.load(Mnist7v9())
    x, t, theta = np.asarray(rows.features, float), rows.target, np.zeros(rows.features.shape[1])
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(t * (x @ theta)))
        hessian = (x.T * (p * (1.0 - p))) @ x + np.eye(len(theta))
        theta += np.linalg.solve(hessian, x.T @ (t * p) - theta)
    draws = np.load(published.MEASURED.parents[1] / "datasets/gold/mnist_7v9_sd1.npz")["draws"].astype(float)
    return np.sqrt(np.mean(((theta - draws.mean(axis=0)) / draws.std(axis=0)) ** 2))


def firefly_speedup_on_mnist():
    """Effective draws a query of MAP-tuned FlyMC, by those of the regular arm."""
    tuned, regular = (published.arm("mnist_logreg", name) for name in ("map_tuned", "regular"))
    worth = [one.ess_per_1000 / one.queries_per_iter for one in (tuned, regular)]
    return worth[0] / worth[1]


def mass_of_the_mixtures_lower_mode():
    """Summed over a grid of (θ₁, θ₂), both N(0, 1) before the data."""
    x, sd = data.load(Mixture()).target, 2.5
    first, second = np.meshgrid(np.linspace(-4, 4, 161), np.linspace(-6, 6, 241), indexing="ij")
    log_p = -(first**2 + second**2) / 2.0
    for one in x:
        log_p += np.logaddexp(
            -((one - first) ** 2) / (2 * sd**2), -((one - first - second) ** 2) / (2 * sd**2)
        )
    p = np.exp(log_p - log_p.max())
    return p[second < 0].sum() / (p.sum() - p[second == 0].sum())


def covariance_of_hogwild():
    """Four processors of three variables, a sweep a round: ‖S − Σ‖/‖Σ‖ where the rounds settle."""
    a = precision.load(Precision()).matrix
    block = block_diag(*[np.ones((3, 3))] * 4) > 0
    lower = np.tril(np.where(block, a, 0.0))  # what a sweep within a processor has updated already
    step = np.linalg.solve(lower, lower - a)
    noise = np.linalg.solve(lower, np.linalg.solve(lower, np.eye(12)).T)
    s = solve_discrete_lyapunov(step, noise)
    return np.linalg.norm(s - np.linalg.inv(a)) / np.linalg.norm(np.linalg.inv(a))


def energy_of_the_potts_graph():
    """Ψ: β·exp(−γd²) summed over the pairs of a 20 × 20 grid, β = 4.6, γ = 1.5."""
    places = np.array([(i, j) for i in range(20) for j in range(20)], float)
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    return 4.6 * (np.exp(-1.5 * squares).sum() - 400.0) / 2.0


CHECKED = {
    laplace_is_off_on_mnist: ("mnist_approximations", "laplace", "off", 0.05),
    firefly_speedup_on_mnist: ("mnist_logreg", "map_tuned", "speedup", 1e-6),
    mass_of_the_mixtures_lower_mode: ("pmd_mixture", "pmd", "true_mode_mass", 2e-3),
    covariance_of_hogwild: ("hogwild_gaussian", "bsp_1", "expected_covariance_off", 1e-9),
    energy_of_the_potts_graph: ("potts_mgpmh", "gibbs", "Psi", 1e-9),
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim.__name__)
def test_a_reader_finds_the_published_figure(claim):
    experiment, arm, column, within = CHECKED[claim]
    said, found = published.arm(experiment, arm)[column], claim()
    assert math.isclose(found, said, rel_tol=within), (found, said)
    assert not math.isclose(found, 1.12 * said, rel_tol=within)  # nor would another figure have passed
