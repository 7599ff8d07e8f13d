"""The two ways of drawing the Poisson estimate: one law, unbiased for e^ζ; what is refused."""

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.data.grid import gaussian_kernel
from flyrun.experiments.models.graphs.factor_graph import factor_graph
from flyrun.experiments.models.graphs.graph import total_energy
from flyrun.experiments.models.graphs.pair_factors import dense_pairs
from flyrun.experiments.models.graphs.potts import potts
from flyrun.experiments.samplers.gibbs import poisson_estimator
from flyrun.experiments.samplers.gibbs.local_minibatch import local_minibatch
from flyrun.experiments.samplers.gibbs.mgpmh import mgpmh
from flyrun.experiments.samplers.gibbs.poisson_gibbs import poisson_gibbs
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import outer_jit

GRID = potts(dense_pairs(0.3 * gaussian_kernel(4, 1.5)), 16, 3)
SCOPES = [(0, 1), (1, 2), (0, 1, 2)]
SHAPES = [(3, 4), (4, 2), (3, 4, 2)]
TABLES = factor_graph(
    [3, 4, 2], SCOPES, [np.random.default_rng(k).random(shape) for k, shape in enumerate(SHAPES)]
)


@outer_jit
def _draw(estimator, rng, graph, x, out, meter):
    energy = total_energy(graph, x)
    for k in range(out.shape[0]):
        out[k] = poisson_estimator.estimate(estimator, rng, graph, x, -1, 0, energy, meter)
    return energy


def _drawn(graph, batch, method, n=200_000, seed=11):
    return _drawn_by(poisson_estimator.estimator(graph, batch, method), graph, n, seed)


def _drawn_by(estimator, graph, n=200_000, seed=11):
    x = (np.arange(len(graph.bounds.sizes)) % 2).astype(np.int32)
    out, meter = np.empty(n), np.zeros(1)
    energy = _draw(estimator, np.random.default_rng(seed), graph, x, out, meter)
    return out, energy, meter[0] / n


@pytest.mark.thorough
@pytest.mark.parametrize("graph", [GRID, TABLES], ids=["grid", "tables"])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_mean_of_the_exponential_is_exp_energy(graph, share):
    batch = share * graph.bounds.total**2
    for method in ("faithful", "auto"):
        out, energy, _ = _drawn(graph, batch, method)
        weights = np.exp(out - energy)
        # fixed seed; at five standard errors a right estimator would fail once in two million
        assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / np.sqrt(len(weights))
        assert weights.std() / np.sqrt(len(weights)) < 0.01


def _one_law_p_value(ours, theirs, step):
    """Two-sample chi-squared test of estimates, which are whole multiples of `step`."""
    counts = [np.bincount(np.rint(out / step).astype(int), minlength=200) for out in (ours, theirs)]
    table = np.array(counts)
    table = table[:, table.sum(axis=0) > 20]
    assert table.shape[1] > 5
    return stats.chi2_contingency(table).pvalue


@pytest.mark.thorough
def test_faithful_and_superposed_have_the_same_distribution():
    batch = GRID.bounds.total**2
    step = np.log1p(GRID.bounds.total / batch)
    faithful, _, looks = _drawn(GRID, batch, "faithful")
    superposed, _, none = _drawn(GRID, batch, "superposed", seed=12)
    assert _one_law_p_value(faithful, superposed, step) > 1e-3
    assert none == 0.0
    assert abs(looks / batch - 1.0) < 0.01


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("part", ["mean", "spread"])
def test_negative_control_a_batch_that_is_off_by_a_tenth_has_another_law(part):
    batch = GRID.bounds.total**2
    step = np.log1p(GRID.bounds.total / batch)
    faithful, _, _ = _drawn(GRID, batch, "faithful")
    if part == "mean":  # superposed from a batch a tenth too large
        right = poisson_estimator.estimator(GRID, batch, "superposed")
        broken, _, _ = _drawn_by(right._replace(rate=1.1 * right.rate), GRID, seed=12)
    else:  # of the right mean, but as many factors in every batch: binomial, a tenth less variance
        n = int(10 * faithful.mean() / step)
        shares = np.random.default_rng(12).binomial(n, faithful.mean() / step / n, len(faithful))
        broken = step * shares
    assert _one_law_p_value(faithful, broken, step) < 1e-9


@pytest.mark.parametrize("batch", [0.0, -1.0, float("nan"), float("inf")])
def test_batches_that_are_none_are_refused(batch):
    for make in (mgpmh, poisson_gibbs, lambda graph, size: poisson_estimator.estimator(graph, size, "auto")):
        with pytest.raises(ConfigError, match=r"sampler\.batch: .*above 0"):
            make(GRID, batch)
    with pytest.raises(ConfigError, match=r"sampler\.batch=0: must be a whole number"):
        local_minibatch(GRID, 0)


def test_superposing_is_refused_where_factors_have_more_values():
    for make in (poisson_estimator.estimator, mgpmh):
        with pytest.raises(ConfigError, match=r"sampler\.estimator=superposed"):
            make(TABLES, 1.0, "superposed")
