"""What a family of regression models says of itself, once, for numbers and arrays alike.

A datum has K predictors p_1 … p_K, none of them bounded. The first are linear predictors, a row times its
coefficients plus the row's offset; the others are auxiliary numbers, alike for all rows unless a formula
gives them columns of their own: linear predictors whose design is the column of ones.
log L = w·[log_density(y, trials, p) + alone(y, trials, a)] up to terms
of y alone; w counts how often a row is there.

Functions take y, trials and each predictor as numbers or arrays that broadcast together, and work element by
element. A file of flyrun/families holds one family, FAMILY; its name is the file's.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from flyrun.families.cutpoint_priors import OfCutpoints
from flyrun.families.domains import Domain
from flyrun.families.options import FamilyModel
from flyrun.families.prior_densities import LogGamma as LogGamma
from flyrun.families.prior_densities import Normal as Normal
from flyrun.families.prior_densities import Prior
from flyrun.ground.numerics.special import Numbers
from flyrun.ground.schema import SCHEMAS, Choice

#: the scale on which coefficients add up; of "own" the family says the mean
Link = Literal["identity", "log", "logit", "probit", "cloglog", "cauchit", "own"]
Derivatives = tuple[tuple[Numbers, ...], tuple[tuple[Numbers, ...], ...]]


class Auxiliary(NamedTuple):
    """An auxiliary number. name: of what people read, as phi; prior: of a; own: the name of a, where it is
    not as `sampled` makes it; of: what a is of what people read, where the prior is not of that itself.
    """

    name: str
    prior: Prior
    own: str = ""
    of: str = ""

    @property
    def sampled(self) -> str:
        """The name of a."""
        return self.own or "_".join(filter(None, [self.prior.of, self.name]))

    @property
    def scale(self) -> str:
        """What a is of what people read: "log", "logit" or, of itself or of what `of` says, ""."""
        if self.prior.of:
            return self.prior.of
        return next((kind for kind in ("log", "logit") if self.of == f"of {kind} {self.name}"), "")


def _nothing(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    return 0.0


def _no_auxiliary(levels: int, sd: float) -> tuple[Auxiliary, ...]:
    return ()


def exponentials(a: np.ndarray) -> np.ndarray:
    """What people read, (..., A), of auxiliary numbers a, (..., A), that are all logarithms."""
    return np.exp(a)


class Known(NamedTuple):
    """Auxiliary numbers that are constants. inner: the family that has them all; values: as people read them,
    by name; sampled: all numbers on the scale on which they are sampled, (A,), where they are known.
    """

    inner: "Family"
    values: Mapping[str, float]
    sampled: np.ndarray


@dataclass(frozen=True)
class Family:
    """One family.

    words: what a fit is called, as "Poisson regression". domain: what its target may hold.
    log_density(y, trials, p): the part that depends on linear predictors.
    derivatives(y, trials, p): its slopes by p, K of them, and minus its second derivatives, K by K.
    second_order(y, trials, p): both at once, where they share much of their work.
    alone(y, trials, a), alone_derivatives(y, trials, a): the same of the part that depends on auxiliary
    numbers alone, apart so that rows of equal y and trials share it.
    slopes_into(y, trials, p, out): its slopes by p into out[0], out[1] …, for a family whose number of
    predictors the data decide; nothing is apart from it.
    alone_of_logs: whether that is smooth in log y, y > 0: with nodes 1/1,024 apart to 1e-9.
    auxiliary(levels, sd): the auxiliary numbers of a target of so many levels (0 of numbers) and this sd.
    linear(levels): how many linear predictors there are.
    contrasts(levels): what takes linear predictors, K of them, to those that people read, (K, K), each a
    difference of two that have the same prior; None where they are the same.
    start(y, trials, offset, weights): predictors to begin a search from, as if no column mattered, (K,).
    read(a): what people read of auxiliary numbers, (..., A); names are the auxiliary ones'.
    unread(read): auxiliary numbers of what is read of them, the inverse of that.
    constant(y, trials): what log_density and alone leave out, terms of y alone.
    draw(rng, trials, p): targets y at predictors.
    mean(trials, p): the expected target; None: the inverse of the link, a trial.
    log_survival(y, p), log_survival_derivatives(y, p): of P(a target is beyond y), precise also where that is
    near 1; None: its targets are neither censored nor truncated.
    events: whether log_density where trials are 0 is log_survival; they are 1 of a target that was seen.
    intercept: whether rows have the column of ones; cutpoints stand in for it.
    of_cutpoints: the prior of all auxiliary numbers together, where some are typed; None: each has its own.
    one_mode: whether log_density and alone are concave, so that the posterior has one mode.
    by_sums: whether sums over rows are all that the likelihood needs, as of normal noise.
    outliers: whether rows far off count little: a few rows fitted exactly may make a mode of their own.
    of_logs: whether its noise is of the target's log, so that one target decides little.
    grouped: whether log_density is concave by η alone, so that effects of groups are integrated out of it.
    precise: of averages of w targets alike the number whose log is higher by so many times log w, and that
    many, as ("sigma", -0.5); None where these are of another family.
    cumulant: A, where log_density = y·η − A(η) of each trial: "exp" e^η, "softplus" log(1 + e^η); else "".
    mirrored: of two labels, whether one is
    the other at −η. parabolas: whether minus the second derivative by η is at most some κ of each row, so
    that Firefly's bounds are parabolas of it; largest(y, trials): κ, (n,), where it is known.
    known: which auxiliary numbers are constants; None: none is.
    """

    name: str
    words: str
    domain: Domain
    link: Link
    log_density: Callable[[Numbers, Numbers, Sequence[Numbers]], Numbers]
    derivatives: Callable[[Numbers, Numbers, Sequence[Numbers]], Derivatives]
    start: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, Numbers, Sequence[Numbers]], Numbers]
    auxiliary: Callable[[int, float], tuple[Auxiliary, ...]] = _no_auxiliary
    alone: Callable[[Numbers, Numbers, Sequence[Numbers]], Numbers] = _nothing
    alone_derivatives: Callable[[Numbers, Numbers, Sequence[Numbers]], Derivatives] | None = None
    alone_of_logs: bool = False
    second_order: Callable[[Numbers, Numbers, Sequence[Numbers]], tuple[Numbers, Derivatives]] | None = None
    slopes_into: Callable[[Numbers, Numbers, Sequence[Numbers], np.ndarray], None] | None = None
    read: Callable[[np.ndarray], np.ndarray] = exponentials
    unread: Callable[[np.ndarray], np.ndarray] = np.log
    mean: Callable[[Numbers, Sequence[Numbers]], Numbers] | None = None
    log_survival: Callable[[Numbers, Sequence[Numbers]], Numbers] | None = None
    log_survival_derivatives: Callable[[Numbers, Sequence[Numbers]], Derivatives] | None = None
    events: bool = False
    constant: Callable[[np.ndarray, Numbers], np.ndarray | float] = lambda y, trials: 0.0
    linear: Callable[[int], int] = lambda levels: 1
    contrasts: Callable[[int], np.ndarray] | None = None
    intercept: bool = True
    of_cutpoints: OfCutpoints | None = None
    one_mode: bool = True
    by_sums: bool = False
    outliers: bool = False
    of_logs: bool = False
    grouped: bool = False
    precise: tuple[str, float] | None = None
    cumulant: Literal["", "exp", "softplus"] = ""
    mirrored: bool = True
    parabolas: bool = False
    largest: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    known: Known | None = None

    @property
    def of_noise(self) -> bool:
        """Whether its first auxiliary number is the noise's scale, in units of the target."""
        known = self.known and self.known.inner.auxiliary(0, 1.0)[0].name in self.known.values
        return self.link == "identity" and not known

    @property
    def target(self) -> str:
        """The name of its domain, a dataset's task."""
        return self.domain.name

    def to_second_order(
        self, y: Numbers, trials: Numbers, p: Sequence[Numbers]
    ) -> tuple[Numbers, Derivatives]:
        """log_density and derivatives."""
        if self.second_order is None:
            return self.log_density(y, trials, p), self.derivatives(y, trials, p)
        return self.second_order(y, trials, p)

    def in_units(self, sd: float) -> "Family":
        """The same of targets that are divided by sd, numbers that are known with them."""
        if self.known is None:
            return self
        return importlib.import_module("flyrun.families.known_numbers").known(*self.known[:2], sd)

    def by_weights(self, weights: np.ndarray) -> np.ndarray:
        """What precision weights (N,) add to the log of the number that they scale, (N,)."""
        assert self.precise is not None
        return self.precise[1] * np.log(weights)

    def in_one_part(self, levels: int) -> "Family":
        """The same with nothing apart: auxiliary numbers of a target of so many levels differ by row."""
        apart, apart_derivatives, n = self.alone, self.alone_derivatives, self.linear(levels)
        if apart_derivatives is None:
            return replace(self, by_sums=False, grouped=False)

        def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
            return self.log_density(y, trials, p) + apart(y, trials, p[n:])

        def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
            slopes, curvatures = self.derivatives(y, trials, p)
            more, bent = apart_derivatives(y, trials, p[n:])
            both = range(len(p))
            return (
                tuple(slopes[j] + more[j - n] if j >= n else slopes[j] for j in both),
                tuple(
                    tuple(
                        curvatures[j][k] + bent[j - n][k - n] if min(j, k) >= n else curvatures[j][k]
                        for k in both
                    )
                    for j in both
                ),
            )

        return replace(
            self,
            log_density=log_density,
            derivatives=derivatives,
            second_order=None,
            alone=_nothing,
            alone_derivatives=None,
            by_sums=False,
            grouped=False,
        )


def names() -> list[str]:
    """The families there are: one a file, and those of other packages."""
    return sorted(_files() | {name for name, cls in SCHEMAS["model"].items() if _brings(cls)})


def family(name: str) -> Family:
    """The family of flyrun/families/<name>.py, or another package's; of links.py, as binomial(cloglog), or of
    known_numbers.py, as tweedie(power=1.5).

    ConfigError where that cannot be one.
    """
    if name.endswith(")"):
        inner, _, inside = name[:-1].rpartition("(")
        if "=" not in inside:
            return importlib.import_module("flyrun.families.links").linked(family(inner), inside)
        pairs = (pair.split("=") for pair in inside.split(", "))
        values = {number: float(value) for number, value in pairs}
        return importlib.import_module("flyrun.families.known_numbers").known(family(inner), values)
    if name not in _files() and name in SCHEMAS["model"]:
        return SCHEMAS["model"][name].family()  # type: ignore[attr-defined]
    return importlib.import_module(f"flyrun.families.{name}").FAMILY


#: files that hold no family
_SHARED = {"censoring", "domains", "family", "links", "one_function", "options", "rising", "tails", "zeros"}
_SHARED |= {"bounded_priors", "cutpoint_priors", "known_numbers", "prior_densities", "prior_kinds"}


def with_link(name: str, link: str | None) -> str:
    """What `family` takes for a family of this name with this link; None for its own."""
    return f"{name}({link})" if link else name


@functools.cache
def _files() -> frozenset[str]:
    files = {path.stem for path in Path(__file__).parent.glob("[a-z]*.py")}
    return frozenset(files - _SHARED)


def _brings(cls: type[Choice]) -> bool:
    return issubclass(cls, FamilyModel) and not cls.__module__.startswith("flyrun.")
