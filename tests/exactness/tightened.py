"""Bounds of two levels on small posteriors, with a border that chains cross all the time: shared by tests."""

from typing import Any

import numpy as np

from flyrun.experiments.models import local_bounds
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.passes import look
from flyrun.experiments.samplers.chain.bounds.local import within
from flyrun.experiments.samplers.chain.targets.firefly import firefly
from tests.exactness.chains import Toy


def local_bound(
    problem: Toy, radius: float, slack: float = 0.0
) -> tuple[local_bounds.LocalBound, np.ndarray]:
    """Bounds tight at problem.mode, lowered by slack·E L̃_n, and E L̃_n. Exactness does not ask for a mode."""
    ridge = 1.0 if problem.priors.SMOOTH else 0.5 / problem.prior.scale**2
    bend = look(problem.likelihood, problem.model, problem.features, problem.mode).curvature
    region = local_bounds.ellipsoid(problem.mode, bend + ridge * np.eye(problem.mode.size), radius)
    bound, expected = within(problem.likelihood, problem.model, problem.features, region)
    bound.lower(slack * expected)
    return bound, expected


def two_bases(problem: Toy, bound: local_bounds.LocalBound) -> local_bounds.TwoLevels:
    """The pseudo-priors on both sides."""
    made = (
        collapse(bound, problem.model, problem.features, bound.region.centre),
        collapse(bound.beyond, problem.model, problem.features, bound.region.centre),
    )
    return local_bounds.TwoLevels(
        *(problem.priors.pseudo_prior(problem.prior, part) for part in made), bound.region
    )


def local_target(problem: Toy, bound: local_bounds.LocalBound, base: Any = None) -> Any:
    """Firefly's target, with gradients."""
    return firefly(base or two_bases(problem, bound), problem.model, bound, problem.features, gradients=True)
