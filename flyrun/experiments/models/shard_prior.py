"""A shard's part of the prior, prior^{1/J}: by its family where that has its powers, else its density's."""

from typing import Any, NamedTuple

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.aux_prior import AuxPrior, Beside
from flyrun.experiments.models.base_density import Penalty, draw_base, log_base
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import implements


class Powered(NamedTuple):
    """A prior's density raised to a power, not normalised."""

    prior: Any
    exponent: float


@implements(log_base, Powered)
def _log_powered(base, theta, gradient):
    # what is there already is put aside in the prior's own units
    if gradient is not None:
        for d in range(theta.shape[0]):
            gradient[d] /= base.exponent
    value = base.exponent * log_base(base.prior, theta, gradient)
    if gradient is not None:
        for d in range(theta.shape[0]):
            gradient[d] *= base.exponent
    return value


# only where a chain starts: what the prior itself could draw
implements(draw_base, Powered)(lambda base, rng, out: draw_base(base.prior, rng, out))


class Part:
    """Stands for a prior's module, whose `prior` is the prior to a power."""

    def __init__(self, arm: Arm, exponent: float):
        self.name, self.code, self.exponent = arm.prior.name, arm.prior.code, exponent
        self.SMOOTH = self.code.SMOOTH

    def prior(self, scale: float) -> Any:
        """The prior of this scale to the power."""
        power = getattr(self.code, "power", None)
        if power is not None:
            return self.code.prior(power(scale, self.exponent))
        return Powered(self.code.prior(scale), self.exponent)

    def penalty(self, prior: Any) -> Penalty:
        """What the prior takes off the log density."""
        if not isinstance(prior, Powered):
            return self.code.penalty(prior)
        whole = self.code.penalty(prior.prior)
        return Penalty(prior.exponent * whole.ridge, prior.exponent * whole.rate)

    def pseudo_prior(self, prior: Any, bounds: Any) -> Any:
        """The prior times collapsed bounds. ConfigError where only its density is raised."""
        if isinstance(prior, Powered):
            raise ConfigError(
                f"prior={self.name}: bounds make no pseudo-prior of a shard's part of it, for it has no "
                f"power(scale, exponent) in {self.code.__name__}; choose bound=none sampler.metric=hessian"
            )
        return self.code.pseudo_prior(prior, bounds)


class WithAux:
    """Stands for the coefficients' prior's module, where a model has auxiliary numbers beside them."""

    def __init__(self, of_coefficients: Any, exponent: float):
        self.inner, self.exponent, self.SMOOTH = of_coefficients, exponent, of_coefficients.SMOOTH

    def prior(self, scale: float) -> Any:
        """The prior of the coefficients."""
        return self.inner.prior(scale)

    def beside(self, prior: Any, aux: AuxPrior, size: int) -> Beside:
        """The prior of size coefficients and of the auxiliary numbers, this one to the power."""
        return Beside(prior, aux.power(self.exponent), size)

    def penalty(self, prior: Beside) -> Penalty:
        """What the prior takes off the log density."""
        return self.inner.penalty(prior.coefficients)._replace(size=prior.size, aux=prior.aux)


def with_aux(priors: Any, prior: Any, model: Any, features: Any) -> Any:
    """The prior of a bound model's θ, from the one of its coefficients."""
    return priors.beside(prior, model.aux, features.rows.shape[1]) if isinstance(priors, WithAux) else prior


def priors_of(arm: Arm, shards: float | None = None) -> Any:
    """The prior's module, or its `Part` for one of J `shards`: as a rule those of an arm that raises it."""
    if shards is None:
        shard = arm.dataset.shard
        shards = shard[1] if shard is not None and arm.dataset.shards_power == "prior" else 1.0
    prior = arm.prior.code if shards == 1.0 else Part(arm, 1.0 / shards)
    return WithAux(prior, 1.0 / shards) if arm.model.auxiliary else prior
