"""Inference of Gaussian processes."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.schema import option, setting


class InducingMethod(Sampler):
    """What a Gaussian process is inferred by: through inducing inputs, or given some rows."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.inducing.inducing_sets"
    family: ClassVar[str] = "flyrun.experiments.samplers.inducing.method"
    kinds: ClassVar[tuple[str, ...]] = ("function",)


@dataclass(frozen=True)
class Descending(InducingMethod):
    """Steps of γ = (t + delay)^-decay by batches of rows."""

    inducing: int = setting(128, "inducing inputs of a set, drawn from the rows' inputs", at_least=1)
    batch: int = setting(500, "rows read in a step", at_least=1)
    batches: Literal["epochs", "replacement"] = setting(
        "epochs", "each row once an epoch; replacement: drawn anew for every step"
    )
    delay: float = setting(
        0.0,
        "t₀ of γ = (t + t₀)^-decay; 0: the prior is forgotten in the first step as Bayes' rule has it",
        at_least=0,
    )
    decay: float = setting(
        1.0, "1: all batches count alike; below 1 late ones count more", above=0, at_most=1
    )


@option("sampler", "pmd_inducing")
class PmdInducing(Descending):
    """Particle mirror descent over sets of inducing inputs of a Gaussian process, with a Gaussian each.

    γ = (t + delay)^-decay. weights: the evidences of the paper's model (DTC), or bounds on that of the
    exact process (Titsias 2009).
    """

    paper: ClassVar[str] = "Dai, He, Dai and Song 2016, Particle Mirror Descent, Algorithm 1"
    particles: int = setting(16, "sets of inducing inputs", at_least=1)
    weights: Literal["evidence", "bound"] = setting(
        "evidence", "bound: less what a set of inducing inputs leaves unexplained; ours"
    )


@option("sampler", "svi_gp")
class SviGp(Descending):
    """Stochastic variational inference for a Gaussian process, with one set of inducing inputs.

    γ = (t + delay)^-decay.
    """

    paper: ClassVar[str] = "Hensman, Fusi and Lawrence 2013, Gaussian Processes for Big Data"


@option("sampler", "smc_inducing")
class SmcInducing(InducingMethod):
    """One-pass sequential Monte Carlo over sets of inducing inputs, which stay where they are."""

    paper: ClassVar[str] = "after Balakrishnan and Madigan 2006"
    batches: ClassVar[str] = "epochs"
    particles: int = setting(16, "sets of inducing inputs, drawn from the rows' inputs", at_least=1)
    inducing: int = setting(128, "inputs in a set", at_least=1)
    batch: int = setting(500, "rows read in a step", at_least=1)


@option("sampler", "subset_of_data")
class SubsetOfData(InducingMethod):
    """The exact Gaussian process on as many rows as the others have inducing inputs."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.inducing.exact_gp"
    paper: ClassVar[str] = "Quiñonero-Candela and Rasmussen 2005, §4"
    inducing: int = setting(128, "rows, those whose inputs are the others' first inducing inputs", at_least=1)


@option("sampler", "exact_gp")
class ExactGp(InducingMethod):
    """The exact Gaussian process on all rows, O(N³) once: for some thousand rows."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.inducing.exact_gp"
    paper: ClassVar[str] = "Rasmussen and Williams 2006, Algorithm 2.1"
