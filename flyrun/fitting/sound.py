"""The door through which every answer of a fit leaves: draws are held against what is known of any posterior.

Certificates judge how draws were made. These checks ask whether they can be draws of a posterior with these
priors at all, whatever made them.
"""

import numpy as np

from flyrun.fitting import gaussian_noise
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.weighted_draws import ENOUGH
from flyrun.ground.errors import FlyrunError

_WIDER = 10.0  # times its prior's sd that a coefficient's may be; of log-concave likelihoods at most 1
_FARTHEST = 1e6  # prior sds that a mean may be from the prior's
_DIGITS = 1e-13  # an sd, by the mean, below which draws are one number and its rounding
_ROWS = 20_000  # up to which draws are held against where the search for the mode began
_DRAWS = 5
_ROUNDED = 0.9  # of ENOUGH: thinning and resampling round


def refuse_unsound(
    posterior: Posterior, names: list[str], x: np.ndarray, weights: np.ndarray | None = None
) -> None:
    """Raise FlyrunError where x (S, P), of weights (S,) or even ones, can be no draws of a posterior.

    names: of the coefficients of a linear predictor, the intercept last.
    """
    with np.errstate(all="ignore"):  # numbers beyond all bounds are what is looked for
        weights = np.full(len(x), 1.0 / len(x)) if weights is None else weights
        mean = weights @ x
        sd = np.sqrt(weights @ (x - mean) ** 2)
        unsound = ~(np.isfinite(mean) & (sd > _DIGITS * np.abs(mean)) & np.isfinite(sd))
        n, prior = posterior.n_coefficients, posterior.prior
        if posterior.family.of_noise:
            gaussian_noise.refuse_none(posterior, mean[gaussian_noise.place_of(posterior)])
        unsound[:n] |= ~(np.abs(mean[:n] - prior.mean) < _FARTHEST * prior.sd) | ~(sd[:n] < _WIDER * prior.sd)
        known = [*(names[k % posterior.width] for k in range(n)), *(aux.name for aux in posterior.auxiliary)]
        if unsound.any():
            worst = int(np.argmax(unsound))
            name = known[worst] if worst < len(known) else "a number of the groups"
            raise FlyrunError(
                f"fit: no posterior is written, because the draws of {name} are not of one: mean "
                f"{mean[worst]:.3g}, sd {sd[worst]:.3g} in prior units; change the units of its column, or "
                "leave the column out with --drop"
            )
        if _below_the_start(posterior, x, weights):
            raise FlyrunError(
                "fit: no posterior is written, because its draws are less likely than the point where the "
                "search began; standardise the columns, or leave some out with --drop"
            )


def refuse_few(effective: float, kind: str) -> None:
    """Raise FlyrunError where the draws of this kind that are stored are worth too few."""
    if not effective >= _ROUNDED * ENOUGH:
        raise FlyrunError(
            f"fit: no posterior is written, because only {effective:,.0f} of the {kind} draws are effective; "
            "use fewer columns with --drop, or more rows"
        )


def _below_the_start(posterior: Posterior, x: np.ndarray, weights: np.ndarray) -> bool:
    """Whether no draw of some of x (S, P) comes near the density of a point that knows no column.

    A draw of P numbers is about P/2 nats below the mode, of a Laplace prior P.
    """
    grouped = isinstance(posterior, GroupedPosterior)
    apart = isinstance(posterior, TermsPosterior)  # whose log_density is without effects
    if len(posterior.rows) > _ROWS or apart or (grouped and posterior.family.by_sums):
        return False
    some = x[np.argsort(-weights, kind="stable")[:_DRAWS]]
    density = posterior.log_density(np.concatenate([posterior.start()[None], some]))
    return not density[1:].max() > density[0] - 2.0 * posterior.size - 20.0
