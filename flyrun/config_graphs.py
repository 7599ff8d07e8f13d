"""Choices for graphical models: graphs, their factors, samplers that draw one variable at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from flyrun.errors import ConfigError
from flyrun.schema import Choice, option, ranged

MINIBATCH = "De Sa, Chen and Wong 2018, Minibatch Gibbs Sampling on Large Graphical Models"
_MOST = 1 << 26  # numbers of one kind that a generated graph may hold: half a gigabyte
Estimator = Literal["auto", "faithful", "superposed"]


@dataclass(frozen=True)
class _Graph(Choice):
    """A dataset that is a graph; `kind` says what its factors are: weights of pairs, or tables."""

    kind: ClassVar[str] = "weights"


@option("dataset", "grid")
@dataclass(frozen=True)
class Grid(_Graph):
    """side × side variables, every pair of weight exp(-gamma·distance²)."""

    name: str = "grid"
    side: int = ranged(20, at_least=2, at_most=200)
    gamma: float = ranged(1.5, above=0)


@option("dataset", "edge_list")
@dataclass(frozen=True)
class EdgeList(_Graph):
    """A CSV file of edges i,j,weight; variables are numbered from 0."""

    name: str = "edge_list"
    path: str | None = None
    sum_duplicates: bool = False


@option("dataset", "uai")
@dataclass(frozen=True)
class Uai(_Graph):
    """A file in the UAI format: a Markov network of tables."""

    kind: ClassVar[str] = "tables"
    name: str = "uai"
    path: str | None = None


@option("dataset", "random_factors")
@dataclass(frozen=True)
class RandomFactors(_Graph):
    """Generated: each variable in `degree` factors of `width` variables, L = local, tables shared."""

    kind: ClassVar[str] = "tables"
    name: str = "random_factors"
    n_variables: int = ranged(16, at_least=2)
    width: int = ranged(2, at_least=2, at_most=12)
    degree: int = ranged(250, at_least=1)
    n_values: int = ranged(10, at_least=1)
    local: float = ranged(2.0, above=0)
    n_tables: int = ranged(4, at_least=1)
    agreement: float = ranged(0.1, at_least=0, at_most=1)
    seed: int = ranged(0, at_least=0)

    def __post_init__(self) -> None:
        """Check the fields, then what they mean together."""
        super().__post_init__()
        if self.n_variables % self.width:
            raise ConfigError(
                f"dataset.width={self.width}: must divide dataset.n_variables={self.n_variables}, as each "
                "variable stands in as many factors"
            )
        for what, size in (
            ("n_variables·degree", self.n_variables * self.degree),
            ("n_tables·n_values^width", self.n_tables * self.n_values**self.width),
        ):
            if size > _MOST:
                raise ConfigError(f"dataset=random_factors: {what} is {size:,}, above {_MOST:,}; take fewer")


@option("dataset", "complete_graph")
@dataclass(frozen=True)
class CompleteGraph(_Graph):
    """Generated: a factor for every pair of n_variables."""

    kind: ClassVar[str] = "pairs"
    name: str = "complete_graph"
    n_variables: int = ranged(10_000, at_least=2, at_most=50_000)


@dataclass(frozen=True)
class _GraphModel(Choice):
    """A model whose variables are discrete and whose arms need neither prior nor bounds."""

    program: ClassVar[str] = "graph_program"
    kind: ClassVar[str] = "weights"


@option("model", "ising")
@dataclass(frozen=True)
class Ising(_GraphModel):
    """Two values: factors beta·A_ij (s_i s_j + 1), s = ±1."""

    name: str = "ising"
    beta: float = ranged(1.0, above=0)


@option("model", "potts")
@dataclass(frozen=True)
class Potts(_GraphModel):
    """n_values values: factors beta·A_ij where two variables agree."""

    name: str = "potts"
    beta: float = ranged(4.6, above=0)
    n_values: int = ranged(10, at_least=1, at_most=10_000)


@option("model", "factor_graph")
@dataclass(frozen=True)
class FactorGraph(_GraphModel):
    """Factors as the tables of the dataset say."""

    kind: ClassVar[str] = "tables"
    name: str = "factor_graph"


@option("model", "edge_tables")
@dataclass(frozen=True)
class EdgeTables(_GraphModel):
    """A table of its own for every edge, worked out at each look: α where values agree, 1 − α by chance."""

    kind: ClassVar[str] = "pairs"
    name: str = "edge_tables"
    n_values: int = ranged(10, at_least=1, at_most=10_000)
    local: float = ranged(1.0, above=0)
    agreement: float = ranged(0.5, at_least=0, at_most=1)
    seed: int = ranged(0, at_least=0)


@dataclass(frozen=True)
class _SiteSampler(Choice):
    """A sampler that draws one variable at a time, for graphical models."""

    program: ClassVar[str] = "graph_program"


@option("sampler", "gibbs")
@dataclass(frozen=True)
class Gibbs(_SiteSampler):
    """Gibbs sampling, one variable drawn evenly at a time."""

    paper: ClassVar[str] = "Geman and Geman 1984"
    name: str = "gibbs"


@option("sampler", "min_gibbs")
@dataclass(frozen=True)
class MinGibbs(_SiteSampler):
    """Algorithm 2; mean batch λ = batch·Ψ²."""

    paper: ClassVar[str] = MINIBATCH
    name: str = "min_gibbs"
    batch: float = ranged(1.0, above=0)
    estimator: Estimator = "auto"


@option("sampler", "local_minibatch")
@dataclass(frozen=True)
class LocalMinibatch(_SiteSampler):
    """Algorithm 3, biased: `batch` of a variable's factors stand for all."""

    paper: ClassVar[str] = MINIBATCH
    name: str = "local_minibatch"
    batch: int = ranged(40, at_least=1)


@option("sampler", "mgpmh")
@dataclass(frozen=True)
class Mgpmh(_SiteSampler):
    """Algorithm 4; mean batch λ = batch·L²."""

    paper: ClassVar[str] = MINIBATCH
    name: str = "mgpmh"
    batch: float = ranged(1.0, above=0)
    estimator: Estimator = "auto"


@option("sampler", "double_min")
@dataclass(frozen=True)
class DoubleMin(_SiteSampler):
    """Algorithm 5; mean batches λ₁ = batch·L² (faithful) and λ₂ = second_batch·Ψ²."""

    paper: ClassVar[str] = MINIBATCH
    name: str = "double_min"
    batch: float = ranged(1.0, above=0)
    second_batch: float = ranged(1.0, above=0)
    estimator: Estimator = "auto"


@option("sampler", "poisson_gibbs")
@dataclass(frozen=True)
class PoissonGibbs(_SiteSampler):
    """Zhang and De Sa's sampler without rejections; λ = batch·L²."""

    paper: ClassVar[str] = (
        "Zhang and De Sa 2019, Poisson-Minibatching for Gibbs Sampling with Convergence Rates"
    )
    name: str = "poisson_gibbs"
    batch: float = ranged(1.0, above=0)
