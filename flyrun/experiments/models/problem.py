"""Data, model and prior of an arm bound together, and what is fitted once before any method: scales, MAP.

One likelihood query is one L_n(θ). Charged here: every evaluation of the fits (N each; for a scale that is
`held_out` one fit per value tried and one pass over the test rows, for one that is `estimated` every pass
over the rows); a method counts the passes that it makes besides.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.data import load_again
from flyrun.experiments.models import passes
from flyrun.experiments.models.aux_prior import Beside
from flyrun.experiments.models.base_density import dense, draw_base, log_base
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.features import Features, n_params
from flyrun.experiments.models.fits.lasso_fit import find_lasso_map
from flyrun.experiments.models.fits.map_fit import MapFit, find_map
from flyrun.experiments.models.fits.modes import Modes, find_modes
from flyrun.experiments.models.fits.newton_fit import find_newton_map
from flyrun.experiments.models.fits.noise_fit import noise_scale
from flyrun.experiments.models.likelihood import quadratic
from flyrun.experiments.models.shard_prior import Powered, priors_of, with_aux
from flyrun.experiments.models.with_aux import WithAux
from flyrun.families import domains
from flyrun.ground import files, mapped
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.numerics import code_digest
from flyrun.ground.numerics.compiled import jit, outer_jit
from flyrun.ground.schema import typed_choices
from flyrun.ground.threads import one_blas_thread
from flyrun.tables.dataset import Dataset

_NOT_OF_THE_MODEL = ("name", "scale", "grid")
MOST_ROUNDING = 0.1
"""Root mean square of rounding in the log density, from where on it is no longer the posterior's."""


class Fit(NamedTuple):
    """Scales and, where asked for, MAP estimate of one (dataset, model, prior)."""

    scale: float  # the prior's
    model_scale: float  # the likelihood's; NaN where it has none
    theta_map: np.ndarray = np.zeros(0)  # (P,); empty where none was needed
    log_posterior: float = np.nan
    # (M, P): θ_MAP and, of a likelihood that is not log-concave, the other modes that were found
    modes: np.ndarray = np.zeros((0, 1))
    shares: np.ndarray = np.zeros(0)  # (M,): of the posterior, by the modes' heights and widths
    queries: int = 0
    seconds: float = 0.0
    held_out: Sequence[list[float]] = ()  # [scale, mean test log likelihood at its MAP] of the prior's tried
    held_out_model: Sequence[list[float]] = ()  # the same of the likelihood's scales


class Problem(NamedTuple):
    """Data, model and prior of an arm, bound together."""

    dataset: Dataset
    model: Any
    features: Features
    prior: Any
    fit: Fit
    power: float = 1.0  # that the likelihood is raised to
    stored: Path | None = None  # where the fit is, if it is kept
    #: what a meter alone may read, where a proof shows a method other rows in its place
    metered: "Problem | None" = None

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of θ's components, (P,)."""
        names, several = self.dataset.feature_names, self.model.n_predictors
        of_model = getattr(self.model, "names", ())
        if isinstance(self.features, WithAux):
            return (*names, *of_model)
        if of_model and len(names) == 1:
            return of_model
        return tuple(f"{k}:{name}" for k in range(several) for name in names) if several > 1 else tuple(names)


@jit
def _log_prior(prior, theta):
    return log_base(prior, theta, None)


@jit
def _log_priors(prior, thetas, out):
    for g in range(thetas.shape[0]):
        out[g] = log_base(prior, thetas[g], None)


@outer_jit
def _draw_priors(prior, rng, out):
    for g in range(out.shape[0]):
        draw_base(prior, rng, out[g])


def log_priors(prior: Any, thetas: np.ndarray) -> np.ndarray:
    """Log prior, (G,), at positions (G, P). No query."""
    values = np.empty(len(thetas))
    _log_priors(prior, np.ascontiguousarray(thetas), values)
    return values


def draw_prior(problem: Problem, rng: np.random.Generator, n: int) -> np.ndarray:
    """n draws from the prior, (n, P)."""
    thetas = np.empty((n, n_params(problem.features, problem.model.n_predictors)))
    _draw_priors(problem.prior, rng, thetas)
    return thetas


def of_positions(
    arm: Arm, problem: Problem, theta: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """f(θ) of positions (k, P), (k, ...) by name; under weights (k,) of sum 1 their expectations, (...).

    θ, θ² and what the model's module adds as `functionals(problem, theta, weight)`.
    """
    functionals = getattr(arm.model.code, "functionals", None)
    moments = {"mean": theta, "square": theta**2}
    if weight is not None:
        moments = {name: weight @ values for name, values in moments.items()}
    return moments | (functionals(problem, theta, weight) if functionals else {})


def log_densities(arm: Arm, problem: Problem, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log prior and log likelihood, (G,) each, at positions (G, P). N queries each."""
    thetas = np.ascontiguousarray(thetas)
    mapped.expect(problem.features.rows, random=False)
    likelihoods = passes.log_likelihoods(arm.model.code, problem.model, problem.features, thetas)
    return log_priors(problem.prior, thetas), problem.power * likelihoods


def value_and_score(arm: Arm, problem: Problem, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Log posterior and its gradient, (P,), at θ (P,). One pass, N queries."""
    value, slope = passes.slope(arm.model.code, problem.model, problem.features, theta)
    value = problem.power * value + float(log_priors(problem.prior, theta[None])[0])
    return value, problem.power * slope + prior_scores(arm, problem, theta[None])[0]


def scores(arm: Arm, problem: Problem, thetas: np.ndarray) -> np.ndarray:
    """∇ log posterior, (G, P), at positions (G, P). N queries each."""
    model, features = problem.model, problem.features
    slopes = [passes.slope(arm.model.code, model, features, theta)[1] for theta in thetas]
    return problem.power * np.array(slopes) + prior_scores(arm, problem, thetas)


def prior_scores(arm: Arm, problem: Problem, thetas: np.ndarray) -> np.ndarray:
    """∇ log prior, (G, P), at positions (G, P)."""
    return priors_of(arm).penalty(problem.prior).score(thetas)


def look_at_map(arm: Arm, problem: Problem) -> passes.Look:
    """The likelihood about the MAP, to second order, recalled where it was looked at before; N queries.

    Raises DataError where predictors have no digits to tell positions near the MAP apart by.
    """
    path = problem.stored and problem.stored.with_name(problem.stored.name.replace("setup", "look"))
    look = _read_look(path) if path is not None else None
    if look is None:
        look = passes.look(arm.model.code, problem.model, problem.features, problem.fit.theta_map)
        if path is not None:
            files.keep(files.write_arrays, path, look._asdict())
    if look.rounding > MOST_ROUNDING:
        otherwise = "numbers nearer to 0" if np.isnan(problem.fit.model_scale) else "a larger model.scale"
        raise DataError(
            f"dataset={arm.dataset.name}: numbers are so large beside the posterior's width that rounding "
            f"moves its log density by {look.rounding:.2g}, more than {MOST_ROUNDING:g}; "
            f"choose {digits_remedy(arm, otherwise)}"
        )
    return look


def digits_remedy(arm: Arm, otherwise: str) -> str:
    """What to choose where data are too far from 0 for a narrow posterior."""
    return "dataset.standardize=true" if arm.dataset.standardize is False else otherwise


def _read_look(path: Path) -> passes.Look | None:
    with contextlib.suppress(files.DamagedFile):
        stored = files.read_arrays(path)
        return passes.Look(float(stored.pop("value")), rounding=float(stored.pop("rounding")), **stored)
    return None


def posterior_curvature(arm: Arm, problem: Problem, theta: np.ndarray | None = None) -> np.ndarray:
    """H, (P, P), the posterior's curvature at θ, by default the MAP: the likelihoods' and the prior's.

    For a prior that is not smooth a Gaussian of the same variance stands in.
    """
    at = problem.fit.theta_map if theta is None else theta
    look = passes.look(arm.model.code, problem.model, problem.features, at)
    return prior_curvature(arm, problem, at) + problem.power * look.curvature


def prior_curvature(arm: Arm, problem: Problem, theta: np.ndarray | None = None) -> np.ndarray:
    """The prior's part of `posterior_curvature`, (P, P)."""
    at = problem.fit.theta_map if theta is None else theta
    prior, exponent, size, whole = problem.prior, 1.0, at.size, np.zeros((at.size, at.size))
    if isinstance(prior, Beside):
        prior, size = prior.coefficients, prior.size
        whole[size:, size:] = np.diag(problem.prior.aux.bends(at[size:]))
    nothing = quadratic(np.zeros((size, size)), np.zeros(size), 0.0)
    if isinstance(prior, Powered):
        prior, exponent = prior
    whole[:size, :size] = exponent * dense(arm.prior.code.pseudo_prior(prior, nothing)).precision
    return whole


def bind(arm: Arm, folder: Path, needs_map: bool) -> Problem:
    """Load the arm's data and fit what it needs, or recall the fit from `folder`.

    Raises ConfigError where model and data do not fit, or a scale is held_out and no rows are.
    """
    with one_blas_thread():  # the bits of sums and products depend on the number of BLAS threads
        dataset = load_again(arm.dataset)
        task = getattr(arm.model, "task", dataset.task)
        if dataset.task != task:
            raise ConfigError(
                f"model={arm.model.name} and dataset={arm.dataset.name} do not go together: the targets are "
                f"{dataset.domain}, the model is for {domains.of(task)}"
            )
        if unknown := dataset.beside.keys() - set(arm.model.beside):
            able = typed_choices(
                "model",
                lambda cls: getattr(cls, "task", "") == task and unknown <= set(getattr(cls, "beside", ())),
            )
            remedy = f"choose {able}, or leave it out" if able else "leave it out: `flyrun fit` takes it"
            name = min(unknown)
            raise ConfigError(f"dataset.{name}: model={arm.model.name} takes no {name}; {remedy}")
        if needs_map and not (arm.model.bounds or arm.model.one_mode or arm.model.climbs):
            raise ConfigError(
                f"model={arm.model.name}: arm {arm.name} needs the mode, which this model has no bounds to "
                "look for by; choose bound=none, protocol.init=prior and a sampler that needs none"
            )
        fit, stored = _fit(arm, dataset, folder, needs_map)
        model, features = bind_model(arm.model, dataset, fit.model_scale)
        power = _shards(arm) if arm.dataset.shards_power == "likelihood" else 1.0
        priors = priors_of(arm)
        prior = with_aux(priors, priors.prior(fit.scale), model, features)
    problem = Problem(dataset, model, features, prior, fit, power, stored)
    if dataset.shown is None:
        return problem
    model, features = bind_model(arm.model, dataset.shown, fit.model_scale)
    return problem._replace(dataset=dataset.shown, model=model, features=features, metered=problem)


def _shards(arm: Arm) -> float:
    """Of how many parts the data are one."""
    return 1.0 if arm.dataset.shard is None else float(arm.dataset.shard[1])


def bind_model(config: Any, dataset: Dataset, scale: float) -> tuple[Any, Any]:
    """Model and features; what the configuration says of the likelihood goes to `bind` by name."""
    given = {key: value for key, value in config.settings().items() if value != "sampled"}
    settings = {key: value for key, value in given.items() if key not in _NOT_OF_THE_MODEL}
    if not np.isnan(scale):
        settings["scale"] = scale
    target = None if dataset.folded else dataset.target
    return config.code.bind(dataset.features, target, **settings, **dataset.beside)


def _scale_of(choice: Any) -> Any:
    """The scale that is asked for; NaN where there is none, or it is one of the parameters."""
    scale = getattr(choice, "scale", "sampled")
    return float("nan") if scale == "sampled" else scale


def _fit(arm: Arm, dataset: Dataset, folder: Path, needs_map: bool) -> tuple[Fit, Path | None]:
    """The fit, and where it is kept; one that no pass was needed for is not."""
    scales = [_scale_of(choice) for choice in (arm.prior, arm.model)]
    if "held_out" in scales:
        if len(dataset.test_target) == 0:
            group = "prior" if scales[0] == "held_out" else "model"
            raise ConfigError(
                f"{group}.scale=held_out: dataset={arm.dataset.name} keeps no rows apart as it is set up; "
                f"see its settings with `flyrun info {arm.dataset.name}`, or give a number"
            )
    elif not needs_map and "estimated" not in scales:
        return Fit(float(scales[0]), float(scales[1])), None
    choices = (arm.dataset, arm.model, arm.prior)
    settings = [choice.key_settings() for choice in choices]
    code = code_digest.of_modules([*(choice.path_of_code for choice in choices), __name__])
    wanted = [*settings, dataset.sha256, code]
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:12]
    path = folder / f"setup-{key}.npz"
    if (stored := _read(path)) is not None:
        return stored, path
    fit = _Search(arm, dataset).run()
    files.keep(files.write_arrays, path, fit._asdict())
    return fit, path


class _Search:
    """MAP fits, each from where the last ended, and their cost."""

    def __init__(self, arm: Arm, dataset: Dataset):
        self.arm, self.dataset = arm, dataset
        # a likelihood to J with the whole prior has the same mode
        self.module, self.priors = arm.model.code, priors_of(arm, _shards(arm))
        self.queries = 0
        self.theta = np.zeros(0)
        self._bound: dict[float | None, Any] = {}

    def run(self) -> Fit:
        """Choose the scales that are held out, the likelihood's first, at the widest prior."""
        scale = _scale_of(self.arm.model)
        passes.compile_for(*self._model(self.arm.model.grid[0] if isinstance(scale, str) else scale))
        started = time.perf_counter()
        arm, model_scale, tried_model = self.arm, scale, []
        prior_held_out = arm.prior.scale == "held_out"
        prior_scales = arm.prior.grid if prior_held_out else (arm.prior.scale,)
        if model_scale == "held_out":
            for scale in arm.model.grid:
                fit = self._fit(max(prior_scales), scale)
                tried_model.append([float(scale), self._score(scale, fit.theta)])
            model_scale = max(tried_model, key=lambda pair: pair[1])[0]
        elif model_scale == "estimated":
            data = self.dataset
            model_scale, self.queries = noise_scale(data.features, data.target, arm.model.nu)
        fits, tried = [], []
        for scale in prior_scales:
            fits.append(self._fit(scale, model_scale))
            if prior_held_out:
                tried.append([float(scale), self._score(model_scale, fits[-1].theta)])
        best = int(np.argmax([score for _, score in tried])) if tried else 0
        scale = prior_scales[best]
        modes = self._modes(scale, model_scale, fits[best])
        seconds = time.perf_counter() - started
        peak = modes.theta[0], modes.log_posterior, modes.theta, modes.shares
        return Fit(float(scale), float(model_scale), *peak, self.queries, seconds, tried, tried_model)

    def _model(self, scale: float) -> tuple[Any, Any]:
        key = None if np.isnan(scale) else scale
        if key not in self._bound:
            self._bound = {key: bind_model(self.arm.model, self.dataset, scale)}
        return self._bound[key]

    def _fit(self, prior_scale: float, model_scale: float) -> MapFit:
        model, features = self._model(model_scale)
        size = n_params(features, model.n_predictors)
        first = self.theta if self.theta.size else np.zeros(size)
        prior = with_aux(self.priors, self.priors.prior(prior_scale), model, features)
        penalty = self.priors.penalty(prior)
        normaliser = _log_prior(prior, np.zeros(size)) + penalty.of(np.zeros(size))
        if model.n_predictors == 1 or isinstance(features, WithAux):
            fit = find_newton_map(self.module, model, features, penalty, normaliser, self.theta)
        elif self.priors.SMOOTH:
            fit = find_map(self.module, model, features, penalty, normaliser, first)
        else:

            def touching(theta: np.ndarray) -> Any:
                bound = passes.touching_bound(self.module, model, features, theta)
                return dense(collapse(bound, model, features, theta))

            fit = find_lasso_map(touching, len(features.rows), prior.scale, first)
        self.queries += fit.queries
        self.theta = fit.theta
        return fit

    def _modes(self, prior_scale: float, model_scale: float, best: MapFit) -> Modes:
        """The modes, of which `best` is one."""
        if self.module.LOG_CONCAVE or self.arm.model.one_mode or self.arm.model.climbs:
            return Modes(best.theta[None], best.log_posterior, np.ones(1), 0)
        model, features = self._model(model_scale)
        prior = with_aux(self.priors, self.priors.prior(prior_scale), model, features)
        normaliser = _log_prior(prior, np.zeros(best.theta.size))
        modes = find_modes(self.module, model, features, self.priors.penalty(prior), normaliser, best)
        self.queries += modes.queries
        return modes

    def _score(self, model_scale: float, theta: np.ndarray) -> float:
        """Mean of log L at θ, (P,), over the test rows, which no chain sees."""
        data = self.dataset
        self.queries += len(data.test_target)
        model, features = self.module.rebind(
            self._model(model_scale)[0], data.test_features, data.test_target
        )
        total = passes.log_likelihoods(self.module, model, features, theta[None])[0]
        return float(total / len(features.rows))


def _read(path: Path) -> Fit | None:
    """The stored fit; None where there is none or it is damaged (it is then made again)."""
    try:
        stored = files.read_arrays(path)
    except files.DamagedFile:
        return None
    arrays = ("theta_map", "modes", "shares")
    values: Any = (stored[name] if name in arrays else stored[name].tolist() for name in Fit._fields)
    return Fit(*values)
