"""The families of models/families as likelihoods of the runner: their densities compiled, a row at a time.

A family's functions are plain NumPy of numbers or arrays. Compiled code calls the same functions with
numbers, so that a density is written once. Of each family and number of predictors there is a NamedTuple
type, made when it is first asked for.
"""

import functools
import inspect
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload, register_jitable

from flyrun.experiments.models.aux_prior import AuxPrior
from flyrun.experiments.models.features import Linear
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.likelihood import part as part_of_rows
from flyrun.experiments.models.probit import value_and_slope
from flyrun.experiments.models.with_aux import WithAux
from flyrun.families import family as families
from flyrun.families.family import Family
from flyrun.ground.numerics import special, wright
from flyrun.ground.numerics.compile_cache import IMPLEMENTATIONS
from flyrun.ground.numerics.compiled import INLINE_KERNEL, implements


def _log_gamma(x):
    return math.lgamma(x)


def _digamma(x):
    less = 0.0
    for _ in range(8):
        if x < 8.0:
            less += 1.0 / x
            x += 1.0
    f = 1.0 / (x * x)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * 691 / 32760)))))
    return math.log(x) - 0.5 / x - series - less


def _trigamma(x):
    more = 0.0
    for _ in range(8):
        if x < 8.0:
            more += 1.0 / (x * x)
            x += 1.0
    f = 1.0 / (x * x)
    series = 1 / 6 - f * (1 / 30 - f * (1 / 42 - f * (1 / 30 - f * (5 / 66 - f * (691 / 2730 - f * 7 / 6)))))
    return more + 1.0 / x + f * (0.5 + series / x)


def _sigmoid(x):
    small = math.exp(-abs(x))
    return (1.0 if x > 0.0 else small) / (1.0 + small)


def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log_normal_cdf(x):
    return value_and_slope(x)[0]


def _mills(x):
    return value_and_slope(x)[1]


def _choose(condition, yes, no):
    return yes if condition else no


def _erf(x):
    return math.erf(x)


def _erfc(x):
    return math.erfc(x)


@register_jitable(**INLINE_KERNEL)
def _wright_terms(z, alpha):
    """As of wright's `_window`: the largest term's j, about, the first j, step and number of terms."""
    top = math.exp(min((z - alpha * math.log(alpha)) / (1.0 + alpha), 300.0))
    sd, step = math.sqrt(top / (1.0 + alpha)), 1.0
    if (1.0 + alpha) * top >= wright.SMOOTH:
        step = max(1.0, np.floor(sd * wright.STEP))
    first = max(1.0, np.floor(top - wright.FAR * sd - 2.0))
    number = int(np.floor((top + wright.FAR * sd + 6.0 - first) / step)) + 1
    return max(np.rint(top), 1.0), first, step, number


@register_jitable(**INLINE_KERNEL)
def _largest_term(top, z, alpha):
    """The log of the largest term, as of wright's `_Each`."""
    level = -math.inf
    for away in range(3):
        j = max(top + away - 1.0, 1.0)
        level = max(level, j * z - math.lgamma(j + 1.0) - math.lgamma(j * alpha))
    return level


def _log_wright(z, alpha):
    if not z > -math.inf:
        return 0.0
    top, first, step, number = _wright_terms(z, alpha)
    level = _largest_term(top, z, alpha)
    total = 0.0
    for k in range(number):
        j = first + k * step
        total += math.exp(j * z - math.lgamma(j + 1.0) - math.lgamma(j * alpha) - level)
    return level + math.log(total * step)


def _wright_derivatives(z, alpha):
    if not z > -math.inf:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    top, first, step, number = _wright_terms(z, alpha)
    level = _largest_term(top, z, alpha)
    middle = top * alpha * special.digamma(top * alpha)
    total, by_z, by_a, zz, za, aa, more = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(number):
        j = first + k * step
        at = j * alpha
        weight = math.exp(j * z - math.lgamma(j + 1.0) - math.lgamma(at) - level)
        away, slope = j - top, middle - at * special.digamma(at)
        total += weight
        by_z += weight * away
        by_a += weight * slope
        zz += weight * away * away
        za += weight * away * slope
        aa += weight * slope * slope
        more += weight * at * at * special.trigamma(at)
    by_z, by_a, rise = by_z / total, by_a / total, by_a / total - middle
    spread = zz / total - by_z * by_z, za / total - by_z * by_a, aa / total - by_a * by_a
    log_w = level + math.log(total * step)
    return log_w, top + by_z, rise, spread[0], spread[1], spread[2] + rise - more / total


_OF_NUMBERS: dict[Callable, Callable] = {
    special.choose: _choose,
    wright.log_wright: _log_wright,
    wright.wright_derivatives: _wright_derivatives,
    special.log_gamma: _log_gamma,
    special.digamma: _digamma,
    special.trigamma: _trigamma,
    special.sigmoid: _sigmoid,
    special.softplus: _softplus,
    special.log_normal_cdf: _log_normal_cdf,
    special.mills: _mills,
    special.erf: _erf,
    special.erfc: _erfc,
}


def _serve(function: Callable, body: Callable) -> None:
    parameters = ", ".join(inspect.signature(body).parameters)  # numba wants a typer of the same
    typer = eval(f"lambda {parameters}: body", {"body": body})
    overload(function, jit_options=INLINE_KERNEL)(typer)


for _function, _body in _OF_NUMBERS.items():
    _serve(_function, _body)


class OfFamily(NamedTuple):
    """A family's likelihoods. Derived from for each family: compiled code knows it by its type."""

    numbers: np.ndarray  # (N, 4): y, trials, offset and weight of a row side by side
    n_predictors: int
    aux: AuxPrior | None  # of its auxiliary numbers

    @property
    def names(self) -> tuple[str, ...]:
        """Of its auxiliary numbers as they are sampled: of a logarithm log_phi."""
        each = self.family.auxiliary(self.n_predictors, 1.0)  # type: ignore[attr-defined]
        return tuple(number.sampled for number in each)


class Compiled:
    """A family as the runner knows a model's module."""

    def __init__(self, family: Family):
        self.family, self.LOG_CONCAVE = family, family.one_mode
        for function in _functions(family):
            _register(function)

    def bind(
        self,
        features: np.ndarray,
        target: np.ndarray,
        offset: np.ndarray | None = None,
        trials: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> tuple[Any, Any]:
        """Model and features of a dataset. features: (N, D); target and what rows have besides: (N,)."""
        rows, family = np.ascontiguousarray(features), self.family
        numbers = np.empty((len(target), 4))
        for column, (given, usual) in enumerate(
            ((target, 0.0), (trials, 1.0), (offset, 0.0), (weights, 1.0))
        ):
            numbers[:, column] = usual if given is None else given
        if family.domain.classes == 2 and not family.mirrored:  # labels are -1 and 1
            numbers[:, 0] = numbers[:, 0] > 0.0
        y = numbers[:, 0]
        levels = int(y.max()) + 1 if family.domain.classes > 2 else 0
        auxiliary = family.auxiliary(levels, float(np.std(y)) or 1.0)
        aux = AuxPrior.of_each([number.prior for number in auxiliary]) if auxiliary else None
        kind = _kind(family.name, 1 + len(auxiliary))
        return kind(numbers, 1 + len(auxiliary), aux), WithAux(rows) if auxiliary else Linear(rows)

    def rebind(self, model: OfFamily, features: np.ndarray, target: np.ndarray) -> tuple[Any, Any]:
        """The same likelihood for other rows, (n, D), of one trial and no offset each."""
        bound = self.bind(features, target)
        return bound[0]._replace(aux=model.aux), bound[1]

    def part(self, model: OfFamily, which: slice | np.ndarray) -> Any:
        """The likelihood of some of the rows, a slice or indices (n,)."""
        return part_of_rows(model, which)

    def start(self, model: OfFamily, features: Linear | WithAux) -> np.ndarray:
        """Where a search for the mode begins, (P,): as if no column mattered."""
        y, trials, offset, weights = model.numbers.T
        first = self.family.start(y, trials, offset, weights)
        theta = np.zeros(features.rows.shape[1] + len(first) - 1)
        if self.family.intercept and (features.rows[:, -1] == 1.0).all():
            theta[features.rows.shape[1] - 1] = first[0]
        theta[features.rows.shape[1] :] = first[1:]
        return theta

    def curvature(self, model: OfFamily, predictors: np.ndarray) -> np.ndarray:
        """−∂² log L_n/∂(η, a)², (N, K, K), at predictors (N, K)."""
        y, trials, offset, weights = model.numbers.T
        p = (predictors[:, 0] + offset, *predictors[:, 1:].T)
        curvatures = np.empty((len(y), len(p), len(p)))
        with np.errstate(over="ignore", invalid="ignore"):
            _, bends = self.family.derivatives(y, trials, p)
            for k, row in enumerate(bends):
                for m, bend in enumerate(row):
                    curvatures[:, k, m] = bend
            if self.family.alone_derivatives is not None:
                _, bends = self.family.alone_derivatives(y, trials, p[1:])
                for k, row in enumerate(bends, 1):
                    for m, bend in enumerate(row, 1):
                        curvatures[:, k, m] += bend
            return curvatures * weights[:, None, None]


_register = functools.cache(register_jitable(**INLINE_KERNEL))


def _functions(family: Family) -> list[Callable]:
    """What compiled code may call of a family: density, derivatives, what else their files have."""
    parts = (family.log_density, family.derivatives, family.alone, family.alone_derivatives)
    wanted = [function for function in parts if function is not None]
    called = [f.__globals__.get(name) for f in wanted for name in f.__code__.co_names]
    wanted += [f for f in called if inspect.isfunction(f) and f.__module__ != special.__name__]
    files = {f.__module__ for f in wanted}.union(*(_files(sys.modules[f.__module__]) for f in wanted))
    others = {family.start, family.draw, family.auxiliary, family.read, family.linear, family.mean}
    scopes = [f.__globals__ for f in wanted] + [vars(sys.modules[file]) for file in sorted(files)]
    values = [*wanted, *(value for scope in scopes for value in scope.values())]
    functions = dict.fromkeys(value for value in values if inspect.isfunction(value))
    return [f for f in functions if f.__module__ in files and f not in others]


def _files(module: ModuleType) -> set[str]:
    """Of a family, with the families and helpers that it calls."""
    home = families.__name__.rpartition(".")[0]
    called = (value for value in vars(module).values() if inspect.ismodule(value))
    parts = (_files(value) for value in called if value.__name__.rpartition(".")[0] == home)
    return {module.__name__}.union(*parts)


@functools.cache
def of(name: str) -> Compiled:
    """The family of this name."""
    return Compiled(families.family(name))


@functools.cache
def _kind(name: str, k: int) -> type:
    """The NamedTuple type of a family's likelihoods with so many predictors, its kernel registered."""
    title, family = _title(name) + str(k), of(name).family
    kind = type(title, (OfFamily,), {"__slots__": (), "__module__": __name__, "family": family})
    globals()[title] = kind
    implements(log_likelihood, kind)(_kernel(family, k))
    IMPLEMENTATIONS[kind].add((log_likelihood.__module__, family.log_density.__module__))
    return kind


def _kernel(family: Family, k: int) -> Callable:
    """`log_likelihood` of a family with k predictors."""
    log_density, alone, derivatives = family.log_density, family.alone, family.derivatives
    predictors, of_alone = _tuple_of(k), family.alone_derivatives or _no_derivatives
    auxiliary = k - 1 if family.alone_derivatives else 0
    if (slopes_into := family.slopes_into) is not None:

        def into(model, index, eta, values, slopes):
            for i in range(index.shape[0]):
                n = index[i]
                y, trials = model.numbers[n, 0], model.numbers[n, 1]
                p, weight = predictors(eta, i, model.numbers[n, 2]), model.numbers[n, 3]
                values[i] = weight * log_density(y, trials, p)
                if slopes is not None:
                    slopes_into(y, trials, p, slopes[i])
                    for m in range(k):
                        slopes[i, m] *= weight

        return into

    def body(model, index, eta, values, slopes):
        for i in range(index.shape[0]):
            n = index[i]
            y, trials = model.numbers[n, 0], model.numbers[n, 1]
            p, weight = predictors(eta, i, model.numbers[n, 2]), model.numbers[n, 3]
            values[i] = weight * (log_density(y, trials, p) + alone(y, trials, p[1:]))
            if slopes is not None:
                rises = derivatives(y, trials, p)[0]
                for m in range(k):
                    slopes[i, m] = weight * rises[m]
                of_others = of_alone(y, trials, p[1:])[0]
                for m in range(auxiliary):
                    slopes[i, m + 1] += weight * of_others[m]

    return body


@register_jitable(**INLINE_KERNEL)
def _no_derivatives(y, trials, a):
    """Of a family all of whose density has η in it."""
    return (0.0,), ((0.0,),)


def _tuple_of(k: int) -> Callable:
    """A function that gives a datum's k predictors as a tuple: compiled code must know how long one is."""
    scope: dict[str, Callable] = {}
    others = "".join(f", eta[i, {m}]" for m in range(1, k))
    exec(f"def predictors(eta, i, offset):\n    return (eta[i, 0] + offset{others},)\n", scope)
    return register_jitable(**INLINE_KERNEL)(scope["predictors"])


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def __getattr__(title: str) -> type:
    """A type by its own name, as stored compiled code asks for it."""
    for name in families.names():
        stem = _title(name)
        if title.startswith(stem) and title[len(stem) :].isdigit():
            return _kind(name, int(title[len(stem) :]))
    raise AttributeError(title)
