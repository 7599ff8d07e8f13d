"""Any terms of groups by chains: the map, slopes, and draws against other ways to the same numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from flyrun.families import censoring
from flyrun.families.family import family
from flyrun.families.options import for_tables
from flyrun.families.prior_densities import HalfT
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import draw, followed, following, joint_map, level_map, scales, turning
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.groups.term import Term
from flyrun.fitting.table_rows import Rows
from flyrun.ground.diagnostics import ess

CROSSED = [(8, 2, True), (4, 1, False)]
#: terms, each of so many levels, effects, and correlated or not
SHAPES = [CROSSED, [(6, 3, True)], [(5, 2, False), (12, 1, False), (3, 1, False)]]
FAMILIES = [name for name in for_tables() if family(name).linear(4) == 1]


def never() -> bool:
    """Time is never up."""
    return False


def made(name: str, shape: list[tuple[int, int, bool]], n: int = 60, seed: int = 0) -> TermsPosterior:
    """A posterior of rows with these terms, of effects that are there."""
    rng, one = np.random.default_rng(seed), family(name)
    features = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])[:, : 3 if one.intercept else 2]
    terms, eta = [], 0.5 * features[:, 0]
    for levels, effects, correlated in shape:
        code = np.append(np.arange(levels), rng.integers(0, levels, n - levels))
        columns = np.column_stack([np.ones(n), rng.standard_normal((n, effects - 1))])
        terms.append(Term(code, columns, levels, correlated, (HalfT(3.0, 1.0),) * effects, 1.5))
        eta = eta + 0.5 * (columns * rng.standard_normal((levels, effects))[code]).sum(axis=1)
    levels = 4 if name == "ordinal" else 0
    trials: Any = (
        rng.integers(1, 6, n).astype(float) if "binomial" in name and "negative" not in name else 1.0
    )
    others = [0.3 * number.prior.draw(rng) for number in one.auxiliary(levels, 1.0)]
    count = np.asarray(trials, np.int64) if np.ndim(trials) else 1
    y = np.asarray(one.draw(rng, count, [eta, *(np.full(n, a) for a in others)]), float)
    prior = CoefficientPrior(np.zeros(features.shape[1]), np.full(features.shape[1], 2.5))
    rows = Rows(features, y, trials, 0.1)
    return TermsPosterior(one, rows, prior, levels, terms=tuple(sorted(terms, key=lambda term: term.size)))


def differences(f: Any, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Slopes of f, (C,) of x (m, C), by differences."""
    ends = [(f(x + away), f(x - away)) for away in step * np.eye(len(x))[..., None]]
    return np.array([(up - down) / (2.0 * step) for up, down in ends])


@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_map_gives_effects_their_covariance_and_mean_and_goes_back(q: int) -> None:
    rng, chains, levels = np.random.default_rng(q), 2, 3
    h = 0.5 * rng.standard_normal((q * (q + 1) // 2, chains))
    half = rng.standard_normal((levels, q, q + 1))
    information, c = np.einsum("jik,jlk->ilj", half, half), np.array([0.7, 1.4])
    r, z = rng.standard_normal((2, q, levels, chains))
    t = level_map.triangle(h, q).t
    roots = level_map.roots(information, t, c)
    mapped = level_map.forward(z, r, *roots)
    for j in range(levels):
        precision = np.linalg.inv(t[..., 1] @ t[..., 1].T) + c[1] * information[..., j]
        root = mapped.q[..., j, 1]
        assert_allclose(root @ root.T, np.linalg.inv(precision), atol=1e-10)
        assert_allclose(
            mapped.u[:, j, 1], root @ z[:, j, 1] + np.linalg.solve(precision, r[:, j, 1]), atol=1e-10
        )
    assert_allclose(level_map.backward(mapped.v, r, *roots), z, atol=1e-10)
    none = level_map.forward(z, r, *level_map.roots(information, 0.0 * t, c))  # sds of 0
    assert_allclose(none.u, 0.0)
    assert_allclose(none.v, z)


@pytest.mark.parametrize("q", [2, 4])
def test_the_prior_of_correlations_is_lkj(q: int) -> None:
    """The density of the correlation matrix is |R|^(eta − 1): of two the Jacobian is known."""
    rng, eta = np.random.default_rng(0), 2.5
    h = 0.7 * rng.standard_normal((q * (q + 1) // 2, 5))
    value, slopes = level_map.lkj(h, q, eta)
    assert_allclose(slopes, differences(lambda x: level_map.lkj(x, q, eta)[0], h), atol=1e-6)
    its = level_map.triangle(h, q)
    root = its.t / np.exp(h[:q])[:, None]
    correlations = np.einsum("ikc,jkc->ijc", root, root)
    assert_allclose(correlations[range(q), range(q)], 1.0)
    lower = np.tril_indices(q, -1)
    for c in range(h.shape[1]):
        at = h[:, c : c + 1]

        def read(x: np.ndarray) -> np.ndarray:
            root = level_map.triangle(np.concatenate([np.zeros((q, 1)), x]), q).t[..., 0]
            return (root @ root.T)[lower]

        steps = 1e-6 * np.eye(len(at) - q)[..., None]
        jacobian = np.array([(read(at[q:] + s) - read(at[q:] - s)) / 2e-6 for s in steps])
        right = (eta - 1.0) * np.linalg.slogdet(correlations[..., c])[1] + np.linalg.slogdet(jacobian)[1]
        assert value[c] == pytest.approx(right, abs=1e-6)


@pytest.mark.thorough(but=("gaussian", "ordinal"))
@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_agree_with_differences(name: str) -> None:
    for shape in SHAPES:
        assert_slopes(made(name, shape))


@pytest.mark.parametrize("joint", [0, 2, 5])  # numbers at most
def test_slopes_agree_where_the_largest_term_is_not_integrated_out(
    joint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "_LARGE", -1_000_000)
    monkeypatch.setattr(joint_map, "MOST", joint or joint_map.MOST)
    for shape in SHAPES:
        assert_slopes(made("gaussian", shape))


@pytest.mark.parametrize("name", ["logistic", "poisson", "binomial"])
def test_many_rows_and_sparse_products_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def at() -> following.Value:
        posterior = made(name, SHAPES[2])
        posterior.search()
        return posterior.at(0.3 * np.random.default_rng(1).standard_normal((posterior.size + 22 + 3, 2)))

    few = at()
    monkeypatch.setattr(following, "MANY", 1)
    monkeypatch.setattr(followed, "_SPARSE", 0)
    for its, right in zip(at(), few, strict=True):
        assert_allclose(its, right, rtol=1e-9, atol=1e-9)
    assert_slopes(made(name, SHAPES[2]))


def assert_slopes(posterior: TermsPosterior) -> None:
    """They are those of differences, and x comes back."""
    posterior.search()
    x = 0.3 * np.random.default_rng(1).standard_normal((posterior.size + posterior.n_effects, 2))
    at = posterior.at(x)
    right = differences(lambda x: posterior.at(x).log_density, x)
    assert_allclose(at.slopes, right, atol=1e-5 * (1.0 + np.abs(right).max()))
    assert_allclose(posterior.following(at), x, atol=1e-8)


def test_slopes_of_censored_targets_agree_too() -> None:
    for name in ("weibull", "gamma"):
        its = made(name, CROSSED)
        y, one = its.rows.target, family(name)
        rows = replace(its.rows, trials=censoring.columns(one, y, np.arange(60) % 2, 0.5 * y))
        whole = censoring.censored(one.in_one_part(0) if one.alone_derivatives else one)
        assert_slopes(TermsPosterior(whole, rows, its.prior, terms=its.terms))


@np.errstate(all="ignore")
def chains(posterior: TermsPosterior, seed: int = 0, most: int = 5_000) -> tuple[turning.Draws, str]:
    """Draws until nothing speaks against them, or so many a chain."""
    sampler = turning.Sampler(posterior, np.random.default_rng(seed), never)
    draws = sampler.draw(300)
    while (why := turning.doubt(draws, rows_of(draws))) and draws.psi.shape[1] < most:
        draws = draws.with_more(sampler.draw(draws.psi.shape[1]))
    return draws, why


def rows_of(draws: turning.Draws) -> list[dict[str, Any]]:
    """What a fit says of each number."""
    its = ess.summary(draws.psi)
    return [
        {"coefficient": "a number", "rhat": rhat, "ess_bulk": bulk, "ess_tail": tail}
        for rhat, bulk, tail in zip(its.rhat, its.bulk, its.tail, strict=True)
    ]


def one_factor(name: str, sizes: list[int], slope: bool) -> tuple[GroupedPosterior, TermsPosterior]:
    """The same posterior twice: effects integrated out, and drawn by chains."""
    rng, n = np.random.default_rng(3), sum(sizes)
    code = np.repeat(np.arange(len(sizes)), sizes)
    features = np.column_stack([rng.standard_normal(n), np.ones(n)])
    b = rng.normal(0.0, [1.0, 0.5], (len(sizes), 2)) * [1.0, slope]
    eta = features @ [0.5, -0.3] + b[code, 0] + b[code, 1] * features[:, 0]
    y = np.asarray(family(name).draw(rng, 1, [eta, -0.5]), float)
    prior, rows = CoefficientPrior(np.zeros(2), np.full(2, 2.5)), Rows(features, y)
    along = features[:, 0].copy() if slope else None
    starts = np.append(0, np.cumsum(sizes))[:-1]
    columns = features[:, ::-1] if slope else np.ones((n, 1))
    term = Term(code, columns, len(sizes), slope, (scales.USUAL.sd,) * columns.shape[1])
    return (
        GroupedPosterior(family(name), rows, prior, starts=starts, slope=along),
        TermsPosterior(family(name), rows, prior, terms=(term,)),
    )


def wrong(name: str, sizes: list[int], slope: bool, most: int = 5_000) -> float:
    """By how many standard errors moments of chains and of weighted draws differ, at most."""
    integrated, drawn = one_factor(name, sizes, slope)
    weighted = draw.draw(integrated).weighted
    assert weighted.why == ""
    draws, why = chains(drawn, most=most)
    assert why == "" or most < 5_000
    x, right = draws.psi.copy(), weighted.x.copy()
    if slope:  # log T00, T10, log T11 there
        h = right[:, -3:]
        right[:, -2] = 0.5 * np.log(h[:, 1] ** 2 + np.exp(2.0 * h[:, 2]))
        right[:, -1] = np.arctanh(h[:, 1] / np.exp(right[:, -2]))
    worst = 0.0
    for power in (1, 2):
        away = (right - weighted.weights @ right) ** power if power > 1 else right
        mean = weighted.weights @ away
        error = weighted.weights**2 @ (away - mean) ** 2
        values = (x - weighted.weights @ right) ** power if power > 1 else x
        summary = ess.summary(values)
        error = error + values.var(axis=(0, 1)) / summary.bulk
        worst = max(worst, float((np.abs(values.mean(axis=(0, 1)) - mean) / np.sqrt(error)).max()))
    return worst


CASES = [
    pytest.param("logistic", [3, 3, 3], False, marks=pytest.mark.slow),
    ("gaussian", [3, 3, 3], False),
    ("gaussian", [6, 9, 4, 12], True),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "sizes", "slope"), CASES)
def test_chains_and_integrated_draws_are_of_one_posterior(name: str, sizes: list[int], slope: bool) -> None:
    assert wrong(name, sizes, slope) < 4.5


def test_a_map_without_its_determinant_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under normal noise ζ and z are exactly N(0, I) given all else: what is left is the density of this."""
    integrated, posterior = one_factor("gaussian", [3, 3, 3], False)
    posterior.search()
    n, size = posterior.n_coefficients, posterior.size
    x = 0.5 * np.random.default_rng(0).standard_normal((size + posterior.n_effects, 6))

    def marginal(read: np.ndarray) -> float:
        """Of log sigma and the log sd: rows are normal, of the sum of three covariances."""
        noise, sd = np.exp(2.0 * read[-2:])
        alike = np.equal.outer(posterior.terms[0].code, posterior.terms[0].code)
        features, prior = posterior.rows.features, posterior.prior
        covariance = noise * np.eye(len(alike)) + sd * alike + features * prior.sd**2 @ features.T
        y = posterior.rows.target
        log_prior = float(integrated.log_prior(read[None])[0] - prior.log_density(read[None, :n])[0])
        return log_prior - 0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1])

    def left() -> np.ndarray:
        """Of each point: the density without coefficients and effects by the map less that in closed form."""
        value = posterior.at(x)
        s = x[n:size]
        pace = (1.0 + 0.5 * s * s) / np.sqrt(1.0 + 0.25 * s * s)
        normal = 0.5 * (x[:n] ** 2).sum(axis=0) + 0.5 * (x[size:] ** 2).sum(axis=0)
        by_map = value.log_density + normal - np.log(pace).sum(axis=0)
        return by_map - np.array([marginal(read) for read in value.read.T])

    assert_allclose(np.ptp(left()), 0.0, atol=1e-6)
    break_the_map(monkeypatch)  # the negative control
    assert np.ptp(left()) > 0.1


def break_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the log determinant out."""
    whole = level_map.forward

    def without(*given: Any) -> level_map.Mapped:
        made = whole(*given)
        return made._replace(level=-0.5 * (made.v**2).sum(axis=(0, 1)))

    monkeypatch.setattr(following.level_map, "forward", without)


@pytest.mark.thorough
def test_levels_of_a_small_factor_go_with_the_intercept_at_every_sd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a factor of two levels beside others: a constant whitening leaves few effective draws."""

    def effective() -> float:
        posterior = made("poisson", [(30, 1, False), (8, 1, False), (2, 1, False)], 240, seed=1)
        sampler = turning.Sampler(posterior, np.random.default_rng(0), never)
        return float(ess.summary(sampler.draw(150).psi, wanted=("bulk",)).bulk.min())

    with np.errstate(all="ignore"):
        jointly = effective()
        monkeypatch.setattr(joint_map, "MOST", 3)
        monkeypatch.setattr(followed, "_LARGE", -1_000_000)
        assert effective() < 0.5 * jointly > 200.0


@pytest.mark.thorough
@np.errstate(all="ignore")
def test_sds_of_few_levels_are_as_wide_as_their_draws() -> None:
    """At the reference differences tell of hardly any curvature of theirs, so that steps would be tiny."""
    posterior = made("ordinal", [(5, 1, False), (4, 1, False)], 40, seed=4)
    sampler = turning.Sampler(posterior, np.random.default_rng(0), never)
    draws = sampler.draw(100)
    s = posterior.coordinates(draws.psi.reshape(-1, posterior.size).T)
    wide = np.sqrt((sampler.whitening.root**2).sum(axis=1))
    assert (wide < 2.0 * s.std(axis=1)).all()
    assert np.exp(sampler.log_step) > 0.25


def test_a_budget_that_ends_breaks_a_trajectory_off() -> None:
    """With no time left nothing is drawn, nor is a long trajectory gone to its end."""
    posterior = made("poisson", CROSSED)
    spent = iter([False] * 40)
    with np.errstate(all="ignore"):
        sampler = turning.Sampler(posterior, np.random.default_rng(0), lambda: next(spent, True))
        queries = posterior.queries
        assert sampler.draw(10).psi.shape[1] == 0
    assert posterior.queries == queries


def test_where_slopes_have_no_digits_a_scale_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = made("poisson", [(4, 1, False), (12, 1, False)])
    posterior.search(never)
    at, n = posterior.at, posterior.n_coefficients
    centre = np.zeros(posterior.size - n)
    usual = turning.Whitening(posterior, centre).root

    def far_out(x: np.ndarray, **words: Any) -> Any:
        point = at(x, **words)
        slopes = point.slopes.copy()
        slopes[n] = np.nan
        return point._replace(slopes=slopes)

    monkeypatch.setattr(posterior, "at", far_out)
    root = turning.Whitening(posterior, centre).root
    assert np.isfinite(root).all()
    assert not np.allclose(root, usual)


def separated(groups: int = 10) -> TermsPosterior:
    """Three rows of yes or no in each of some groups that differ so much that most of them are all alike."""
    rng, n = np.random.default_rng(1), 3 * groups
    code = np.repeat(np.arange(groups), 3)
    y = (4.0 * rng.standard_normal(groups)[code] + rng.logistic(size=n) > 0.0).astype(float)
    pairs = np.unique([code, np.arange(n) % 2], axis=1, return_inverse=True)[1]
    terms = tuple(
        Term(its, np.ones((n, 1)), int(its.max()) + 1, False, (scales.USUAL.sd,)) for its in (code, pairs)
    )
    prior = CoefficientPrior(np.zeros(1), np.full(1, 10.0))
    return TermsPosterior(family("logistic"), Rows(np.ones((n, 1)), y), prior, terms=terms)


@pytest.mark.thorough
@np.errstate(all="ignore")
def test_steps_that_tails_hardly_take_are_halved() -> None:
    sampler = turning.Sampler(separated(), np.random.default_rng(0), never)
    sampler.log_step = np.log(0.9)  # as where the density bends less than in the tail
    draws = sampler.draw(300)
    assert draws.accepted > draws.in_tails()[0]
    assert draws.in_tails()[0] < 0.5
    settled = [{"coefficient": "a number", "rhat": 1.0, "ess_bulk": 1e4, "ess_tail": 1e4}]
    alike = draws._replace(effects=np.random.default_rng(0).standard_normal((turning.CHAINS, 600, 1)))
    assert "tail" in turning.doubt(alike, settled)
    while sampler.shortened(draws):
        draws = sampler.draw(300)
    assert draws.in_tails()[0] >= 0.5


def test_a_tail_that_is_hardly_left_is_found_and_no_other_negative_control() -> None:
    rng = np.random.default_rng(0)
    psi, chances = rng.standard_normal((turning.CHAINS, 400, 3)), np.full((turning.CHAINS, 400), 0.8)
    draws = turning.Draws(psi, psi[:, :, :0], psi[:, :, 0], chances)
    assert draws.in_tails()[0] == pytest.approx(0.8)
    chances[:, 1:][psi[:, :-1, 1] > 1.6] = 0.1
    least, place = draws.in_tails()
    assert (least < 0.2, place) == (True, 1)
