"""Expectation propagation (Minka 2001): every site has the moments right, given all others.

The cavity is q without site n. log Z_n, of ∫ cavity·L_n, has the slope α and minus the second derivative β by
the cavity's mean, from slopes and curvatures of the likelihood alone; the site is then
T = β(I − vβ)⁻¹, ν = (I − βv)⁻¹(α + βm), which keeps its digits where 1/variance − 1/v would lose them.
All sites at once, or one row after the other; one such pass from the prior is assumed-density filtering.
"""

import numpy as np
from scipy.special import log_ndtr

from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.factors import Factors, Gaussians, Sites, Tilted, tilted
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.serial import SerialSites
from flyrun.experiments.samplers.approximations.sites import SiteMethod, Update
from flyrun.experiments.samplers.method import Arm, Method


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    kind = SerialSites if arm.sampler.schedule == "serial" else SiteMethod
    return kind(arm, problem, "Expectation propagation", Ep(arm.sampler.points))


class Ep:
    """Sites that match moments; where a cavity is no Gaussian the site stays as it was."""

    bound = False

    def __init__(self, points: int):
        self.points = points  # nodes of a quadrature, for each of k

    def of_rows(self, factors: Factors, at: Gaussians, old: Sites) -> Update:
        """As in `Rule`."""
        cavity, proper = without(at, old)
        if not proper.all():
            which = np.flatnonzero(proper)
            part = Gaussians(*(value[which] for value in cavity))
            moments = tilted(factors.of(which), part, self.points)
        else:
            which, part = np.arange(len(proper)), cavity
            moments = tilted(factors, cavity, self.points)
        precision, linear, evidence = old.precision.copy(), old.linear.copy(), np.zeros(len(proper))
        precision[which], linear[which] = matching(part, moments)
        spent = Sites(old.precision[which], old.linear[which])
        evidence[which] = moments.log_z - log_of_site(part, spent, at.variance[which])
        return Update(Sites(precision, linear), evidence, ~proper, moments.queries)

    def of_prior(self, penalty: Penalty, at: Gaussians, old: Sites) -> Update:
        """A Gaussian times e^{−rate·|θ|} is two pieces of Gaussians, of known moments."""
        cavity, proper = without(at, old)
        mean, variance = cavity.mean[:, 0], np.where(proper, cavity.variance[:, 0, 0], 1.0)
        sd, rate = np.sqrt(variance), penalty.rate
        above, below = (mean - rate * variance) / sd, -(mean + rate * variance) / sd
        log_above = 0.5 * rate**2 * variance - rate * mean + log_ndtr(above)
        log_below = 0.5 * rate**2 * variance + rate * mean + log_ndtr(below)
        log_z = np.logaddexp(log_above, log_below)
        share = np.exp(log_above - log_z)

        def hazard(at_edge: np.ndarray) -> np.ndarray:
            return np.exp(-0.5 * at_edge**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(at_edge)) / sd

        slope = rate * (1 - 2 * share)
        bend = 2 * rate * share * (1 - share) * (hazard(above) + hazard(below) - 2 * rate)
        shrunk = 1 - bend * variance
        precision, linear = bend / shrunk, (slope + bend * mean) / shrunk
        sites = Sites(
            np.where(proper[:, None, None], precision[:, None, None], old.precision),
            np.where(proper[:, None], linear[:, None], old.linear),
        )
        evidence = np.where(proper, log_z - log_of_site(cavity, old, at.variance), 0.0)
        return Update(sites, evidence, ~proper, 0)


def without(at: Gaussians, site: Sites) -> tuple[Gaussians, np.ndarray]:
    """The cavities, and which of them are Gaussians, (n,)."""
    mean, variance = at
    size = variance.shape[1]
    share = np.eye(size) - variance @ site.precision
    if size == 1:
        proper = share[:, 0, 0] > 0
    else:
        proper = np.linalg.eigvalsh(np.linalg.inv(variance) - site.precision)[:, 0] > 0
    share = np.where(proper[:, None, None], share, np.eye(size))
    without_site = np.linalg.solve(share, variance)
    pulled = mean - np.einsum("nkl,nl->nk", variance, site.linear)
    centre = np.linalg.solve(share, pulled[:, :, None])[:, :, 0]
    return Gaussians(centre, (without_site + without_site.transpose(0, 2, 1)) / 2), proper


def matching(cavity: Gaussians, tilt: Tilted) -> Sites:
    """The sites that make q's moments those of the tilted distributions."""
    mean, variance = cavity
    left = np.eye(variance.shape[1]) - variance @ tilt.curvature
    left = np.where(tilt.wide[:, None, None], np.eye(variance.shape[1]), left)
    precision = tilt.curvature @ np.linalg.inv(left)
    pull = tilt.slope + np.einsum("nkl,nl->nk", tilt.curvature, mean)
    linear = np.linalg.solve(left.transpose(0, 2, 1), pull[:, :, None])[:, :, 0]
    if tilt.wide.any():
        wide = tilt.wide
        inner, outer = np.linalg.inv(tilt.variance[wide]), np.linalg.inv(variance[wide])
        precision[wide] = inner - outer
        linear[wide] = np.einsum("nkl,nl->nk", inner, tilt.mean[wide])
        linear[wide] -= np.einsum("nkl,nl->nk", outer, mean[wide])
    return Sites((precision + precision.transpose(0, 2, 1)) / 2, linear)


def log_of_site(cavity: Gaussians, site: Sites, variance: np.ndarray) -> np.ndarray:
    """log E exp(−½uᵀTu + νᵀu) under the cavities, (n,); variance: of q, which they make with the sites."""
    mean = cavity.mean
    pulled = site.linear - np.einsum("nkl,nl->nk", site.precision, mean)
    both = np.einsum("nk,nk->n", site.linear + pulled, mean)
    share = np.eye(variance.shape[1]) - variance @ site.precision
    return 0.5 * (both + np.einsum("nk,nkl,nl->n", pulled, variance, pulled) + np.linalg.slogdet(share)[1])
