"""`make bench_groups_hard`: tables are as they are said to be, references have their density's slopes, wrong
answers are told."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from tools.groups import beside, hard, many_chains, prior_draws
from tools.groups.beside import Answer, apart
from tools.groups.many_chains import Model, Term


def model(name: str, **terms: bool) -> Model:
    """Of 12 rows in three groups that cross two, with a slope."""
    rng = np.random.default_rng(5)
    x, code = rng.standard_normal(12), np.repeat(np.arange(3), 4)
    y = np.arange(12) % 3 + 1.0 if name != "ordinal" else np.arange(12) % 3
    return Model(name, x[:, None], y, (Term(code, x, **terms), Term(np.arange(12) % 2)), 3)


@pytest.mark.parametrize("name", [name for name in hard.FAMILIES if name != "logistic"])
@pytest.mark.parametrize("correlated", [True, False])
def test_slopes_are_those_of_the_density(name: str, correlated: bool) -> None:
    its, step = model(name, correlated=correlated), 1e-6
    at = 0.4 * np.random.default_rng(0).standard_normal((2, its.size))
    _, slopes = its.density(at)
    for k, away in enumerate(step * np.eye(its.size)):
        differences = (its.density(at + away)[0] - its.density(at - away)[0]) / (2.0 * step)
        assert slopes[:, k] == pytest.approx(differences, rel=1e-5, abs=1e-6)


def test_effects_have_the_sds_and_correlation_that_are_read() -> None:
    its = model("gaussian", correlated=True)
    at = np.random.default_rng(1).standard_normal((200_000, its.size))
    at[:, its.places[0].start : its.places[0].start + 3] = np.log(2.0), np.log(0.5), np.arctanh(0.6)
    sds, rho, _, u = its.effects(at, 0)
    assert sds[0] == pytest.approx([2.0, 0.5])
    assert rho[0] == pytest.approx(0.6)
    assert np.cov(u[:, :, 0].T) == pytest.approx(np.array([[4.0, 0.6], [0.6, 0.25]]), abs=0.03)


@pytest.mark.thorough
@pytest.mark.parametrize("method", [many_chains, prior_draws])
def test_references_find_what_quadrature_does(method: ModuleType) -> None:
    rng = np.random.default_rng(3)
    code, y = np.repeat(np.arange(3), 4), rng.standard_normal(12)
    its = Model("gaussian", np.empty((12, 0)), y, (Term(code),), 0)
    x = method.settled(its, lambda at: beside.unsettled({"h": at[..., 2], "s": at[..., 1]}))
    h, s = np.meshgrid(np.linspace(-9, 6, 400), np.linspace(-4, 3, 400))
    total, within = 1.0 * (code[:, None] == code), np.eye(12)
    log_p = np.empty_like(h)
    for place in np.ndindex(h.shape):
        t, v = np.exp(2.0 * h[place]), np.exp(2.0 * s[place])
        covariance = v * within + t * total + 100.0
        log_p[place] = -0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))
    log_p += h - 2.0 * np.log1p(np.exp(2.0 * h) / 18.75) + s - np.exp(s)
    weight = np.exp(log_p - log_p.max())
    for place, values in ((2, h), (1, s)):
        mean = np.average(values, weights=weight)
        sd = np.sqrt(np.average((values - mean) ** 2, weights=weight))
        assert abs(x[..., place].mean() - mean) < 0.08 * sd
        assert x[..., place].std() == pytest.approx(sd, rel=0.08)


def answer(stretch: float, shift: float = 0.0) -> Answer:
    """Draws of a long tail."""
    z = np.random.default_rng(round(100 * stretch)).standard_normal((8, 2_000))
    return Answer({"sd(g)": np.exp(3.0 * (stretch * z + shift))}, "", "")


@pytest.mark.parametrize(("stretch", "shift"), [(0.8, 0.0), (1.25, 0.0), (1.01, 0.3)])
def test_wrong_answers_are_found_negative_control(stretch: float, shift: float) -> None:
    (same,), (other,) = apart(answer(1.01), answer(1.0)), apart(answer(stretch, shift), answer(1.0))
    assert other.wrong
    assert not same.wrong


def test_tables_are_what_they_are_called_and_the_same_again() -> None:
    every = hard.cases()
    assert len(set(every)) == len(every) >= 150
    for kind in hard.KINDS:
        case = hard.case(kind, "poisson", "slopes" if kind == "correlation 1" else "nested")
        sizes = case.frame["g"].value_counts() if "g" in case.frame else pd.Series(dtype=int)
        groups, each = hard.SIZES[kind]
        assert (len(sizes), set(sizes)) == (groups, {each})
        assert case.frame.equals(hard.case(kind, "poisson", case.name.rpartition(", ")[2]).frame)


@pytest.mark.thorough
def test_draws_from_the_prior_agree_with_chains_of_correlated_effects() -> None:
    its = model("gaussian", correlated=True)
    chains, drawn = (
        method.settled(its, lambda at: beside.unsettled({f"{k}": at[..., k] for k in range(8)}))
        for method in (many_chains, prior_draws)
    )
    names = [f"{k}" for k in range(its.size)]
    known, ours = (Answer({name: x[..., int(name)] for name in names}, "", "") for x in (chains, drawn))
    assert not [one.name for one in apart(ours, known) if one.wrong]
    other = Answer({name: x * 1.3 for name, x in ours.numbers.items()}, "", "")
    assert [one.name for one in apart(other, known) if one.wrong]


def test_references_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = hard.case("sd 0", "gaussian", "intercepts")
    monkeypatch.setattr(beside.Case, "reference", lambda its: Answer({"x": np.ones((2, 3))}, "why", "how"))
    made = beside.kept_reference(case, tmp_path)
    monkeypatch.delattr(beside.Case, "reference")
    kept = beside.kept_reference(case, tmp_path)
    assert (kept.refused, kept.how) == (made.refused, made.how) == ("why", "how")
    assert np.array_equal(kept.numbers["x"], made.numbers["x"])
