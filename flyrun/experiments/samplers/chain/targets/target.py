"""What a θ-update sees: a target density log_base + log_data, and nothing of where it comes from.

A target is evaluated at proposals and keeps what belongs to the current position. `log_data` works out a
proposal; `keep` makes that proposal the current position; `kept_log_data` recalls the current position's
value (and gradient) at no cost in likelihood queries.

All that changes while sampling sits in `target.memory`, arrays only: that is what a checkpoint holds.
"""

from flyrun.ground.numerics.compiled import copy_into, generic, inline_jit, inlined


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


# of targets that keep the data part, `memory.kept`, and its gradient, `memory.gradients`, here and there


@inline_jit
def keep_gradient(gradients):
    """Make the gradient at the proposal that of the current position."""
    if gradients is not None:
        copy_into(gradients[0], gradients[1])


@inline_jit
def _first_look(target, theta, gradients):
    if gradients is None:
        log_data(target, theta, None)
    else:
        log_data(target, theta, gradients[0])  # what is added there, keep overwrites


def start_kept(target, rng, theta):
    """`start` of such a target."""
    _first_look(target, theta, target.memory.gradients)
    keep(target)


def kept_sum(target, gradient):
    """`kept_log_data` of such a target."""
    if gradient is not None:
        kept = target.memory.gradients[0]
        for d in range(gradient.shape[0]):
            gradient[d] += kept[d]
    return target.memory.kept[0]
