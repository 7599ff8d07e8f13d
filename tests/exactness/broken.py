"""Kernels with known faults, for negative controls: a test that passes them proves nothing."""

from math import exp
from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain.acceptance.rule import decide, metropolis
from flyrun.experiments.samplers.chain.acceptance.thinned import Thinned
from flyrun.experiments.samplers.chain.brightness.base import resample, skip_rate
from flyrun.experiments.samplers.chain.brightness.partition import is_bright
from flyrun.experiments.samplers.chain.surrogate.remainder import reach
from flyrun.experiments.samplers.chain.targets.firefly import brighten, darken, query
from flyrun.experiments.samplers.chain.targets.surrogate import left_out, sum_of_all
from flyrun.experiments.samplers.chain.targets.target import keep, kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.numerics.alias import pick
from flyrun.ground.numerics.compiled import copy_into, implements, jit
from flyrun.ground.numerics.poisson_count import poisson_count


@jit
def log_uniform_below(rng, log_probability):
    """True with probability min(1, e^log_probability)."""
    return log_probability >= 0.0 or rng.standard_exponential() > -log_probability


class InvertedImplicit(NamedTuple):
    """Algorithm 2 as printed: a proposed dark datum is lit if L̃/q < u."""

    log_q: float
    skip: float
    proposed: np.ndarray
    asked: np.ndarray


def inverted_implicit(q, n_data):
    room = np.zeros(n_data, np.int64), np.zeros(1, np.int64)
    return InvertedImplicit(float(np.log(q)), 1.0 / float(skip_rate(q)), *room)


@implements(resample, InvertedImplicit)
def _inverted_sweep(brightness, rng, target, theta):
    memory = target.memory
    partition = memory.partition
    n_bright = partition.n_bright[0]
    n_lit = 0
    n = int(brightness.skip * rng.standard_exponential())
    while n < partition.bright.shape[0]:
        if not is_bright(partition, n):
            brightness.asked[0] = n
            query(target, brightness.asked, theta)
            if rng.random() >= exp(min(0.0, memory.proposed_values[0] - brightness.log_q)):
                brightness.proposed[n_lit] = n
                n_lit += 1
        n += 1 + int(brightness.skip * rng.standard_exponential())
    for i in range(n_bright - 1, -1, -1):
        if log_uniform_below(rng, brightness.log_q - memory.values[i]):
            darken(target, i)
    for j in range(n_lit):
        brightness.asked[0] = brightness.proposed[j]
        query(target, brightness.asked, theta)
        brighten(target, brightness.proposed[j], 0)


class TimidRule(NamedTuple):
    """Accepts with min(1, √ratio)."""

    unused: int = 0


@implements(decide, TimidRule)
def _timid(rule, rng, target, theta, proposal, log_ratio):
    log_ratio += log_data(target, proposal, None) - kept_log_data(target, None)
    return metropolis(rng, target, theta, proposal, 0.5 * log_ratio)


SOUND, UNKEPT, UNWEIGHED, UNDIVIDED, WHOLE = range(5)


class FaultyRule(NamedTuple):
    """TunaMH on a surrogate, or delayed acceptance, with a fault, one type for all: compiled once.

    SOUND: TunaMH without one.  UNKEPT: λ is left out of how often candidates are kept; UNWEIGHED: of what
    they multiply the ratio by.  UNDIVIDED: the second stage of delayed acceptance forgets that the first has
    had its say; WHOLE: it does not.
    """

    fault: int
    sound: Thinned


@implements(decide, FaultyRule)
def _faulty(rule, rng, target, theta, proposal, log_ratio):
    memory, fault, sound = target.memory, rule.fault, rule.sound
    first = log_ratio + log_data(target, proposal, None) - kept_log_data(target, None)
    if fault >= UNDIVIDED:
        if rng.random() >= exp(min(0.0, first)):
            return 0.0
        log_ratio += sum_of_all(target, sound.drawn, proposal) - sum_of_all(target, sound.drawn, theta)
        return metropolis(rng, target, theta, proposal, log_ratio - (first if fault == WHOLE else 0.0))
    bounds = sound.remainder
    distance = reach(bounds.bounds, theta, proposal, memory.phi[0], memory.phi[1])
    mean = bounds.total * distance
    lam = sound.chi * mean * mean
    index, ratio = sound.drawn[:1], exp(first)
    for _ in range(poisson_count(rng, mean + lam)):
        index[0] = pick(bounds.table, rng, 0)
        left_out(target, index, theta, sound.here)
        left_out(target, index, proposal, sound.there)
        weight = bounds.weights[index[0]]
        room, excess, spare = weight * distance, sound.here[0] - sound.there[0], weight * lam / bounds.total
        forward, back = 0.5 * (room + excess), 0.5 * (room - excess)
        kept = 0.0 if fault == UNKEPT else spare
        if rng.random() * (kept + room) < kept + forward:
            weighed = 0.0 if fault == UNWEIGHED else spare
            ratio *= (weighed + back) / (weighed + forward)
    return metropolis(rng, target, theta, proposal, np.log(ratio))


class OneWayMala(NamedTuple):
    """Langevin proposals accepted by the ratio of densities alone, as if they were symmetric."""

    step: float
    proposal: np.ndarray
    gradient: np.ndarray


def one_way_mala(step, n_params):
    return OneWayMala(step, np.zeros(n_params), np.zeros(n_params))


@implements(update, OneWayMala)
def _one_way_mala(kernel, rng, target, theta):
    proposal, gradient = kernel.proposal, kernel.gradient
    gradient[:] = 0.0
    here = log_base(target.base, theta, gradient) + kept_log_data(target, gradient)
    for d in range(theta.shape[0]):
        proposal[d] = theta[d] + 0.5 * kernel.step**2 * gradient[d] + kernel.step * rng.standard_normal()
    gradient[:] = 0.0
    there = log_base(target.base, proposal, gradient) + log_data(target, proposal, gradient)
    acceptance = exp(min(0.0, there - here))
    if rng.random() < acceptance:
        copy_into(theta, proposal)
        keep(target)
    return acceptance


@implements(tune, OneWayMala)
def _tune_one_way(kernel, acceptance, iteration, burn_in):
    pass


class FlatSlice(NamedTuple):
    """Shrinking slices whose level lies 0.3 below the log density, not an exponential draw below it."""

    width: float
    point: np.ndarray
    direction: np.ndarray


def flat_slice(width, n_params):
    return FlatSlice(width, np.zeros(n_params), np.zeros(n_params))


@implements(update, FlatSlice)
def _flat_slice(kernel, rng, target, theta):
    direction = kernel.direction
    for d in range(theta.shape[0]):
        direction[d] = rng.standard_normal()
    level = log_base(target.base, theta, None) + kept_log_data(target, None) - 0.3
    left = -kernel.width * rng.random()
    right = left + kernel.width
    while True:
        shift = left + (right - left) * rng.random()
        for d in range(theta.shape[0]):
            kernel.point[d] = theta[d] + shift * direction[d]
        if log_base(target.base, kernel.point, None) + log_data(target, kernel.point, None) > level:
            copy_into(theta, kernel.point)
            keep(target)
            return 1.0
        if shift < 0.0:
            left = shift
        else:
            right = shift


@implements(tune, FlatSlice)
def _tune_flat(kernel, acceptance, iteration, burn_in):
    pass
