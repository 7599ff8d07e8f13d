"""A fit without compiled chains: weighted draws or, where these are refused, HMC on all rows; its files."""

import math
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from flyrun import __version__, files
from flyrun.config.schema import listing
from flyrun.diagnostics import ess
from flyrun.errors import ConfigError
from flyrun.fitting import (
    coefficients,
    even_draws,
    hmc_on_rows,
    identified,
    predictive_checks,
    priors,
    ratios,
    sound,
    weighted_draws,
)
from flyrun.fitting.groups.draw import draw as draw_groups
from flyrun.fitting.groups.grouped_table import OfTable, remedy
from flyrun.fitting.groups.stored_effects import Effects, stored_as
from flyrun.fitting.proposal import Several
from flyrun.fitting.read_table import MOST_SHOWN, ReadTable, folder_of, priors_of, settings_of, shape, taken
from flyrun.fitting.request import ELSEWHERE, Clock, Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.models.family import LogGamma
from flyrun.report.summaries import FIT
from flyrun.runner import environment, store
from flyrun.threads import one_blas_thread

_SEED = 0
_FIRST = 500  # iterations a chain of the first round
_VARIANCE = 0.06  # relative error of a variance where there are several modes, at most
_FEWEST_DRAWS = 20  # of a chain, of which anything can be said
_MOST_STORED = 20_000  # weighted draws
_MOST_ITERATIONS = 100_000
_EFFECTS = 5_000_000  # numbers that are stored of groups' effects, about
_ROW_DRAWS = 100_000_000  # rows × draws for which they are drawn, about; of a slope too fewer
_FEWEST_EFFECTS, _MOST_EFFECTS = 100, 1_000  # draws


@dataclass(frozen=True)
class Answer:
    """What a fit found. even: draws of even weight, (C, T, ...), by name; weighted: those with weights.

    chains: how many there are to compare; 0 of weighted draws. doubt: why the answer is not to be trusted
    yet; "" where it is.
    scan: of many files, what was read and moved.
    groups: their effects, a factor each.
    """

    how: str
    rows: list[dict[str, Any]]
    even: dict[str, np.ndarray]
    weighted: dict[str, np.ndarray]
    chains: int
    doubt: str
    caveats: list[str]
    scan: dict[str, Any] = field(default_factory=dict)
    groups: tuple[Effects, ...] = ()


def draw(
    posterior: Posterior, seed: int = _SEED, spent: Callable[[], bool] = weighted_draws.never
) -> weighted_draws.Weighted:
    """Weighted draws; their `why` says why they are not to be used, if they are not. spent: as of Clock."""
    with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
        return weighted_draws.fit(posterior, seed, spent)


def by_weights(read: ReadTable, posterior: Posterior, drawn: weighted_draws.Weighted) -> Answer:
    """The answer of weighted draws that are to be used. FlyrunError where they can be of no posterior."""
    return _of_even(read, posterior, drawn, _even(drawn))


def _even(drawn: weighted_draws.Weighted) -> np.ndarray:
    """Which of the weighted draws, (C, T), those of even weight are."""
    return even_draws.resampled(drawn.weights, np.random.default_rng(_SEED + 1))


def _of_even(
    read: ReadTable, posterior: Posterior, drawn: weighted_draws.Weighted, even: np.ndarray
) -> Answer:
    """As `by_weights`; even: as of `_even`."""
    sound.refuse_unsound(posterior, read.layout.names, drawn.x, drawn.weights)
    draws = own_scales(posterior, drawn.x, read)
    rows = coefficients.summarise_weighted(draws, drawn.weights, read.layout)
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
        how(posterior, drawn),
        rows,
        {name: values[even] for name, values in draws.items()},
        {} if drawn.independent else kept,
        0,
        doubt,
        [*filter(None, [doubt]), *_caveats(read, posterior, *drawn.moments())],
    )


def by_groups(read: ReadTable, posterior: OfTable, spent: Callable[[], bool]) -> Answer:
    """The answer where effects of groups are integrated out. ConfigError where it is not to be trusted."""
    with one_blas_thread():  # as above
        drawn = draw_groups(posterior, _SEED, spent)
    if drawn.weighted.why:
        raise remedy(posterior.bar, posterior.groups, drawn.weighted.why)
    even = _even(drawn.weighted)
    made = _of_even(read, posterior, drawn.weighted, even)
    cost = len(posterior.rows) * (1 if posterior.effects == 1 else 20)
    most = min(_EFFECTS // (posterior.groups * posterior.effects), _ROW_DRAWS // cost)
    count = min(max(most, _FEWEST_EFFECTS), _MOST_EFFECTS, even.size)
    which = np.arange(count) * even.size // count
    with one_blas_thread():
        effects = posterior.effects_of(drawn.weighted.x[even.ravel()[which]], which, _SEED + 3)
    return replace(made, how=f"{made.how}; {drawn.words}", groups=effects)


def by_hmc(
    request: Request,
    read: ReadTable,
    posterior: Posterior,
    refused: weighted_draws.Weighted,
    clock: Clock,
    seed: int = _SEED,
) -> Answer:
    """The answer of chains on all rows, which go on until they agree or the budget ends.

    ConfigError where the budget leaves no time for a draw, FlyrunError for draws of no posterior.
    """
    most = min(request.budget.iterations or _MOST_ITERATIONS, _MOST_ITERATIONS)
    centres = refused.proposal.centre[None] if refused.modes is None else refused.modes.centres
    count, length = max(hmc_on_rows.CHAINS, len(centres)), min(_FIRST, most)
    x = np.empty((count, 0, posterior.size))
    spent = clock.spent(request.budget)
    with one_blas_thread():
        rng = np.random.default_rng(seed + 2)
        chains = hmc_on_rows.Sampler(
            posterior, centres, refused.proposal.root, rng, count, spent=spent, several=refused.modes
        )
        while True:
            x = np.concatenate([x, chains.draw(length)], axis=1)
            if x.shape[1] < _FEWEST_DRAWS:
                raise ConfigError(
                    f"--budget {request.budget}: ended before chains made {_FEWEST_DRAWS} draws each, which "
                    f"are needed because {refused.why}; give a longer --budget"
                )
            even = own_scales(posterior, x, read)
            rows = coefficients.summarise_chains(even, read.layout)
            agreed = coefficients.agreed(rows) and (refused.modes is None or _settled(refused.modes, x))
            length = min(x.shape[1], most - x.shape[1])
            if agreed or length < 1 or spent():
                break
    flat = x.reshape(-1, posterior.size)
    sound.refuse_unsound(posterior, read.layout.names, flat)
    caveats = _caveats(read, posterior, flat.mean(axis=0), np.cov(flat.T))
    doubt = "" if agreed else "the chains do not agree yet; a longer --budget runs longer"
    if refused.modes is not None:
        caveats.insert(0, _by_mode(read, refused.modes, flat, even["beta"].reshape(len(flat), -1)))
        if doubt:
            doubt = (
                "the chains have not passed between the posterior's modes often enough to tell their shares"
            )
            caveats.insert(1, doubt)
    how = f"{count} chains of {x.shape[1]:,} draws by Hamiltonian Monte Carlo on all rows"
    how += "" if refused.modes is None else f", with jumps between {len(centres)} modes"
    return Answer(f"{how}, because {refused.why}", rows, even, {}, count, doubt, caveats)


def _settled(modes: Several, x: np.ndarray) -> bool:
    """Whether chains' draws x (C, T, P) connect all modes and tell each variance, rare ones' part too."""
    away = (x - x.mean(axis=(0, 1))) ** 2
    relative = away.std(axis=(0, 1)) / away.mean(axis=(0, 1))
    worth = ess.summary(x, wanted=("square",)).square
    return modes.connected(x) and bool((relative**2 < _VARIANCE**2 * worth).all())


def _by_mode(read: ReadTable, modes: Several, x: np.ndarray, beta: np.ndarray) -> str:
    """That a posterior has several modes, by draws x (S, P) and coefficients (S, D) of these."""
    near = modes.nearest(x)
    share = np.bincount(near, minlength=len(modes.parts)) / len(x)
    means = np.array([beta[near == k].mean(axis=0) for k in np.flatnonzero(share)])
    most = int((np.ptp(means, axis=0) / beta.std(axis=0)).argmax())
    name, shares = read.layout.names[most], share[share > 0]
    each = listing(f"{means[k, most]:.3g} ({100 * part:.2g} %)" for k, part in enumerate(shares))
    return f"the posterior has several modes, which a mean does not show: {name} is about {each}"


def own_scales(posterior: Posterior, x: np.ndarray, read: ReadTable) -> dict[str, np.ndarray]:
    """beta (..., D) on the columns' own scales, and what people read of the auxiliary numbers."""
    family, n = posterior.family, posterior.n_coefficients
    theta, aux = x[..., :n].copy(), family.read(x[..., n : n + len(posterior.auxiliary)])
    if not family.intercept:  # cutpoints stand in for it, and take up the columns' means
        theta = np.concatenate([theta, np.zeros((*x.shape[:-1], 1))], axis=-1)
    if family.contrasts is not None:
        theta = _contrasts(posterior, theta)
    beta = coefficients.Scales.of(read.layout).apply(theta)
    if not family.intercept:
        beta, aux = beta[..., :-1], aux - beta[..., -1:]
    if family.link == "identity":
        aux[..., 0] *= read.layout.target.sd  # a scale of the noise, in units of the target
    told = {one.name: aux[..., k] for k, one in enumerate(posterior.auxiliary)}
    return {"beta": beta} | told | posterior.others(x)


def _contrasts(posterior: Posterior, theta: np.ndarray) -> np.ndarray:
    """What people read, (..., K, D), of the coefficients of K linear predictors, (..., K·D)."""
    each = theta.reshape(*theta.shape[:-1], posterior.linear, posterior.width)
    return posterior.family.contrasts(posterior.levels) @ each  # type: ignore[misc]


def _caveats(read: ReadTable, posterior: Posterior, mean: np.ndarray, covariance: np.ndarray) -> list[str]:
    """What the table says little of, by the curvature that the draws have."""
    width, several, n = posterior.width, posterior.linear, posterior.n_coefficients
    prior, theta = posterior.prior.sd[:width] ** -2.0, mean[:n]
    curvature = np.linalg.pinv(covariance[:n, :n]).reshape(several, width, several, width)
    likelihood = np.einsum("kikj->ij", curvature) / several - np.diag(prior)
    if not posterior.family.intercept:
        likelihood, prior = np.pad(likelihood, (0, 1)), np.append(prior, 1.0)
    if posterior.family.contrasts is not None:  # the first class's are 0
        theta = np.append(np.zeros(width), _contrasts(posterior, theta))
    found = identified.caveats(read.table, read.layout, read.dataset, likelihood, prior, theta)
    return [*found, *(posterior.caveats() if isinstance(posterior, OfTable) else [])]


def lines(request: Request, read: ReadTable, posterior: Posterior) -> list[str]:
    """What was read and what is fitted to it, a line each."""
    family, target = posterior.family, read.layout.target
    model = f"{family.words} of {read.layout.explained}"
    if family.target == "ordered":
        model += f": {' < '.join(target.levels or [])}"
    elif family.target == "classes":
        against, *others = target.levels or []
        model += f": {', '.join(others)}, each against {against}"
    elif target.levels is not None:
        against, *others = target.levels
        model += f" = {others[0]} ({int((read.dataset.target > 0).sum()):,} rows) against {against}"
    if isinstance(posterior, OfTable):
        model += f", with {posterior.words}"
    return [*shape(read.table, read.layout), *taken(read.layout, MOST_SHOWN), model]


def prior_lines(request: Request, read: ReadTable, posterior: Posterior) -> list[str]:
    """The priors, a line each."""
    return priors.lines(_priors(request, read, posterior), MOST_SHOWN)


def _priors(request: Request, read: ReadTable, posterior: Posterior) -> list[dict[str, Any]]:
    """Of the coefficients, then of the auxiliary numbers."""
    table = list(priors_of(request, read.layout).table)
    for k, one in enumerate(posterior.auxiliary):
        prior = one.prior
        if k == 0 and posterior.family.link == "identity" and isinstance(prior, LogGamma):
            prior = prior._replace(
                rate=prior.rate / read.layout.target.sd
            )  # of noise, as `own_scales` has it
        table.append({"term": one.name, "prior": f"{prior} {one.of}".rstrip()})
    return table + posterior.other_priors()


def how(posterior: Posterior, found: weighted_draws.Weighted) -> str:
    """How the draws were made and what they cost, in one line."""
    if found.independent:
        return f"{len(found.x):,} independent draws in closed form; every row is read once"
    cost = f"{found.rate:,.0f} likelihoods a draw"
    if found.rate == len(posterior.rows):
        cost = f"all {len(posterior.rows):,} likelihoods a draw"
    k_hat = f"k̂ {found.k_hat:.2f}" if np.isfinite(found.k_hat) else "even weights"
    return f"{len(found.x):,} weighted draws, {found.effective:,.0f} effective, {k_hat}; {cost}"


def write(
    request: Request, read: ReadTable, posterior: Posterior, made: Answer, told: list[str] | None = None
) -> Path:
    """posterior.nc, fit.json and run.json, of which the report is made; their folder. told: as `lines`."""
    folder, table, layout = folder_of(request), read.table, read.layout
    attrs = {
        "flyrun": __version__,
        "file": str(table.path),
        "target": layout.target.name,
        "model": posterior.family.name,
    }
    fit = {
        "settings": settings_of(request, read, posterior.family.name),
        "file": str(table.path),
        "lines": lines(request, read, posterior) if told is None else told,
        "how": made.how,
        "caveats": made.caveats,
        "scan": made.scan,
        "layout": asdict(layout),
        "link": posterior.family.link,
        "chains": made.chains,
        "agreed": not made.doubt,
        "standardize": table.standardize,
        "queries": posterior.queries,
        "coefficients": priors.beside(
            _rows(request, read, posterior, made), _priors(request, read, posterior)
        ),
        "predictive": _predictive(request, read, posterior, made),
    }
    if isinstance(posterior, OfTable):
        nodes = {"nodes": [posterior.nodes, posterior.steps]}
        fit["groups"] = [one.shown() | nodes for one in made.groups]
    entry = {
        "name": folder.name,
        "experiment": folder.name,
        "title": f"{Path(request.file).name}: {layout.target.name}",
        "command": shlex.join(["flyrun", "fit", *request.words]),
        "started": store.now(),
        "figures": ["coefficients", "predictive"],
        "arms": [],
        "environment": environment.describe() | {"finished": store.now()},
    }
    with files.writing(folder, ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        further = {stored_as(place): one.stored() for place, one in enumerate(made.groups)}
        coefficients.write_draws(folder / store.POSTERIOR, made.even, made.weighted, layout, attrs, further)
        files.write_json(folder / FIT, fit)
        files.write_json(folder / store.RUN, entry)
    return folder


def _rows(request: Request, read: ReadTable, posterior: Posterior, made: Answer) -> list[dict[str, Any]]:
    """A row a coefficient, with its ratio where that is asked for."""
    if not request.exp:
        return made.rows
    return ratios.beside(made.rows, made.even["beta"], posterior.family.link, read.layout)


def _predictive(request: Request, read: ReadTable, posterior: Posterior, made: Answer) -> dict[str, Any]:
    """What the fit says of its own rows; nothing where these are not at hand, or belong to groups."""
    if read.dataset is None or request.groups:
        return {}
    return predictive_checks.of(read.dataset, read.layout, posterior.family.name, made.even)
