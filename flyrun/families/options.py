"""Choices of a regression's likelihood, and what all choices of model have."""

import importlib
from typing import Any, ClassVar, Literal

from flyrun.ground import schema
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCALE, SCHEMAS, Choice, chosen_by, option, setting

#: what times with events are fitted by where no model is named
FOR_EVENTS = "weibull"


class Model(Choice):
    """A model. What its likelihood can do holds of rows; the others keep the defaults."""

    kind: ClassVar[str]
    #: which of a dataset's offset, trials and weights its likelihood takes into account
    beside: ClassVar[tuple[str, ...]] = ()
    #: whether it has lower bounds, which Firefly Monte Carlo and the search for modes take
    bounds: ClassVar[bool] = True
    #: whether it says how far its likelihoods bend within reach of a predictor
    local_bounds: ClassVar[bool] = False
    #: whether its posterior has one mode alone, which any climb ends at
    one_mode: ClassVar[bool] = False
    #: whether Newton's steps alone climb to its mode, without bounds
    climbs: ClassVar[bool] = False
    #: whether it has numbers beside the coefficients that are the same for every datum
    auxiliary: ClassVar[bool] = False
    #: whether its data have a hidden label each, given which it is Gaussian
    labelled: ClassVar[bool] = False
    #: orders of its Taylor polynomials whose remainders have bounds
    orders: ClassVar[tuple[int, ...]] = ()
    #: whether leverages make these bounds, or it has its own
    by_leverages: ClassVar[bool] = True

    @property
    def reads(self) -> str:
        """The kind of data that it takes."""
        return self.kind


class Likelihood(Model):
    """A likelihood of rows."""

    home: ClassVar[str] = "flyrun.experiments.models"
    kind: ClassVar[str] = "rows"
    needs: ClassVar[tuple[str, ...]] = ("prior",)
    suggests: ClassVar[tuple[str, ...]] = ("prior=gaussian",)
    task: ClassVar[str]
    #: whether it is a regression that `flyrun fit` offers; the first of a task is what `auto` means
    for_tables: ClassVar[bool] = False
    #: whether a refusal that names models of its task names it: not those of a special kind
    usual: ClassVar[bool] = True


def for_tables(task: str | None = None) -> list[str]:
    """Names of the regressions that `flyrun fit` offers, of one task or of all."""
    return [name for name, its in _tasks().items() if task in (None, its)]


def usual(task: str) -> list[str]:
    """Those of a task that a refusal offers: all, where none is of no special kind."""
    named = for_tables(task)
    return [name for name in named if SCHEMAS["model"][name].usual] or named  # type: ignore[attr-defined]


def tasks() -> list[str]:
    """The tasks of these regressions."""
    return list(dict.fromkeys(_tasks().values()))


def _tasks() -> dict[str, str]:
    fitting = {name: cls for name, cls in SCHEMAS["model"].items() if getattr(cls, "for_tables", False)}
    return {name: cls.task for name, cls in fitting.items()}  # type: ignore[attr-defined]


def _unmoved(model: Model, arm: Any) -> str:
    """Why an arm's sampler does not go with numbers beside the coefficients; "" where it does."""
    if arm.sampler.auxiliary:
        return ""
    fitting = chosen_by("sampler", lambda cls: getattr(cls, "auxiliary", False))
    return (
        f"sampler={arm.sampler.name}: moves coefficients alone, and model={model.name} has others; "
        f"choose one of {fitting}"
    )


def _compiled_family(name: str, home: str = "compiled_families") -> Any:
    return importlib.import_module(f"flyrun.experiments.models.{home}").of(name)


@option("model", "logistic")
class Logistic(Likelihood):
    """Logistic regression: log L_n = -log(1 + exp(-t_n θᵀx_n)), with the Jaakkola-Jordan lower bound."""

    task: ClassVar[str] = "binary"
    for_tables: ClassVar[bool] = True
    local_bounds: ClassVar[bool] = True
    orders: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)


@option("model", "probit")
class Probit(Likelihood):
    """Probit regression: log L_n = log Φ(t_n θᵀx_n), with a lower bound of curvature 1."""

    task: ClassVar[str] = "binary"
    for_tables: ClassVar[bool] = True
    orders: ClassVar[tuple[int, ...]] = (1, 2, 3)  # its slope has no bound


@option("model", "softmax")
class Softmax(Likelihood):
    """Softmax regression into classes 0 … K-1, with the Böhning lower bound.

    log L_n = η_t - log Σ exp(η_k), η = Θx_n, Θ of K rows.
    """

    task: ClassVar[str] = "classes"
    for_tables: ClassVar[bool] = True
    local_bounds: ClassVar[bool] = True
    orders: ClassVar[tuple[int, ...]] = (0, 1, 2)


@option("model", "student_t")
class StudentT(Likelihood):
    """Linear regression with Student-t noise, y_n = θᵀx_n + scale·t_nu, with the Gaussian lower bound."""

    suggests: ClassVar[tuple[str, ...]] = ("prior=laplace",)
    task: ClassVar[str] = "regression"
    for_tables: ClassVar[bool] = True
    local_bounds: ClassVar[bool] = True
    orders: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    # beyond at_most rounding eats the likelihood, which has long been the normal one
    nu: float | Literal["sampled"] = setting(
        4.0,
        "degrees of freedom, at most 1e9; from 1e4 on the noise is as good as normal; or sampled, with scale",
        at_least=1e-3,
        at_most=1e9,
    )
    scale: float | Literal["held_out", "estimated", "sampled"] = setting(
        1.0,
        "of the noise: a number, held_out: the best of the grid by test log likelihood at the MAP,"
        " estimated: of maximum likelihood, or sampled, with nu",
        **SCALE,
    )
    grid: tuple[float, ...] = setting(
        (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0),
        "scales that held_out tries",
        **SCALE,
        at_least_one=True,
    )

    def check(self) -> None:
        """As in the base class; both numbers of the noise are sampled or neither."""
        super().check()
        if self._sampled != (self.nu == "sampled"):
            raise ConfigError(
                f"model.scale={self.scale} model.nu={self.nu}: one is sampled with the other; choose "
                "model.scale=sampled model.nu=sampled, or a number for each"
            )

    @property
    def _sampled(self) -> bool:
        return self.scale == "sampled"

    @property
    def bounds(self) -> bool:  # type: ignore[override]
        """Where its noise is given."""
        return not self._sampled

    @property
    def climbs(self) -> bool:  # type: ignore[override]
        """Where its noise is sampled."""
        return self._sampled

    @property
    def auxiliary(self) -> bool:  # type: ignore[override]
        """Where its noise is sampled."""
        return self._sampled

    @property
    def path_of_code(self) -> str:
        """Of the family where its noise is sampled."""
        return f"flyrun.families.{self.name}" if self._sampled else super().path_of_code

    @property
    def code(self) -> Any:
        """The family, compiled, where its noise is sampled."""
        return _compiled_family(self.name) if self._sampled else super().code

    def unfit(self, arm: Any) -> str:
        """As in the base class; what is sampled goes with no polynomials of the likelihood."""
        if not self._sampled:
            return super().unfit(arm)
        if arm.acceptance is not None and arm.acceptance.name != "exact":
            return f"acceptance={arm.acceptance.name}: does not go with model.scale=sampled; choose exact"
        return _unmoved(self, arm)


class FamilyModel(Likelihood):
    """A likelihood of a family in models/families, compiled."""

    home: ClassVar[str] = "flyrun.families"
    for_tables: ClassVar[bool] = True
    beside: ClassVar[tuple[str, ...]] = ("offset", "weights")
    bounds: ClassVar[bool] = False
    one_mode: ClassVar[bool] = True
    climbs: ClassVar[bool] = True

    @property
    def code(self) -> Any:
        """The family, compiled, and its bounds where it has such."""
        return _compiled_family(self.name, "tangents" if self.bounds else "compiled_families")

    @classmethod
    def family(cls) -> Any:
        """The family: FAMILY of its module."""
        return schema.importer(cls().path_of_code).FAMILY

    def unfit(self, arm: Any) -> str:
        """As in the base class; the sampler must move auxiliary numbers too."""
        return (_unmoved(self, arm) if self.auxiliary else "") or super().unfit(arm)


class WithAuxiliary(FamilyModel):
    """One with numbers beside the coefficients, which are sampled with them."""

    auxiliary: ClassVar[bool] = True


@option("model", "binomial")
class Binomial(FamilyModel):
    """Successes of trials: y_n ~ Binomial(k_n, 1/(1 + exp(-θᵀx_n))); without trials one each."""

    task: ClassVar[str] = "successes"
    beside: ClassVar[tuple[str, ...]] = ("offset", "trials", "weights")


@option("model", "poisson")
class Poisson(FamilyModel):
    """Counts: y_n ~ Poisson(exp(θᵀx_n))."""

    task: ClassVar[str] = "counts"


@option("model", "negative_binomial")
class NegativeBinomial(WithAuxiliary):
    """Counts of mean mu = exp(βᵀx_n) and variance mu + mu²/phi; log phi is sampled with β."""

    task: ClassVar[str] = "counts"


@option("model", "gaussian")
class Gaussian(WithAuxiliary):
    """Linear regression with normal noise, y_n ~ N(βᵀx_n, sigma²); log sigma is sampled with β."""

    task: ClassVar[str] = "regression"


@option("model", "gamma")
class Gamma(WithAuxiliary):
    """Numbers above 0, of mean exp(βᵀx_n) and a shape whose log is sampled with β."""

    task: ClassVar[str] = "positive"


@option("model", "beta")
class Beta(WithAuxiliary):
    """Numbers between 0 and 1, of mean mu = 1/(1 + exp(-βᵀx_n)) and variance mu(1 - mu)/(1 + phi).

    log phi is sampled with β.
    """

    task: ClassVar[str] = "proportions"


@option("model", "ordinal")
class Ordinal(WithAuxiliary):
    """Classes in order: P(y_n <= k) = 1/(1 + exp(βᵀx_n - c_k)); cutpoints c are sampled with β.

    The data need no bias: cutpoints stand in for it.
    """

    task: ClassVar[str] = "ordered"


@option("model", "lognormal")
class Lognormal(WithAuxiliary):
    """Numbers above 0 with log y_n ~ N(βᵀx_n, sigma²); log sigma is sampled with β."""

    task: ClassVar[str] = "positive"
    usual: ClassVar[bool] = False


@option("model", "weibull")
class Weibull(WithAuxiliary):
    """Times with P(y_n > t) = exp(-(t/exp(βᵀx_n))^shape); log shape is sampled with β."""

    task: ClassVar[str] = "positive"
    usual: ClassVar[bool] = False


@option("model", "exponential")
class Exponential(FamilyModel):
    """Times with P(y_n > t) = exp(-t/exp(βᵀx_n))."""

    task: ClassVar[str] = "positive"
    usual: ClassVar[bool] = False


@option("model", "log_logistic")
class LogLogistic(WithAuxiliary):
    """Times with P(y_n > t) = 1/(1 + (t/exp(βᵀx_n))^shape); log shape is sampled with β."""

    task: ClassVar[str] = "positive"
    usual: ClassVar[bool] = False


@option("model", "zero_inflated_poisson")
class ZeroInflatedPoisson(WithAuxiliary):
    """Counts that are 0 with chance zi, else Poisson(exp(βᵀx_n)); the log odds of zi are sampled with β."""

    task: ClassVar[str] = "counts"
    usual: ClassVar[bool] = False


@option("model", "zero_inflated_negative_binomial")
class ZeroInflatedNegativeBinomial(WithAuxiliary):
    """Counts that are 0 with chance zi, else of mean mu = exp(βᵀx_n) and variance mu + mu²/phi."""

    task: ClassVar[str] = "counts"
    usual: ClassVar[bool] = False


@option("model", "hurdle_poisson")
class HurdlePoisson(WithAuxiliary):
    """Counts that are 0 with chance hu, else Poisson(exp(βᵀx_n)) without its zeros."""

    task: ClassVar[str] = "counts"
    usual: ClassVar[bool] = False


@option("model", "hurdle_negative_binomial")
class HurdleNegativeBinomial(WithAuxiliary):
    """Counts that are 0 with chance hu, else negative binomial, of exp(βᵀx_n) and phi, without zeros."""

    task: ClassVar[str] = "counts"
    usual: ClassVar[bool] = False


@option("model", "hurdle_gamma")
class HurdleGamma(WithAuxiliary):
    """Numbers that are 0 with chance hu, else gamma, of mean exp(βᵀx_n) and shape."""

    task: ClassVar[str] = "amounts"
    usual: ClassVar[bool] = False


@option("model", "hurdle_lognormal")
class HurdleLognormal(WithAuxiliary):
    """Numbers that are 0 with chance hu, else log y_n ~ N(βᵀx_n, sigma²)."""

    task: ClassVar[str] = "amounts"
    usual: ClassVar[bool] = False


@option("model", "tweedie")
class Tweedie(WithAuxiliary):
    """Amounts from 0, of mean mu = exp(βᵀx_n) and variance phi·mu^power, 1 < power < 2."""

    task: ClassVar[str] = "amounts"
    usual: ClassVar[bool] = False


@option("model", "beta_binomial")
class BetaBinomial(WithAuxiliary):
    """Successes of trials whose chance is a beta variable of mean 1/(1 + exp(-βᵀx_n)) and phi, as in beta."""

    task: ClassVar[str] = "successes"
    usual: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ("offset", "trials", "weights")


@option("model", "inverse_gaussian")
class InverseGaussian(WithAuxiliary):
    """Numbers above 0, of mean mu = exp(βᵀx_n) and variance mu³/lambda; log lambda is sampled with β."""

    task: ClassVar[str] = "positive"
    usual: ClassVar[bool] = False
