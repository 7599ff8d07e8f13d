"""Exact weighted draws of a posterior with groups: the mode, nodes that follow from there, and weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from flyrun.fitting import weighted_draws
from flyrun.fitting.groups import normal_noise
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.proposal import Mixture
from flyrun.fitting.weighted_draws import Weighted

#: nodes of an intercept, and Newton's steps to their centre
NODES = ((9, 0), (11, 0), (15, 0), (11, 6), (21, 6), (41, 6), (81, 6))
NODES_OF_TWO = ((5, 0), (7, 0), (9, 0), (13, 0), (21, 0))  # each way, of an intercept and a slope
EXACT = 0.01  # nats by which the quadrature's error may differ from draw to draw
_LOOKED_AT = 8  # draws at which it is held against one of almost twice the nodes
_TAIL = 2.5  # sds of log sds that these reach: for large ones nodes are fewest for what they integrate
_QUANTILES = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999)  # of a log sd
_EVALUATIONS = 1.5e9  # rows × nodes × draws of a round, about
_FEWEST = 700  # draws, of which about 500 are effective
_WANTED, _EFFECTIVE = 1_500, 0.5  # draws, and share of them, from which no further round is made


@dataclass(frozen=True)
class Drawn:
    """What drawing found. error: nats by which the quadrature's error differs among draws; 0: no quadrature.

    nodes: of an effect.
    """

    weighted: Weighted
    error: float
    nodes: int

    def words(self, effects: str) -> str:
        """How effects, so called, were integrated out."""
        if not self.nodes:
            return f"{effects} integrated out in closed form"
        return f"{effects} integrated out at {self.nodes} nodes each, to {max(self.error, 1e-9):.1g} nats"


def draw(
    posterior: GroupedPosterior, seed: int = 0, spent: Callable[[], bool] = weighted_draws.never
) -> Drawn:
    """Weighted draws; `weighted.why` says what speaks against them, if anything does. spent: as of Clock."""
    rng = np.random.default_rng(seed)
    wanted = weighted_draws.ALL_DRAWS
    with np.errstate(all="ignore"):  # draws far out, whose density is 0
        if posterior.family.by_sums:
            return Drawn(normal_noise.draw(posterior, rng, wanted, spent), 0.0, 0)
        choices = NODES if posterior.effects == 1 else NODES_OF_TWO
        posterior.nodes, posterior.steps = choices[0]
        proposal = posterior.proposal()
        for choice in choices[_enough_nodes(posterior, proposal, choices, rng) :]:
            posterior.nodes, posterior.steps = choice
            each = len(posterior.rows) * posterior.nodes**posterior.effects
            draws = int(np.clip(_EVALUATIONS / each, _FEWEST, wanted))
            enough = min(_WANTED, max(weighted_draws.ENOUGH, int(_EFFECTIVE * draws)))
            weighted = weighted_draws.by_all_rows(posterior, proposal, rng, draws, wanted=enough, spent=spent)
            error = _error(posterior, _across(posterior, weighted))
            if error <= EXACT or spent():
                break
    if error > EXACT and not weighted.why:
        weighted = replace(
            weighted, why=f"{posterior.nodes} nodes integrate group effects to {error:.2g} nats only"
        )
    return Drawn(weighted, error, posterior.nodes)


def _enough_nodes(
    posterior: GroupedPosterior,
    proposal: Mixture,
    choices: tuple[tuple[int, int], ...],
    rng: np.random.Generator,
) -> int:
    """The first choice that is exact about the mode, or the last."""
    noise = rng.standard_normal((_LOOKED_AT, len(proposal.centre)))
    away = noise @ proposal.root.T
    shape = proposal.root @ proposal.root.T
    for k, value in enumerate(np.linspace(-_TAIL, _TAIL, _LOOKED_AT)):
        h = _log_sds(posterior)[k % 2]  # along these the error grows
        spread = shape[h] / np.sqrt(shape[h, h])
        away[k] += spread * (value - away[k, h] / np.sqrt(shape[h, h]))
    x = proposal.centre + away
    for place, choice in enumerate(choices):
        posterior.nodes, posterior.steps = choice
        if _error(posterior, x) <= EXACT:
            return place
    return len(choices) - 1


def _log_sds(posterior: GroupedPosterior) -> tuple[int, int]:
    """Places of log sds in x, the last and the first; where sds are known of another number."""
    return posterior.after - 1, min(posterior.before, posterior.after - 1)


def _error(posterior: GroupedPosterior, x: np.ndarray) -> float:
    """Nats by which the quadrature's error differs among x (S, P), by one of almost twice the nodes."""
    return float(np.ptp(posterior.log_likelihood(x) - posterior.by_nodes(x, 2 * posterior.nodes - 1)))


def _across(posterior: GroupedPosterior, weighted: Weighted) -> np.ndarray:
    """Some draws, (m, P), from one end of the posterior of each log sd to the other, as the weights have it.

    Its tail may be longer than the mode predicts.
    """
    x, chosen = weighted.x, []
    for h in {*_log_sds(posterior)}:
        order = np.argsort(x[:, h])
        below = np.cumsum(weighted.weights[order])
        chosen.append(order[np.searchsorted(below, _QUANTILES).clip(max=len(order) - 1)])
    return x[np.concatenate(chosen)]
