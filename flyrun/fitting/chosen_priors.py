"""Priors that are typed, by what they are of: coefficients, auxiliary numbers or their columns, groups."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from flyrun.families.bounded_priors import Bounded
from flyrun.families.cutpoint_priors import Dirichlet, OfCutpoints
from flyrun.families.family import Auxiliary, Family
from flyrun.families.known_numbers import known
from flyrun.families.prior_densities import Constant, Flat
from flyrun.families.prior_kinds import ABOVE_0, BOUNDED, UNBOUNDED
from flyrun.fitting import priors
from flyrun.fitting.priors import Typed
from flyrun.fitting.rows_posterior import Posterior
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import listing, quoted
from flyrun.tables.layout import INTERCEPT, Layout

_TOLD = 100.0  # posterior sds of a predictor, beyond which rows do not tell a coefficient with a flat prior

_ALL_CUTS = "cutpoints"

#: kinds for a number, by its scale
_OF_SCALE = {"": UNBOUNDED, "log": ABOVE_0, "logit": ("beta", *UNBOUNDED[:-1])}


class Chosen(NamedTuple):
    """Typed priors. coefficients: of the target's formula; numbers: of auxiliary numbers, by name; slopes: of
    their columns, by name and place; groups: of what tells effects' distribution, by term."""

    coefficients: list[Typed]
    numbers: dict[str, Typed]
    slopes: dict[str, dict[int, Typed]]
    groups: dict[str, Typed]


def sort(
    given: Sequence[Typed],
    layout: Layout,
    numbers: Sequence[Auxiliary],
    groups: Mapping[str, Sequence[str]],
    cuts: bool,
) -> Chosen:
    """Priors by what they are of. ConfigError for another.

    groups: by term those of effects' distribution that it means; cuts: whether numbers are cutpoints.
    """
    chosen, known = Chosen([], {}, {}, {}), priors.terms(layout)
    for typed in given:
        term = typed.term
        number = next((each for each in numbers if term in (each.name, f"{each.name}[{INTERCEPT}]")), None)
        if term in known:
            _refuse_kind(typed, UNBOUNDED, "a coefficient may be below 0")
            chosen.coefficients.append(typed)
        elif cuts and (number is not None or term == _ALL_CUTS):
            kinds: tuple[str, ...] = BOUNDED if number else (*BOUNDED, "dirichlet")
            _refuse_kind(typed, kinds, "a cutpoint may be below 0")
            refuse_bounds([typed], "a cutpoint")
            _refuse_length(typed, len(numbers))
            for each in numbers if number is None else [number]:
                _refuse_second(typed, chosen.numbers.get(each.name))
                chosen.numbers[each.name] = typed
        elif number is not None and (term == number.name or number.name in layout.parameters):
            refuse_bounds([typed], number.name)
            kinds = _OF_SCALE[number.scale]
            if term != number.name:
                kinds = (*kinds, *(kind for kind in UNBOUNDED[:-1] if kind not in kinds))
            _refuse_kind(typed, kinds, f"{number.name} is {_WHAT[number.scale]}")
            _refuse_second(typed, chosen.numbers.get(number.name))
            chosen.numbers[number.name] = typed
        elif term in groups:
            parts = term, term.partition("[")[2]
            kind = next((kind for kind in _OF_GROUPS for part in parts if part.startswith(f"{kind}(")), "sd")
            _refuse_kind(typed, _OF_GROUPS.get(kind, ABOVE_0), _WHAT[kind])
            for name in groups[term]:
                _refuse_second(typed, chosen.groups.get(name))
                chosen.groups[name] = typed
        elif (place := _of_column(term, layout)) is not None:
            name, places = place
            _refuse_kind(typed, UNBOUNDED[:-1], f"{term} may be below 0")
            for d in places:
                _refuse_second(typed, chosen.slopes.setdefault(name, {}).get(d))
                chosen.slopes[name][d] = typed
        else:
            further = [
                f"{name}[{column}]" for name, part in layout.parameters.items() for column in part.names
            ]
            alike = [each.name for each in numbers if each.name not in layout.parameters]
            alike += [_ALL_CUTS] if cuts else []
            raise priors.unknown(typed, [*known, *alike, *further, *groups])
    return chosen


_WHAT = {
    "": "a number that may be below 0",
    "log": "above 0",
    "logit": "a chance",
    "sd": "an sd is above 0",
    "cor": "a correlation is between -1 and 1",
    "C": "coefficients of so many levels have normal ones",
}
#: kinds of what is no sd of groups' effects, by how its term begins
_OF_GROUPS = {"cor": ("lkj",), "C": ("normal",)}


def _of_column(term: str, layout: Layout) -> tuple[str, list[int]] | None:
    """The auxiliary number that a term names a column of, and which of its coefficients."""
    for name, part in layout.parameters.items():
        if term.startswith(f"{name}[") and term.endswith("]"):
            places = priors.terms(part).get(term[len(name) + 1 : -1])
            if places is not None:
                return name, places
    return None


def _refuse_kind(typed: Typed, kinds: Collection[str], why: str) -> None:
    word = str(typed.prior).partition("(")[0]
    if word not in kinds:
        if isinstance(typed.prior, Constant):
            why = "only a number beside the coefficients, without a formula, is held constant"
        raise ConfigError(f"--prior {quoted(str(typed))}: {why}; choose one of {listing(kinds)}")


def refuse_bounds(given: Sequence[Typed], where: str) -> None:
    """Raise ConfigError for bounds of what takes none."""
    for typed in given:
        if isinstance(typed.prior, Bounded):
            raise ConfigError(
                f"--prior {quoted(str(typed))}: {where} takes no bounds; write "
                f"{quoted(f'{typed.term}: {typed.prior.base}')}"
            )


def _refuse_length(typed: Typed, cutpoints: int) -> None:
    if isinstance(typed.prior, Dirichlet) and len(typed.prior.alpha) not in (1, cutpoints + 1):
        raise ConfigError(
            f"--prior {quoted(str(typed))}: there are {cutpoints + 1} classes; write one number for all, as "
            f"{quoted(f'{typed.term}: dirichlet(1)')}, or {cutpoints + 1} of them"
        )


def _refuse_second(typed: Typed, before: Typed | None) -> None:
    if before is not None:
        raise ConfigError(f"--prior {quoted(str(typed))}: {quoted(str(before))} is of that too; keep one")


def with_constants(family: Family, given: Sequence[Typed], explained: Collection[str]) -> Family:
    """The family, in which auxiliary numbers whose priors are constants are known.

    explained: those that have a formula. ConfigError for a value that a number cannot have.
    """
    numbers = family.auxiliary(0, 1.0) if family.intercept else ()
    names = {number.name for number in numbers} - {*explained}
    values = dict[str, float]()
    for typed in given:
        if isinstance(typed.prior, Constant) and typed.term in names:
            for other in given:
                _refuse_second(typed, other if other is not typed and other.term == typed.term else None)
            values[typed.term] = typed.prior.value
    return known(family, values) if values else family


def with_priors(family: Family, levels: int, chosen: Chosen, layout: Layout) -> Family:
    """A family whose auxiliary numbers have the priors that are typed for them, in the units of a table."""
    if not chosen.numbers:
        return family
    numbers = tuple(
        _with_prior(number, chosen.numbers.get(number.name), family, k, layout)
        for k, number in enumerate(family.auxiliary(levels, 1.0))
    )
    its = replace(family, auxiliary=lambda levels, sd: numbers)
    if family.intercept:
        return its
    usual = family.auxiliary(levels, 1.0)
    pairs = ((k, chosen.numbers.get(each.name)) for k, each in enumerate(usual))
    typed = {k: its.prior for k, its in pairs if its}
    others = {k: each.prior for k, each in enumerate(usual) if k not in typed}
    return replace(its, of_cutpoints=OfCutpoints(typed, others))


def _with_prior(number: Auxiliary, typed: Typed | None, family: Family, k: int, layout: Layout) -> Auxiliary:
    if typed is None:
        return number
    prior = typed.prior
    if k == 0 and family.of_noise:
        unit = 1.0 / layout.target.sd
        prior = prior.scaled(unit) if prior.of == "log" else prior.scaled(1.0, float(np.log(unit)))
    if not family.intercept:
        what = "of the classes' chances " if isinstance(prior, Dirichlet) else ""
        return number._replace(prior=prior, own=number.sampled, of=f"{what}where numbers are at their means")
    of = f"of {number.scale} {number.name}" if number.scale else number.of
    return number._replace(prior=prior, own=number.sampled, of="" if prior.of else of)


def refuse_improper(
    posterior: Posterior, names: Sequence[str], at: np.ndarray, likelihood: np.ndarray
) -> None:
    """Raise ConfigError where rows do not tell coefficients whose prior is flat.

    names: of the coefficients of a linear predictor; at: the mode, (P,); likelihood: its curvature, (P, P).
    """
    flat = [d for d, prior in posterior.prior.others if isinstance(prior, Flat)]
    whole = likelihood + posterior.prior_at(at).curvature
    values, vectors = np.linalg.eigh(whole)
    variance = ((vectors[flat] ** 2) / np.maximum(values, 1e-300)).sum(axis=1)
    worst = int(np.argmax(variance))
    if not variance[worst] < _TOLD**2 or not values[0] > 0.0:
        name = names[flat[worst] % posterior.width]
        raise ConfigError(
            f"--prior {quoted(f'{name}: flat')}: the rows do not bound the coefficient, so that there is no "
            f"posterior; give it another prior, as {quoted(f'{name}: normal(0, 2.5)')}"
        )
