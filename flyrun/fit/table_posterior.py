"""From a person's table to the posterior of one family's numbers."""

import numpy as np

from flyrun.data.dataset import Dataset
from flyrun.fit.priors import Priors
from flyrun.fit.rows_posterior import CoefficientPrior, Posterior, Rows
from flyrun.models.family import Family, family, names


def fitting(model: str) -> Family | None:
    """The family of a model's name; None where it has none."""
    return family(model) if model in names() else None


def posterior_of(dataset: Dataset, one: Family, priors: Priors) -> Posterior:
    """The posterior of a table's rows under a family, with these priors for each linear predictor."""
    levels = dataset.n_classes
    target, offset = dataset.target, dataset.offset
    if dataset.task == "binary":
        # a folded row holds the sign of its target: it succeeds with the chance of its margin
        offset = offset if offset is None or not dataset.folded else offset * target
        target = np.ones(len(target)) if dataset.folded else (target > 0).astype(np.float64)
    rows = Rows(
        np.asarray(dataset.features) if one.intercept else dataset.features[:, :-1],
        target,
        1.0 if dataset.trials is None else dataset.trials,
        0.0 if offset is None else offset,
        1.0 if dataset.weights is None else dataset.weights,
    )
    mean, sd = (np.tile(values, one.linear(levels)) for values in (priors.mean, priors.sd))
    return Posterior(one, rows, CoefficientPrior(mean, sd), levels)
