"""A question to its answer: weighted draws or, where these are refused, HMC on all rows.

It knows no screen and no file.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flyrun.families.prior_densities import Flat
from flyrun.fitting import (
    chosen_priors,
    coefficients,
    even_draws,
    hmc_on_rows,
    identified,
    lone_rows,
    mode,
    sensitivity,
    sound,
    weighted_draws,
)
from flyrun.fitting.column_scales import contrasts, own_scales
from flyrun.fitting.groups import turning
from flyrun.fitting.groups.draw import draw as draw_groups
from flyrun.fitting.groups.grouped_table import OfTable
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.stored_effects import Effects
from flyrun.fitting.groups.terms_table import OfTerms
from flyrun.fitting.proposal import Several
from flyrun.fitting.question import Question
from flyrun.fitting.rows_posterior import Posterior
from flyrun.ground.errors import ConfigError, factoring, no_digits
from flyrun.ground.schema import listing
from flyrun.ground.threads import one_blas_thread

_SEED = 0
_FIRST = 500  # iterations a chain of the first round
_VARIANCE = 0.06  # relative error of a variance, at most
_FEWEST_DRAWS = 20  # of a chain, of which anything can be said
_MOST_STORED = 20_000  # weighted draws
_MOST_ITERATIONS = 100_000
_EFFECTS = 5_000_000  # numbers that are stored of groups' effects, about
_EFFECT_DRAWS = 500_000_000  # numbers of effects that chains keep, at most
_ROW_DRAWS = 100_000_000  # rows × draws for which they are drawn, about; of a slope too fewer
_FEWEST_EFFECTS, _MOST_EFFECTS, _MOST_OF_CHAINS = 100, 1_000, 4_000  # draws
_EVALUATIONS = 20_000_000  # rows × draws that tell what depends on priors
_MOST_SENSED, _FEWEST_SENSED = 4_000, 400  # draws that do

_REFUSED = "weighted draws are not used, because {}: chains are run instead"


@dataclass(frozen=True)
class Answer:
    """What a fit found. even: draws of even weight, (C, T, ...), by name; weighted: those with weights.

    rows: a row a coefficient and auxiliary number, as of coefficients.py.

    chains: how many there are to compare; 0 of weighted draws. doubt: why the answer is not to be trusted
    yet; "" where it is.
    scan: of many files, what was read and moved.
    groups: their effects, a factor each.
    """

    question: Question
    how: str
    rows: list[dict[str, Any]]
    even: dict[str, np.ndarray]
    weighted: dict[str, np.ndarray]
    chains: int
    doubt: str
    caveats: list[str]
    scan: dict[str, Any] = field(default_factory=dict)
    groups: tuple[Effects | Drawn, ...] = ()


def answer(
    question: Question,
    spent: Callable[[], bool] = weighted_draws.never,
    say: Callable[[str], None] = lambda line: None,
    seed: int = _SEED,
) -> Answer:
    """The posterior of a table in memory. spent: whether the time is up, as of Clock; say: takes a line.

    Raises FlyrunError, in one line, where nothing that can be written answers.
    """
    posterior = question.posterior
    with factoring(question.table.standardize):
        refuse_improper(question)
        if isinstance(posterior, OfTable):
            return _by_groups(question, posterior, spent, say, seed)
        if isinstance(posterior, OfTerms):
            return _by_terms(question, posterior, spent, seed)
        drawn = draw(posterior, seed, spent)
        if not drawn.why:
            return by_weights(question, drawn)
        say(_REFUSED.format(drawn.why))
        return _by_hmc(question, drawn, spent, seed)


def refuse_improper(question: Question) -> None:
    """Raise ConfigError where priors that are typed leave no posterior."""
    posterior = question.posterior
    if any(isinstance(prior, Flat) for _, prior in posterior.prior.others):
        # without effects of groups, whose priors are proper: these bound no coefficient that rows do not
        plain = posterior.thinned(1) if isinstance(posterior, OfTerms) else posterior
        at, likelihood = mode.find(plain)
        chosen_priors.refuse_improper(plain, question.layout.names, at, likelihood.curvature)


def draw(
    posterior: Posterior, seed: int = _SEED, spent: Callable[[], bool] = weighted_draws.never
) -> weighted_draws.Weighted:
    """Weighted draws; their `why` says why they are not to be used, if they are not. spent: as of Clock."""
    with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
        return weighted_draws.fit(posterior, seed, spent)


def by_weights(question: Question, drawn: weighted_draws.Weighted) -> Answer:
    """The answer of weighted draws that are to be used. FlyrunError where they can be of no posterior."""
    return _of_even(question, drawn, _even(drawn))


def _even(drawn: weighted_draws.Weighted) -> np.ndarray:
    """Which of the weighted draws, (C, T), those of even weight are."""
    return even_draws.resampled(drawn.weights, np.random.default_rng(_SEED + 1))


def _of_even(question: Question, drawn: weighted_draws.Weighted, even: np.ndarray) -> Answer:
    """As `by_weights`; even: (C, T), as of `_even`."""
    posterior, layout = question.posterior, question.layout
    sound.refuse_unsound(posterior, layout.names, drawn.x, drawn.weights)
    draws = own_scales(posterior, drawn.x, layout)
    rows = coefficients.summarise_weighted(draws, drawn.weights, layout)
    known = drawn.log_density if drawn.rate == len(posterior.rows) else None
    rows = _with_sensitivity(question, rows, draws, drawn.x, even.ravel(), known)
    # any of them stand for all, as long as enough of these are effective
    most = max(_MOST_STORED, math.ceil(len(drawn.x) * weighted_draws.WANTED / drawn.effective))
    kept = {name: values[:most] for name, values in draws.items()} | {"log_weight": drawn.log_weight[:most]}
    if (drawn.sign < 0).any():
        kept["sign"] = drawn.sign[:most].astype(np.int8)
    weights = drawn.weights[:most]
    sound.refuse_few(float(weights.sum() ** 2 / (weights**2).sum()), "weighted")
    sound.refuse_few(even_draws.effective(even), "even")
    doubt = drawn.unchecked and f"{drawn.unchecked}; a longer --budget checks them"
    return Answer(
        question,
        how(posterior, drawn),
        rows,
        {name: values[even] for name, values in draws.items()},
        {} if drawn.independent else kept,
        0,
        doubt,
        [*filter(None, [doubt]), *coefficients.without_mean(rows), *_caveats(question, *drawn.moments())],
    )


def _by_groups(
    question: Question, posterior: OfTable, spent: Callable[[], bool], say: Callable[[str], None], seed: int
) -> Answer:
    """The answer of weighted draws with effects of groups integrated out; of chains where these are refused.

    Errors as of `_by_terms`.
    """
    with one_blas_thread():  # as above
        try:
            if not (why := posterior.too_few):
                drawn = draw_groups(posterior, seed, spent)
                why = drawn.weighted.why
        except ValueError as error:  # matrices without digits, which chains do not need
            if no_digits(error) is None:
                raise
            why = "the density about its mode has no digits"
    if not why:
        even = _even(drawn.weighted)
        ungrouped = _of_even(question, drawn.weighted, even)
        why = coefficients.too_few(ungrouped.rows)
    if why:
        say(_REFUSED.format(why))
        terms = posterior.by_chains()
        return _by_terms(replace(question, posterior=terms), terms, spent, seed, why)
    cost = len(posterior.rows) * (1 if posterior.effects == 1 else 20)
    most = min(_EFFECTS // (posterior.groups * posterior.effects), _ROW_DRAWS // cost)
    count = min(max(most, _FEWEST_EFFECTS), _MOST_EFFECTS, even.size)
    which = np.arange(count) * even.size // count
    with one_blas_thread():
        effects = posterior.effects_of(drawn.weighted.x[even.ravel()[which]], which, seed + 3)
    of_levels = all(bar.fixed for bar in posterior.bars)
    how = drawn.words("coefficients of levels" if of_levels else "group effects")
    return replace(ungrouped, how=f"{ungrouped.how}; {how}", groups=effects)


def _by_terms(
    question: Question, posterior: OfTerms, spent: Callable[[], bool], seed: int, refused: str = ""
) -> Answer:
    """The answer of chains on effects and all else, which go on until all agree or the budget ends.

    refused: why weighted draws are not used, where they were made. ConfigError where the budget leaves no
    time for a draw, FlyrunError for draws of no posterior.
    """
    layout, budget = question.layout, question.request.budget
    most = min(budget.iterations or _MOST_ITERATIONS, _MOST_ITERATIONS)
    with one_blas_thread():
        sampler = turning.Sampler(posterior, np.random.default_rng(seed + 2), spent)
        drawn, length = sampler.draw(min(_FIRST, most)), 0
        while True:
            if (kept := drawn.psi.shape[1]) < _FEWEST_DRAWS:
                raise ConfigError(
                    f"--budget {budget}: ended before chains made {_FEWEST_DRAWS} draws each; give a longer "
                    "--budget"
                )
            if not spent() and sampler.shortened(drawn):
                drawn = sampler.draw(kept)
                continue
            even = own_scales(posterior, drawn.psi, layout)
            rows = coefficients.summarise_chains(even, layout)
            doubt = turning.doubt(drawn, rows)
            length = min(kept, most - kept, _EFFECT_DRAWS // (turning.CHAINS * posterior.n_effects) - kept)
            if not doubt or length < 1 or spent():
                break
            drawn = drawn.with_more(sampler.draw(length))
    flat = drawn.psi.reshape(-1, posterior.size)
    sound.refuse_unsound(posterior, layout.names, flat)
    count = min(max(_EFFECTS // posterior.n_effects, _FEWEST_EFFECTS), _MOST_OF_CHAINS, len(flat))
    which = np.arange(count) * len(flat) // count
    effects = posterior.effects_of(flat[which], drawn.effects.reshape(len(flat), -1)[which], which)
    caveats = coefficients.without_mean(rows) + _caveats(question, flat.mean(axis=0), np.cov(flat.T))
    how = (
        f"{turning.CHAINS} chains of {kept:,} draws of all coefficients, effects and their sds by "
        f"Hamiltonian Monte Carlo, {drawn.accepted:.0%} accepted"
    )
    how += f", because {refused}" if refused else ""
    return Answer(question, how, rows, even, {}, turning.CHAINS, doubt, caveats, groups=effects)


def _by_hmc(
    question: Question, refused: weighted_draws.Weighted, spent: Callable[[], bool], seed: int
) -> Answer:
    """The answer of chains on all rows, which go on until they agree or the budget ends.

    ConfigError where the budget leaves no time for a draw, FlyrunError for draws of no posterior.
    """
    posterior, layout, budget = question.posterior, question.layout, question.request.budget
    most = min(budget.iterations or _MOST_ITERATIONS, _MOST_ITERATIONS)
    centres = refused.proposal.centre[None] if refused.modes is None else refused.modes.centres
    count, length = max(hmc_on_rows.CHAINS, len(centres)), min(_FIRST, most)
    x = np.empty((count, 0, posterior.size))
    with one_blas_thread():
        rng = np.random.default_rng(seed + 2)
        chains = hmc_on_rows.Sampler(
            posterior, centres, refused.proposal.root, rng, count, spent=spent, several=refused.modes
        )
        while True:
            x = np.concatenate([x, chains.draw(length)], axis=1)
            if x.shape[1] < _FEWEST_DRAWS:
                raise ConfigError(
                    f"--budget {budget}: ended before chains made {_FEWEST_DRAWS} draws each, which "
                    f"are needed because {refused.why}; give a longer --budget"
                )
            even = own_scales(posterior, x, layout)
            rows = coefficients.summarise_chains(even, layout)
            settled = refused.modes is None or refused.modes.connected(x)
            unknown = _unknown(posterior, layout.names, x)
            agreed = coefficients.agreed(rows) and settled and not unknown
            length = min(x.shape[1], most - x.shape[1])
            if agreed or length < 1 or spent():
                break
    flat = x.reshape(-1, posterior.size)
    of_flat = {name: values.reshape(len(flat), *values.shape[2:]) for name, values in even.items()}
    rows = _with_sensitivity(question, rows, of_flat, flat, np.arange(len(flat)))
    sound.refuse_unsound(posterior, layout.names, flat)
    caveats = coefficients.without_mean(rows) + _caveats(question, flat.mean(axis=0), np.cov(flat.T))
    doubt = "" if agreed else "the chains do not agree yet; a longer --budget runs longer"
    if unknown and coefficients.agreed(rows):
        doubt = (
            f"the chains have seen too little of the tail of {unknown} to tell its sd; a longer --budget "
            "runs longer"
        )
    if refused.modes is not None:
        caveats.insert(0, _by_mode(layout.names, refused.modes, flat, even["beta"].reshape(len(flat), -1)))
        if doubt:
            doubt = (
                "the chains have not passed between the posterior's modes often enough to tell their shares"
            )
            caveats.insert(1, doubt)
    how = f"{count} chains of {x.shape[1]:,} draws by Hamiltonian Monte Carlo on all rows"
    how += "" if refused.modes is None else f", with jumps between {len(centres)} modes"
    return Answer(question, f"{how}, because {refused.why}", rows, even, {}, count, doubt, caveats)


def _with_sensitivity(
    question: Question,
    rows: list[dict[str, Any]],
    draws: dict[str, np.ndarray],
    x: np.ndarray,
    even: np.ndarray,
    known: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[dict[str, Any]]:
    """Rows that say where prior and data disagree, or data are weak; none with groups.

    draws: (S, ...) by name, of x (S, P); even: which of them, of even weight; known: the log density of these
    of x, where it was worked out before. Some stand for all: those of
    next to no weight would stretch the range over which distances are taken. Of a scan the surrogate stands
    for the likelihood: log weights vary by far less than that.
    """
    posterior = question.posterior
    most = min(_MOST_SENSED, _EVALUATIONS // max(len(posterior.rows), 1))
    if isinstance(posterior, OfTable | OfTerms) or most < _FEWEST_SENSED:
        return rows
    rng = np.random.default_rng(_SEED + 4)
    order = rng.permutation(even)[:most]
    some, share = x[order], np.full(len(order), 1.0 / len(order))
    log_prior = posterior.log_prior(some)
    log_likelihood = posterior.log_likelihood(some) if known is None else known(order) - log_prior
    labels = {}
    for name, values in draws.items():
        flat = values[order].reshape(len(order), -1)
        labels[name] = sensitivity.verdicts(flat, share, log_prior, log_likelihood)
    return coefficients.labelled(rows, labels, question.layout)


def _unknown(posterior: Posterior, names: list[str], x: np.ndarray) -> str:
    """A number whose variance chains' draws x (C, T, P) do not tell; "" where they tell all.

    names: of the coefficients of a linear predictor.
    """
    error = coefficients.of_variances(x)
    worst, n = int(error.argmax()), posterior.n_coefficients
    if error[worst] < _VARIANCE:
        return ""
    if worst < n:
        return names[worst % posterior.width]
    further = zip(posterior.auxiliary, posterior.places[posterior.linear :], strict=True)
    return next(number.name for number, place in further if worst < place.stop)


def _by_mode(names: list[str], modes: Several, x: np.ndarray, beta: np.ndarray) -> str:
    """That a posterior has several modes, by draws x (S, P) and coefficients (S, D) of these."""
    near = modes.nearest(x)
    share = np.bincount(near, minlength=len(modes.parts)) / len(x)
    means = np.array([beta[near == k].mean(axis=0) for k in np.flatnonzero(share)])
    most = int((np.ptp(means, axis=0) / beta.std(axis=0)).argmax())
    name, shares = names[most], share[share > 0]
    each = listing(f"{means[k, most]:.3g} ({100 * part:.2g} %)" for k, part in enumerate(shares))
    return f"the posterior has several modes, which a mean does not show: {name} is about {each}"


def _caveats(question: Question, mean: np.ndarray, covariance: np.ndarray) -> list[str]:
    """What the table says little of, by the draws' mean (P,) and covariance (P, P)."""
    posterior = question.posterior
    width, several, n = posterior.width, posterior.linear, posterior.n_coefficients
    prior, theta = posterior.prior.sd[:width] ** -2.0, mean[:n]
    if posterior.family.contrasts is not None:  # the first class's are 0
        theta = np.append(np.zeros(width), contrasts(posterior, theta))

    def by(curvature: np.ndarray) -> list[str]:
        likelihood = np.einsum("kikj->ij", curvature.reshape(several, width, several, width)) / several
        priors = prior
        if not posterior.family.intercept:
            likelihood, priors = np.pad(likelihood, (0, 1)), np.append(prior, 1.0)
        rows = question.table, question.layout, question.dataset
        return identified.caveats(*rows, likelihood, priors, theta)

    caveats = by(np.linalg.pinv(covariance[:n, :n]) - np.diag(np.tile(prior, several)))
    if caveats and question.dataset is not None and not isinstance(posterior, OfTable | OfTerms):
        caveats = by(mode.find(posterior)[1].curvature[:n, :n])  # which draws tell with noise
    if (dataset := question.dataset) is not None and len(y := dataset.target):
        aim = question.layout.target
        low, high, centre = (float(aim.mean + value * aim.sd) for value in (y.min(), y.max(), y.mean()))
        of_target = (low, high), centre, float(y.var()) * aim.sd**2
        caveats += lone_rows.caveats(question.layout, posterior.family, *of_target)
    return [*caveats, *(posterior.caveats() if isinstance(posterior, OfTable | OfTerms) else [])]


def how(posterior: Posterior, drawn: weighted_draws.Weighted) -> str:
    """How the draws were made and what they cost, in one line."""
    if drawn.independent:
        return f"{len(drawn.x):,} independent draws in closed form; every row is read once"
    cost = f"{drawn.rate:,.0f} likelihoods a draw"
    if not drawn.rate:
        cost = "every row is read once"
    if drawn.rate == len(posterior.rows):
        cost = f"all {len(posterior.rows):,} likelihoods a draw"
    k_hat = f"k̂ {drawn.k_hat:.2f}" if np.isfinite(drawn.k_hat) else "even weights"
    return f"{len(drawn.x):,} weighted draws, {drawn.effective:,.0f} effective, {k_hat}; {cost}"
