"""Kernels with small faults, of one type each so that they compile once: what `flyrun check` has to find."""

import inspect
from collections import namedtuple
from collections.abc import Callable
from math import exp, log
from typing import NamedTuple
from zlib import crc32

from flyrun.experiments.samplers.chain.acceptance.rule import decide, metropolis
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.brightness.implicit import Implicit
from flyrun.experiments.samplers.chain.targets.firefly import darken
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.ground.numerics.compiled import implements

SOUND, TEMPERATURE, ACCEPTANCE, DRIFT = range(4)


class Planted(NamedTuple):
    """Metropolis' rule at temperature 1.1, with acceptance × 1.1, or with proposals that drift."""

    fault: int


@implements(decide, Planted)
def _planted(rule, rng, target, theta, proposal, log_ratio):
    if rule.fault == DRIFT:
        proposal[0] += 0.1 * abs(proposal[0] - theta[0])
    log_ratio += log_data(target, proposal, None) - kept_log_data(target, None)
    if rule.fault == TEMPERATURE:
        log_ratio /= 1.1
    if rule.fault == ACCEPTANCE:
        log_ratio += log(1.1)
    return metropolis(rng, target, theta, proposal, log_ratio)


class TooReady(NamedTuple):
    """Algorithm 2, after which each bright datum is darkened once more, now and then."""

    sound: Implicit
    share: float


@implements(resample, TooReady)
def _too_ready(brightness, rng, target, theta):
    resample(brightness.sound, rng, target, theta)
    memory = target.memory
    for i in range(memory.partition.n_bright[0] - 1, -1, -1):
        if rng.random() < brightness.share * exp(min(0.0, -memory.values[i])):
            darken(target, i)


def edited(kind: type, update: Callable, right: str, wrong: str, *others: Callable) -> type:
    """A kernel's type with one line of its update changed; of `others` it has the kernel's own."""
    source = inspect.getsource(update.methods[kind])
    assert source.count(right) == 1
    twin = namedtuple(
        f"{kind.__name__}{crc32(wrong.encode())}", kind._fields
    )  # compiled code is kept by name
    scope = dict(vars(inspect.getmodule(update.methods[kind])))
    exec(source[source.index("def ") :].replace(right, wrong), scope)
    implements(update, twin)(scope[update.methods[kind].__name__])
    for other in others:
        implements(other, twin)(other.methods[kind])
    return twin
