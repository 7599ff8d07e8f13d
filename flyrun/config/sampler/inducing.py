"""Inference of Gaussian processes."""

from typing import ClassVar, Literal

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, ranged


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
