"""What Angelino, Johnson & Adams (2016) print and what is meant: each formula as printed fails where the
mended one passes.

Elsewhere: (5.49) without −η_τ in test_streaming_vb.py, Algorithm 18 without a step size in test_black_box.py.
Of notation only, and untested: (2.65) for (2.64) in Algorithm 4, the last parenthesis of (5.5), θ̂ for θ in
(5.31), y^(k) for y^(t) in (5.46), "q_0(θ)p(θ)" for q_0(θ) = p(θ), the index after (5.48).
"""

import numpy as np
import pytest

RNG_SEED = 0


def _normal(x, mean, variance):
    return np.exp(-0.5 * (x - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


def _moments(grid, density):
    weight = density / density.sum()
    mean = weight @ grid
    return mean, weight @ (grid - mean) ** 2


@pytest.mark.parametrize(("one", "right"), [(1.0, True), (0.0, False)], ids=["mended", "as printed"])
def test_5_12_to_5_19_and_algorithm_17_count_the_data(one, right):
    """Unit noise about θ ~ N(0, 1): η = (Σ y, count), statistics (y, 1); printed: y alone."""
    y = np.random.default_rng(RNG_SEED).normal(2.0, 1.0, 100)
    prior = eta = np.array([0.0, 1.0])
    for step in range(400):
        batch, rate = y[10 * (step % 10) :][:10], 1 / (1 + step)
        statistics = 10 * np.array([batch.sum(), one * len(batch)])
        eta = (1 - rate) * eta + rate * (prior + statistics)
    found = np.allclose(eta, [y.sum(), 101], rtol=1e-9)
    assert found == right
    if not right:
        assert eta[1] == pytest.approx(1)  # never moves


def _clutter_by_sep(y, cavity_sites, share=0.5, wide=10.0, prior=100.0):
    """Mean and variance where the average site settles; its cavity has so many sites."""
    n = len(y)
    site = np.array([0.5, 0.5 * np.median(y)])
    for _ in range(400):
        precision = 1 / prior + cavity_sites(n) * site[0]
        v = 1 / precision
        m = v * cavity_sites(n) * site[1]
        ours = (1 - share) * _normal(y, m, v + 1)
        r = ours / (ours + share * _normal(y, 0.0, wide))
        mean = m + v * r * (y - m) / (v + 1)
        variance = v - r * v**2 / (v + 1) + r * (1 - r) * v**2 * (y - m) ** 2 / (v + 1) ** 2
        made = np.array([(1 / variance - precision).mean(), (mean / variance - m * precision).mean()])
        site = 0.8 * site + 0.2 * made
    v = 1 / (1 / prior + n * site[0])
    return v * n * site[1], v


def test_algorithm_22s_cavity_leaves_out_one_site_of_all():
    """p f^(K−1); printed: p f^(1−1/K). With K = 1 both are p."""
    rng = np.random.default_rng(RNG_SEED)
    y = np.where(rng.random(200) < 0.5, rng.normal(2.0, 1.0, 200), rng.normal(0.0, np.sqrt(10), 200))
    grid = np.linspace(0, 4, 4001)
    log_p = np.log(0.5 * _normal(y, grid[:, None], 1.0) + 0.5 * _normal(y, 0.0, 10.0)).sum(axis=1)
    log_p -= grid**2 / 200
    mean, variance = _moments(grid, np.exp(log_p - log_p.max()))
    found, spread = _clutter_by_sep(y, lambda k: k - 1)
    assert abs(found - mean) < 0.1 * np.sqrt(variance)
    assert 0.9 < np.sqrt(spread / variance) < 1.1
    found, spread = _clutter_by_sep(y, lambda k: 1 - 1 / k)
    assert abs(found - mean) > np.sqrt(variance) or not 0.5 < np.sqrt(spread / variance) < 2


@pytest.mark.parametrize("right", [True, False], ids=["mended", "as printed"])
def test_5_56_sees_a_datum_once(right):
    """φ ~ N(0, 1), z ~ N(φ, 1), y ~ N(z, 1). With p(y | φ) there, z is from p(z | y, φ); as printed,
    p(z | φ) p(y | z, φ), φ is what two data like y would make of it.
    """
    y, grid = 1.5, np.linspace(-8, 8, 801)
    phi, z = grid[:, None], grid
    likelihood = _normal(y, phi, 2.0)
    latent = _normal(z, phi, 1.0) * _normal(y, z, 1.0)
    if right:
        latent /= latent.sum(axis=1, keepdims=True)
    mean, variance = _moments(grid, (_normal(phi, 0.0, 1.0) * likelihood * latent).sum(axis=1))
    seen = 1 if right else 2
    assert mean == pytest.approx(seen * y / 2 / (1 + seen / 2), rel=1e-6)
    assert variance == pytest.approx(1 / (1 + seen / 2), rel=1e-6)
    assert (variance == pytest.approx(2 / 3, rel=1e-6)) == right


def test_2_52_an_entropy_has_a_logarithm():
    grid = np.linspace(-30, 30, 60_001)
    q, width = _normal(grid, 0.0, 4.0), grid[1] - grid[0]
    entropy = 0.5 * np.log(2 * np.pi * np.e * 4)
    assert -(q @ np.log(q)) * width == pytest.approx(entropy, rel=1e-9)
    assert abs(-(q @ q) * width - entropy) > 1


def test_2_53_a_bound_has_a_logarithm():
    """Mended, the bound is below log Z by KL; printed, the mean of the ratio is Z for every q."""
    grid = np.linspace(-30, 30, 60_001)
    width, z = grid[1] - grid[0], 3.0
    unnormalised = z * _normal(grid, 1.0, 1.0)
    for mean, variance in ((1.0, 1.0), (0.0, 0.5)):
        q = _normal(grid, mean, variance)
        inside = q > 1e-300
        ratio = unnormalised[inside] / q[inside]
        kl = 0.5 * (variance + (mean - 1) ** 2 - 1 - np.log(variance))
        assert (q[inside] @ np.log(ratio)) * width == pytest.approx(np.log(z) - kl, abs=1e-9)
        assert (q[inside] @ ratio) * width == pytest.approx(z, rel=1e-6)


def test_5_34_a_constant_times_the_score_is_only_noise():
    """∇_μ of E_q log p̄ by scores, q = N(μ, 1), log p̄ = −½θ²: the printed constant leaves its mean and
    makes its variance larger.
    """
    mean, draws = 0.5, 100_000
    noise = np.random.default_rng(RNG_SEED).standard_normal(draws)
    log_p, constant = -0.5 * (mean + noise) ** 2, 0.5 * np.log(2 * np.pi * np.e)
    plain, printed = log_p * noise, (log_p - 5 * constant) * noise
    for values in (plain, printed):
        assert abs(values.mean() + mean) < 4 * values.std() / np.sqrt(draws)
    assert printed.var() > 4 * plain.var()
