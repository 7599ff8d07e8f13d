"""From a person's table to the posterior of one family's numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from flyrun.families import family as families
from flyrun.families.censoring import censored, columns
from flyrun.families.family import Family
from flyrun.families.options import for_tables
from flyrun.families.prior_densities import Prior
from flyrun.fitting import chosen_priors, wide_categories
from flyrun.fitting.chosen_priors import Chosen
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.parameters import NONE, Further, slopes_of
from flyrun.fitting.priors import Priors
from flyrun.fitting.priors import priors as priors_of
from flyrun.fitting.request import Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import listing
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout

_MOST_PARAMETERS = 3_000


def refuse_many(n_params: int) -> None:
    """Raise ConfigError for more coefficients than can be moved together."""
    if n_params > _MOST_PARAMETERS:
        raise ConfigError(
            f"fit: {n_params:,} coefficients are too many to move together (at most {_MOST_PARAMETERS:,}); "
            "name fewer columns with --features, or leave some out with --drop"
        )


def refuse_uncensored(family: Family) -> None:
    """Raise ConfigError for a family whose targets are neither censored nor truncated."""
    if family.log_survival is None:
        known = listing((name for name in for_tables() if families.family(name).log_survival), "or")
        raise ConfigError(
            f"fit: {family.name} is not fitted to targets that were not seen whole; choose --model {known}"
        )


class UnderPriors(NamedTuple):
    """A family under the priors that are typed. priors: of its coefficients; slopes: of auxiliary numbers'
    columns, as of Posterior; chosen: what is typed."""

    family: Family
    priors: Priors
    slopes: tuple[tuple[Prior, ...], ...]
    chosen: Chosen


def under_priors(
    family: Family, request: Request, layout: Layout, groups: Mapping[str, Sequence[str]]
) -> UnderPriors:
    """What a request's priors are in units of a layout. groups: as of `chosen_priors.sort`.

    Raises ConfigError for a term that there is not.
    """
    levels = len(layout.target.levels or [])
    numbers = family.auxiliary(levels, 1.0)
    known = family.known.values if family.known else {}
    given = [typed for typed in request.priors if typed.term not in known]
    chosen = chosen_priors.sort(given, layout, numbers, groups, not family.intercept)
    of_coefficients = priors_of(layout, chosen.coefficients, request.prior_scale, family.intercept)
    slopes = slopes_of(numbers, layout, request.prior_scale, chosen.slopes)
    chosen.groups.update(wide_categories.usual_priors(request, layout, numbers, chosen.groups))
    its = chosen_priors.with_priors(family, levels, chosen, layout)
    return UnderPriors(its, of_coefficients, slopes, chosen)


def posterior_of(dataset: Dataset, family: Family, priors: Priors, further: Further = NONE) -> Posterior:
    """The posterior of a table's rows under a family, with these priors of what people read of it.

    further: what explains its other parameters. Raises ConfigError for too many coefficients.
    """
    levels = dataset.n_classes
    linear = family.linear(levels)
    refuse_many(linear * dataset.features.shape[1] + sum(map(len, further.slopes)))
    target, offset = dataset.target, dataset.offset
    features = np.asarray(dataset.features)
    if dataset.task == "binary" and not family.mirrored:
        features = features * target[:, None].astype(features.dtype) if dataset.folded else features
        target = (target > 0).astype(np.float64)
    elif dataset.task == "binary":
        # a folded row holds the sign of its target: it succeeds with the chance of its margin
        offset = offset if offset is None or not dataset.folded else offset * target
        target = np.ones(len(target)) if dataset.folded else (target > 0).astype(np.float64)
    its = family.in_one_part(levels) if further.designs else family
    trials = 1.0 if dataset.trials is None else dataset.trials
    if unseen := dataset.unseen:
        refuse_uncensored(family)
        kinds = unseen.pop("censored", None)
        its = censored(family.in_one_part(levels) if family.alone_derivatives else its)
        trials = columns(family, target, kinds, **unseen)
        truncated = bool(np.isfinite(trials[:, 3:]).any())  # few such densities are concave by η
        its = replace(its, grouped=its.grouped and not truncated)
    rows = Rows(
        features if family.intercept else features[:, :-1],
        target,
        trials,
        0.0 if offset is None else offset,
        1.0 if dataset.weights is None else dataset.weights,
        further.designs,
    )
    prior = coefficient_prior(family, levels, priors)
    if prior.others:
        its = replace(its, by_sums=False)
    return Posterior(its, rows, prior, levels, slopes=further.slopes)


def coefficient_prior(family: Family, levels: int, priors: Priors) -> CoefficientPrior:
    """Of all coefficients of a target of so many levels, from the priors of what people read of it."""
    linear = family.linear(levels)
    mean = np.tile(priors.mean, linear)
    if family.contrasts is not None:
        mean = np.outer(np.linalg.solve(family.contrasts(levels), np.ones(linear)), priors.mean).ravel()
    return CoefficientPrior(mean, np.tile(priors.sd, linear), others=priors.others)
