"""Models' generic functions as compiled calls, for tests that hold one function against a formula."""

from flyrun.experiments.models import base_density, likelihood, ranges
from flyrun.ground.numerics.compiled import jit


@jit
def log_likelihood(model, index, eta, values, slopes):
    """See flyrun.experiments.models.likelihood, as the next."""
    likelihood.log_likelihood(model, index, eta, values, slopes)


@jit
def log_bound(bound, model, index, eta, values, slopes):
    """The bounds' logarithms and slopes."""
    likelihood.log_bound(bound, model, index, eta, values, slopes)


@jit
def log_base(prior, theta, gradient):
    """See flyrun.experiments.models.base_density."""
    return base_density.log_base(prior, theta, gradient)


@jit
def reach(bounds, theta, proposal, phi, proposed_phi):
    """See flyrun.experiments.models.ranges."""
    return ranges.reach(bounds, theta, proposal, phi, proposed_phi)
