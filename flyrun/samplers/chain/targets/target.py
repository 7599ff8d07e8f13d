"""What a θ-update sees: a target density log_base + log_data, and nothing of where it comes from.

A target is evaluated at proposals and keeps what belongs to the current position. `log_data` works out a
proposal; `keep` makes that proposal the current position; `kept_log_data` recalls the current position's
value (and gradient) at no cost in likelihood queries.

All that changes while sampling sits in `target.memory`, arrays only: that is what a checkpoint holds.
"""

from flyrun.numerics.compiled import generic, inlined


@generic
def start(target, rng, theta):
    """Work out, metered, the data part at the first position and keep it; draw auxiliary state if any."""


@inlined
def log_data(target, theta, gradient):
    """Data part of the log density at a proposal θ, (P,).

    Adds its gradient to gradient, (P,), unless that is None. Adds the likelihoods it evaluates to the meter.
    """


@inlined
def data_gradient(target, theta, gradient):
    """Add the gradient of the data part at θ, (P,), to gradient, (P,), where nobody asks for the value: on
    the way to a proposal. Metered as `log_data` is.
    """


@inlined
def keep(target):
    """Make the proposal last given to `log_data` the current position."""


@inlined
def kept_log_data(target, gradient):
    """Data part at the current position, from what is kept: no query. Adds the gradient unless None."""


@inlined
def bright_count(target):
    """How many likelihoods one evaluation of the target costs now."""
