"""Choices of sampler, family by family, and of the rule that accepts proposals."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from flyrun.config.protocol import Budget
from flyrun.config.schema import Choice, build, chosen_by, option, ranged, show
from flyrun.errors import ConfigError

MINIBATCH = "De Sa, Chen and Wong 2018, Minibatch Gibbs Sampling on Large Graphical Models"
Estimator = Literal["auto", "faithful", "superposed"]


class Sampler(Choice):
    """A method.

    `family` names the module whose `prepare(arm, folder)` makes it runnable, `kernel` the one of its own code
    where that is not the file <name>.py of `home`. In another package both are by default where the class is.
    """

    family: ClassVar[str] = ""
    kernel: ClassVar[str] = ""
    #: kinds of model that it serves
    kinds: ClassVar[tuple[str, ...]] = ("rows",)
    #: groups that its arms need besides the model's
    needs: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = ""

    def unfit(self, arm: Any) -> str:
        """As in the base class."""
        if arm.model.kind in self.kinds:
            return ""
        fitting = chosen_by("sampler", lambda cls: arm.model.kind in getattr(cls, "kinds", ()))
        return f"sampler={self.name} and model={arm.model.name} do not fit: with this model choose {fitting}"

    @property
    def path_of_family(self) -> str:
        """Dotted name of the module that holds `prepare`."""
        return self.family or type(self).__module__

    @property
    def path_of_code(self) -> str:
        """As in the base class."""
        elsewhere = type(self).__module__.partition(".")[0] != __package__.partition(".")[0]
        return self.kernel or (type(self).__module__ if elsewhere else super().path_of_code)

    def needed_arms(self, arm: Any) -> tuple[Any, ...]:
        """Arms whose finished cells, of the same seed, this arm's method reads."""
        return ()


class ThetaUpdate(Sampler):
    """An update of θ in a chain, on all data or under Firefly Monte Carlo."""

    home: ClassVar[str] = "flyrun.samplers.chain"
    family: ClassVar[str] = "flyrun.samplers.chain.method"
    needs: ClassVar[tuple[str, ...]] = ("bound", "brightness")
    suggests: ClassVar[tuple[str, ...]] = ("bound=none",)


class SiteUpdate(Sampler):
    """An update of one variable of a graph at a time."""

    home: ClassVar[str] = "flyrun.samplers.gibbs"
    family: ClassVar[str] = "flyrun.samplers.gibbs.method"
    kinds: ClassVar[tuple[str, ...]] = ("weights", "tables", "pairs")


class Proposer(ThetaUpdate):
    """An update whose proposals any rule can accept: they are made without a look at the data."""

    needs: ClassVar[tuple[str, ...]] = (*ThetaUpdate.needs, "acceptance")
    suggests: ClassVar[tuple[str, ...]] = (*ThetaUpdate.suggests, "acceptance=exact")


@option("sampler", "random_walk")
class RandomWalk(Proposer):
    """Random-walk Metropolis; step null is tuned to `target_accept` during burn-in, a number is kept.

    metric shapes the steps: round, or as the bounds' collapsed Gaussian or the posterior's curvature is.
    """

    paper: ClassVar[str] = "Metropolis et al. 1953; step scaled to accept 0.234, Roberts et al. 1997"
    metric: Literal["identity", "bound", "hessian"] = "identity"
    target_accept: float = ranged(0.234, above=0, at_most=1)
    step: float | None = ranged(None, above=0)


@option("sampler", "mala")
class Mala(ThetaUpdate):
    """Metropolis-adjusted Langevin; step null is tuned to `target_accept` in burn-in, a number is kept.

    metric as for the random walk.
    """

    paper: ClassVar[str] = "Roberts and Tweedie 1996; accepts 0.57, Roberts and Rosenthal 1998"
    metric: Literal["identity", "bound", "hessian"] = "identity"
    target_accept: float = ranged(0.57, above=0, at_most=1)
    step: float | None = ranged(None, above=0)


@option("sampler", "hmc")
class Hmc(ThetaUpdate):
    """Hamiltonian Monte Carlo about a Gaussian: FlyMC's pseudo-prior or, without FlyMC, the one that bounds
    tight at the MAP make (metric=bound), or the one of the posterior's curvature there (hessian)."""

    paper: ClassVar[str] = "Duane et al. 1987; splitting as in Shahbaba et al. 2014; under FlyMC ours"
    metric: Literal["bound", "hessian"] = "bound"
    n_steps: int = ranged(4, at_least=1)
    jitter: float = ranged(0.2, at_least=0, at_most=0.9)
    target_accept: float = ranged(0.8, above=0, at_most=1)
    step: float | None = ranged(None, above=0)


@option("sampler", "slice")
class Slice(ThetaUpdate):
    """Slice sampling along random directions, stepping out and shrinking; width null is tuned in burn-in."""

    paper: ClassVar[str] = "Neal 2003; width tuned as in Karamanis and Beutler 2021"
    width: float | None = ranged(None, above=0)
    most_widenings: int = ranged(100, at_least=0)


@option("sampler", "elliptical_slice")
class EllipticalSlice(ThetaUpdate):
    """Elliptical slice sampling about a Gaussian, which metric names as it does for hmc."""

    paper: ClassVar[str] = "Murray, Adams and MacKay 2010; without FlyMC as in Nishihara et al. 2014"
    metric: Literal["bound", "hessian"] = "bound"


@option("sampler", "independence")
class Independence(Proposer):
    """Independence Metropolis-Hastings: proposals from a t of `freedom` degrees at the MAP."""

    paper: ClassVar[str] = "Tierney 1994"
    metric: Literal["bound", "hessian"] = "hessian"
    freedom: float = ranged(8.0, above=0)


@option("sampler", "gibbs")
class Gibbs(SiteUpdate):
    """Gibbs sampling, one variable drawn evenly at a time."""

    paper: ClassVar[str] = "Geman and Geman 1984"


@option("sampler", "min_gibbs")
class MinGibbs(SiteUpdate):
    """Algorithm 2; mean batch λ = batch·Ψ²."""

    paper: ClassVar[str] = MINIBATCH
    batch: float = ranged(1.0, above=0)
    estimator: Estimator = "auto"


@option("sampler", "local_minibatch")
class LocalMinibatch(SiteUpdate):
    """Algorithm 3, biased: `batch` of a variable's factors stand for all."""

    paper: ClassVar[str] = MINIBATCH
    batch: int = ranged(40, at_least=1)


@option("sampler", "mgpmh")
class Mgpmh(SiteUpdate):
    """Algorithm 4; mean batch λ = batch·L²."""

    paper: ClassVar[str] = MINIBATCH
    batch: float = ranged(1.0, above=0)
    estimator: Estimator = "auto"


@option("sampler", "double_min")
class DoubleMin(SiteUpdate):
    """Algorithm 5; mean batches λ₁ = batch·L² (faithful) and λ₂ = second_batch·Ψ²."""

    paper: ClassVar[str] = MINIBATCH
    batch: float = ranged(1.0, above=0)
    second_batch: float = ranged(1.0, above=0)
    estimator: Estimator = "auto"


@option("sampler", "poisson_gibbs")
class PoissonGibbs(SiteUpdate):
    """Zhang and De Sa's sampler without rejections; λ = batch·L²."""

    paper: ClassVar[str] = (
        "Zhang and De Sa 2019, Poisson-Minibatching for Gibbs Sampling with Convergence Rates"
    )
    batch: float = ranged(1.0, above=0)


class Approximation(Sampler):
    """A density in place of the posterior, or what it takes to weigh draws from one."""

    home: ClassVar[str] = "flyrun.samplers.approximations"
    family: ClassVar[str] = "flyrun.samplers.approximations.method"
    #: whether it starts from the MAP
    at_map: ClassVar[bool] = True


@option("sampler", "laplace")
class Laplace(Approximation):
    """The Laplace approximation: a Gaussian at the MAP; one iteration is all it takes."""

    paper: ClassVar[str] = "Laplace 1774; MacKay 2003, chapter 27"


@option("sampler", "importance")
class Importance(Approximation):
    """Importance sampling from a t of `freedom` degrees at the MAP, or from a Gaussian (null).

    fixed_point: steps from the MAP towards the Gaussian that is closest to the posterior, 16 passes each.
    """

    paper: ClassVar[str] = "Geweke 1989; fixed point, Opper and Archambeau 2009"
    freedom: float | None = ranged(8.0, above=0)
    fixed_point: int = ranged(0, at_least=0)


class Streamed(Approximation):
    """A density that changes batch by batch."""

    at_map: ClassVar[bool] = False


@option("sampler", "streaming_laplace")
class StreamingLaplace(Streamed):
    """A Gaussian filter: blocks of `batch` rows at most, each read once, in an order drawn for each seed."""

    paper: ClassVar[str] = "Opper 1998, with Laplace's approximation of each block"
    batch: int = ranged(16_384, at_least=1)


@option("sampler", "svi_jaakkola_jordan")
class SviJaakkolaJordan(Streamed):
    """Stochastic variational inference with Jaakkola and Jordan's bounds; rates (delay + t)^(-decay)."""

    paper: ClassVar[str] = "Jaakkola and Jordan 1997; Hoffman, Blei, Wang and Paisley 2013"
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    delay: float = ranged(1.0, at_least=1)
    decay: float = ranged(0.7, at_least=0, at_most=1)

    def unfit(self, arm: Any) -> str:
        """As in the base class; the bounds are those of the logistic likelihood."""
        if arm.model.name != "logistic":
            return f"sampler={self.name} and model={arm.model.name} do not fit: choose model=logistic"
        return super().unfit(arm)


class Subsampling(Sampler):
    """A chain of its own whose steps read batches of rows."""

    home: ClassVar[str] = "flyrun.samplers.subsampling"
    family: ClassVar[str] = "flyrun.samplers.subsampling.method"


@option("sampler", "sgld")
class Sgld(Subsampling):
    """Stochastic gradient Langevin dynamics, steps step·(delay + t)^(-decay), no acceptance test: biased."""

    paper: ClassVar[str] = "Welling and Teh 2011; Angelino, Johnson and Adams 2016, Algorithm 8"
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    step: float = ranged(1e-4, above=0)
    delay: float = ranged(1.0, above=0)
    decay: float = ranged(0.55, at_least=0, at_most=1)


class Particles(Sampler):
    """Weighted particles."""

    home: ClassVar[str] = "flyrun.samplers.particles"
    family: ClassVar[str] = "flyrun.samplers.particles.method"


@option("sampler", "pmd")
class Pmd(Particles):
    """Particle mirror descent: weighted particles, drawn anew from their kernel density now and then.

    rejuvenate: never is the paper's Strategy 1, always its Strategy 2, until its hybrid, ess ours.  schedule:
    γ = eta/(t + t0), eta/(t0 + √t), eta, or min(2/(t + 1), eta·m^(-2/(P + 4))) (Theorem 6).
    """

    paper: ClassVar[str] = (
        "Dai, He, Dai and Song 2016, Provable Bayesian Inference via Particle Mirror Descent"
    )
    particles: int = ranged(1_500, at_least=2)
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rejuvenate: Literal["never", "always", "until", "ess"] = "ess"
    until: float = ranged(0.2, at_least=0, at_most=1)
    ess: float = ranged(0.5, above=0, at_most=1)
    schedule: Literal["inverse", "root", "constant", "theorem"] = "inverse"
    eta: float = ranged(1.0, above=0)
    t0: float = ranged(0.0, at_least=0)
    adaptive: float | None = ranged(None, above=0, at_most=1)
    bandwidth: Literal["local", "theorem"] = "local"
    width: float = ranged(0.5, above=0)
    growth: Literal["fixed", "theorem"] = "fixed"
    pilot: str | None = None
    pilot_steps: int = ranged(1, at_least=1)

    def check(self) -> None:
        """As in the base class."""
        first = {"inverse": 1 + self.t0, "root": 1 + self.t0, "constant": 1.0}.get(self.schedule)
        if first is not None and self.eta > first:
            raise ConfigError(
                f"sampler.eta={self.eta:g}: makes the first step γ = {self.eta / first:.3g}, outside (0, 1]; "
                f"take sampler.eta at most {first:g}"
            )
        if self.adaptive is not None and (
            self.rejuvenate == "never" or (self.rejuvenate == "ess" and self.ess <= self.adaptive)
        ):
            raise ConfigError(
                f"sampler.adaptive={self.adaptive:g}: steps that leave that share effective soon come to 0; "
                "take sampler.rejuvenate=ess and sampler.ess above it, such as 0.75 with 0.5"
            )

    def unfit(self, arm: Any) -> str:
        """As in the base class."""
        if self.rejuvenate == "until" and arm.protocol.extend:
            return "sampler.rejuvenate=until: a share of steps that may be extended; choose ess"
        return super().unfit(arm)

    def needed_arms(self, arm: Any) -> tuple[Any, ...]:
        """The pilot, a density with mean and covariance, where one is named."""
        if self.pilot is None:
            return ()
        short = replace(arm.protocol, iterations=self.pilot_steps, burn_in=0, thin=1, budget=Budget())
        pilot = build("sampler", {"name": self.pilot})
        return (replace(arm, name=self.pilot, sampler=pilot, protocol=short),)


@option("sampler", "one_pass_smc")
class OnePassSmc(Particles):
    """Sequential Monte Carlo that looks at every row once, particles redrawn by Liu and West's kernel."""

    paper: ClassVar[str] = "Balakrishnan and Madigan 2006; kernel, Liu and West 2001"
    batches: ClassVar[str] = "epochs"
    particles: int = ranged(1_500, at_least=2)
    batch: int = ranged(10, at_least=1)
    ess: float = ranged(0.5, above=0, at_most=1)
    discount: float = ranged(0.99, above=0.34, at_most=1)


@option("sampler", "tempered_smc")
class TemperedSmc(Particles):
    """Sequential Monte Carlo from the prior to the posterior by powers of the likelihood, on all data."""

    paper: ClassVar[str] = "Del Moral, Doucet and Jasra 2006"
    particles: int = ranged(1_500, at_least=2)
    ess: float = ranged(0.5, above=0, at_most=1)
    moves: int = ranged(2, at_least=1)


class OfTheMixture(Sampler):
    """What knows the mixture of two normals."""

    def unfit(self, arm: Any) -> str:
        """As in the base class."""
        if arm.model.name == "mixture" and arm.prior is not None and arm.prior.name == "gaussian":
            return ""
        return f"sampler={self.name} is for the mixture alone: choose model=mixture and prior=gaussian"


@option("sampler", "mixture_gibbs")
class MixtureGibbs(OfTheMixture):
    """Gibbs sampling of the mixture: every datum's normal, then both means; swap tries the other mode too."""

    family: ClassVar[str] = "flyrun.samplers.gibbs.mixture_gibbs"
    home: ClassVar[str] = "flyrun.samplers.gibbs"
    paper: ClassVar[str] = "Diebolt and Robert 1994; the swap ours"
    swap: bool = False


@option("sampler", "mixture_svi")
class MixtureSvi(OfTheMixture, Streamed):
    """Stochastic variational inference of the mixture: one Gaussian for the means, batches of rows."""

    paper: ClassVar[str] = "Hoffman, Blei, Wang and Paisley 2013"
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    delay: float = ranged(1.0, at_least=1)
    decay: float = ranged(0.7, above=0.5, at_most=1)


@option("sampler", "npv")
class Npv(Streamed):
    """Nonparametric variational inference: a mixture of `components` round Gaussians, by Adam on batches."""

    paper: ClassVar[str] = "Gershman, Hoffman and Blei 2012; Adam, Kingma and Ba 2015"
    components: int = ranged(200, at_least=1)
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rate: float = ranged(0.02, above=0)


class InducingMethod(Sampler):
    """What a Gaussian process is inferred by: through inducing inputs, or given some rows."""

    home: ClassVar[str] = "flyrun.samplers.inducing"
    family: ClassVar[str] = "flyrun.samplers.inducing.method"
    kinds: ClassVar[tuple[str, ...]] = ("function",)


@option("sampler", "pmd_inducing")
class PmdInducing(InducingMethod):
    """Particle mirror descent over sets of inducing inputs with a Gaussian each; γ = (t + delay)^-decay.

    weights: the evidences of the paper's model (DTC), or bounds on that of the exact process (Titsias 2009).
    """

    paper: ClassVar[str] = "Dai, He, Dai and Song 2016, Particle Mirror Descent, Algorithm 1"
    particles: int = ranged(16, at_least=1)
    inducing: int = ranged(128, at_least=1)
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    weights: Literal["evidence", "bound"] = "evidence"
    delay: float = ranged(0.0, at_least=0)
    decay: float = ranged(1.0, above=0, at_most=1)


@option("sampler", "svi_gp")
class SviGp(InducingMethod):
    """Stochastic variational inference: one set of inducing inputs; γ = (t + delay)^-decay."""

    paper: ClassVar[str] = "Hensman, Fusi and Lawrence 2013, Gaussian Processes for Big Data"
    inducing: int = ranged(128, at_least=1)
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    delay: float = ranged(0.0, at_least=0)
    decay: float = ranged(1.0, above=0, at_most=1)


@option("sampler", "smc_inducing")
class SmcInducing(InducingMethod):
    """One-pass sequential Monte Carlo over sets of inducing inputs that stay where they are."""

    paper: ClassVar[str] = "after Balakrishnan and Madigan 2006"
    batches: ClassVar[str] = "epochs"
    particles: int = ranged(16, at_least=1)
    inducing: int = ranged(128, at_least=1)
    batch: int = ranged(500, at_least=1)


@option("sampler", "subset_of_data")
class SubsetOfData(InducingMethod):
    """The exact process on as many rows as the others have inducing inputs."""

    paper: ClassVar[str] = "Quiñonero-Candela and Rasmussen 2005, §4"
    inducing: int = ranged(128, at_least=1)


@option("sampler", "exact_gp")
class ExactGp(InducingMethod):
    """The exact process on all rows, O(N³) once: for some thousand rows."""

    paper: ClassVar[str] = "Rasmussen and Williams 2006, Algorithm 2.1"


class TopicMethod(Sampler):
    """What learns the topics of documents."""

    home: ClassVar[str] = "flyrun.samplers.topics"
    family: ClassVar[str] = "flyrun.samplers.topics.method"
    kinds: ClassVar[tuple[str, ...]] = ("documents",)


@dataclass(frozen=True)
class BatchedTopics(TopicMethod):
    """Those that learn them from a batch of documents at a time."""

    batches: ClassVar[str] = "epochs"
    batch: int = ranged(100, at_least=1)


@dataclass(frozen=True)
class SteppedTopics(BatchedTopics):
    """Those with a step a·(1 + t/b)^-c.

    step: a, b and c; null: the best of nine on the validation documents, after search_passes over the others
    each.
    """

    #: what the step may be at most
    most: ClassVar[float | None] = None
    step: tuple[float, float, float] | None = ranged(None, above=0)
    search_passes: float = ranged(5.0, above=0)

    def check(self) -> None:
        """As in the base class."""
        if self.step is not None and self.most is not None and self.step[0] > self.most:
            raise ConfigError(
                f"sampler.step={show(self.step)}: its first number, the first step, is a share and must be "
                f"at most {self.most:g}, such as [1,1,1] for 1/t"
            )


@dataclass(frozen=True)
class SampledTopics(BatchedTopics):
    """Those that deal out tokens by Gibbs sampling: `sweeps` over a batch, the last `kept` averaged."""

    sweeps: int = ranged(10, at_least=1)
    kept: int = ranged(5, at_least=1)

    def check(self) -> None:
        """As in the base class."""
        super().check()
        if self.kept > self.sweeps:
            raise ConfigError(f"sampler.kept={self.kept}: must be at most sampler.sweeps={self.sweeps}")


@option("sampler", "lda_pmd")
class LdaPmd(SampledTopics, SteppedTopics):
    """Particle mirror descent with one particle, which is sparse stochastic inference."""

    paper: ClassVar[str] = "Dai, He, Dai and Song 2016, appendix F; Mimno, Hoffman and Blei 2012"
    most: ClassVar[float | None] = 1.0


@option("sampler", "lda_svi")
class LdaSvi(SteppedTopics):
    """Stochastic variational inference of topics."""

    paper: ClassVar[str] = "Hoffman, Blei and Bach 2010; Hoffman, Blei, Wang and Paisley 2013"
    most: ClassVar[float | None] = 1.0
    most_iterations: int = ranged(100, at_least=1)
    tolerance: float = ranged(1e-3, above=0)


@option("sampler", "lda_sgrld")
class LdaSgrld(SampledTopics, SteppedTopics):
    """Stochastic gradient Riemannian Langevin dynamics of topics in the expanded-mean form."""

    paper: ClassVar[str] = "Patterson and Teh 2013"


@option("sampler", "lda_smc")
class LdaSmc(SampledTopics):
    """Sequential Monte Carlo with one particle, once through the documents."""

    paper: ClassVar[str] = "Canini, Shi and Griffiths 2009; Balakrishnan and Madigan 2006"


@option("sampler", "lda_gibbs")
class LdaGibbs(TopicMethod):
    """Collapsed Gibbs sampling; a step is a sweep over all documents."""

    paper: ClassVar[str] = "Griffiths and Steyvers 2004"
