"""Simulation-based calibration of chains with terms of groups: truths rank evenly among their draws."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import kstest

from flyrun.families.family import family
from flyrun.families.prior_densities import HalfT
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import level_map, turning
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.term import Term
from flyrun.fitting.table_rows import Rows
from tests.fit.test_terms import break_the_map, never, rows_of

_ITERATIONS, _MOST = 200, 800  # draws of a chain, at first and at most
_FEW = 2  # effects of the first and of the last term whose ranks are looked at


class Design(NamedTuple):
    """Rows, and terms each of so many levels and effects; the first term's levels alternate, the last's rows
    stand together. Nested: the levels of the last are within the first's."""

    family: str
    rows: int
    terms: tuple[tuple[int, int], ...]


DESIGNS = {
    "three groups": Design("logistic", 9, ((3, 1),)),
    "slopes": Design("logistic", 36, ((6, 3),)),
    "nested": Design("poisson", 36, ((4, 1), (12, 1))),
    "crossed": Design("ordinal", 40, ((4, 1), (5, 1))),
    "crossed slopes": Design("gaussian", 40, ((4, 1), (5, 2))),
    "two levels": Design("poisson", 60, ((2, 1), (5, 1), (10, 1))),
}


def terms_of(design: Design, rng: np.random.Generator) -> tuple[Term, ...]:
    """The terms, the smallest first."""
    row, terms = np.arange(design.rows), []
    for place, (levels, effects) in enumerate(design.terms):
        code = row % levels if place == 0 or design is DESIGNS["nested"] else row * levels // design.rows
        columns = np.column_stack([np.ones(design.rows), rng.standard_normal((design.rows, effects - 1))])
        terms.append(Term(code, columns, levels, effects > 1, (HalfT(3.0, 0.7),) * effects))
    return tuple(sorted(terms, key=lambda term: term.size))


class Truth(NamedTuple):
    """What priors and rows' distribution gave. numbers: coefficients, auxiliary numbers and scales, (P,);
    effects: of each term, (E,); y: (n,)."""

    numbers: list[float]
    effects: list[np.ndarray]
    y: np.ndarray


def truth_of(
    design: Design, terms: tuple[Term, ...], features: np.ndarray, levels: int, rng: np.random.Generator
) -> Truth:
    """Drawn anew until all classes are there, for a table has no others: ranks are even given that, too."""
    its = family(design.family)
    while True:
        beta = rng.standard_normal(features.shape[1])
        others = [float(number.prior.draw(rng)) for number in its.auxiliary(levels, 1.0)]
        eta, scales, effects = features @ beta, list[float](), list[np.ndarray]()
        for term in terms:
            h = [float(sd.draw(rng)) for sd in term.sds]
            if term.correlated:  # LKJ, by its partial correlations
                power = term.eta + 0.5 * (term.effects - 2.0 - np.tril_indices(term.effects, -1)[1])
                h += list(np.arctanh(2.0 * rng.beta(power, power) - 1.0))
            triangle = level_map.triangle(np.array(h)[:, None], term.effects).t[..., 0]
            u = rng.standard_normal((term.levels, term.effects)) @ triangle.T
            eta = eta + (term.columns * u[term.code]).sum(axis=1)
            scales, effects = scales + h, [*effects, u.ravel()]
        predictors = [eta.clip(-40.0, 40.0), *(np.full(design.rows, a) for a in others)]
        y = np.asarray(its.draw(rng, 1, predictors), float)
        if len(set(y.tolist())) >= levels:
            return Truth([*beta, *others, *scales], effects, y)


def ranks_of(design: Design, seed: int) -> np.ndarray:
    """Of numbers and some effects that the priors gave, among draws: in (0, 1)."""
    rng, its = np.random.default_rng(50_000 + seed), family(design.family)
    terms, levels = terms_of(design, rng), 4 if design.family == "ordinal" else 0
    features = np.column_stack([rng.standard_normal(design.rows)] + its.intercept * [np.ones(design.rows)])
    number = features.shape[1]
    prior = CoefficientPrior(np.zeros(number), np.ones(number))
    truth = truth_of(design, terms, features, levels, rng)
    posterior = TermsPosterior(its, Rows(features, truth.y), prior, levels, terms=terms)
    sampler = turning.Sampler(posterior, np.random.default_rng(seed), never)
    draws = sampler.draw(_ITERATIONS)
    while turning.doubt(draws, rows_of(draws)) and draws.psi.shape[1] < _MOST:
        draws = draws.with_more(sampler.draw(draws.psi.shape[1]))
    last = posterior.effects[-1].start
    values = [draws.psi, draws.effects[..., :_FEW], draws.effects[..., last : last + _FEW]]
    right = np.concatenate([truth.numbers, truth.effects[0][:_FEW], truth.effects[-1][:_FEW]])
    return (np.concatenate(values, axis=2) < right).mean(axis=(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
@np.errstate(all="ignore")
def test_truths_rank_evenly_among_draws(name: str) -> None:
    ranks = np.array([ranks_of(DESIGNS[name], seed) for seed in range(60)])
    assert min(kstest(each, "uniform").pvalue for each in ranks.T) > 0.01 / ranks.shape[1]
    assert np.mean(np.abs(ranks - 0.5) < 0.45) == pytest.approx(0.9, abs=0.05)


@pytest.mark.slow
@np.errstate(all="ignore")
def test_a_map_without_its_determinant_ranks_truths_unevenly(monkeypatch: pytest.MonkeyPatch) -> None:
    break_the_map(monkeypatch)
    ranks = np.array([ranks_of(DESIGNS["nested"], seed) for seed in range(30)])
    assert min(kstest(each, "uniform").pvalue for each in ranks.T) < 0.01 / ranks.shape[1]
