"""Graphs, and matrices that say how variables hang together."""

from typing import ClassVar, Literal

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import option, setting
from flyrun.tables.dataset_options import Dataset

_MOST = 1 << 26  # numbers of one kind that a generated graph may hold: half a gigabyte


@option("dataset", "grid")
class Grid(Dataset):
    """Generated: side × side variables, every pair of which interacts with weight exp(-gamma·distance²)."""

    kind: ClassVar[str] = "weights"
    side: int = setting(20, "variables along a side", at_least=2, at_most=200)
    gamma: float = setting(1.5, "how fast interactions fall with the squared distance", above=0)


@option("dataset", "lattice")
class Lattice(Dataset):
    """Generated: rows × columns variables, nearest neighbours with weight 1."""

    kind: ClassVar[str] = "weights"
    rows: int = setting(20, "variables down", at_least=1, at_most=5_000)
    columns: int = setting(20, "variables across", at_least=1, at_most=5_000)


@option("dataset", "precision")
class Precision(Dataset):
    """Generated: a precision matrix of unit diagonal, and a potential, for normal distributions."""

    kind: ClassVar[str] = "precision"
    law: Literal["random", "equicorrelated", "grid"] = setting(
        "random", "equicorrelated: coupling between any two; grid: -coupling/4 between nearest neighbours"
    )
    n_variables: int = setting(12, "of a grid the square of a whole number", at_least=2, at_most=2_000)
    coupling: float = setting(0.3, "how far from independent variables", at_least=0, at_most=0.999)
    seed: int = setting(0, "another one, other numbers", at_least=0)

    def check(self) -> None:
        side = round(self.n_variables**0.5)
        if self.law == "grid" and side**2 != self.n_variables:
            raise ConfigError(
                f"dataset.n_variables={self.n_variables}: a grid is a square; choose "
                f"dataset.n_variables={max(side, 2) ** 2}"
            )


@option("dataset", "edge_list")
class EdgeList(Dataset):
    """A CSV file of edges i,j,weight; variables are numbered from 0."""

    kind: ClassVar[str] = "weights"
    path: str | None = setting(None, "the file")
    sum_duplicates: bool = setting(False, "true: edges named twice are added up")


@option("dataset", "uai")
class Uai(Dataset):
    """A file in the UAI format: a Markov network of tables."""

    kind: ClassVar[str] = "tables"
    path: str | None = setting(None, "the file")


@option("dataset", "random_factors")
class RandomFactors(Dataset):
    """Generated: each variable in `degree` factors of `width` variables; tables are shared, L = local."""

    kind: ClassVar[str] = "tables"
    n_variables: int = setting(16, "variables", at_least=2)
    width: int = setting(2, "must divide n_variables", at_least=2, at_most=12)
    degree: int = setting(250, "factors that a variable stands in", at_least=1)
    n_values: int = setting(10, "values of a variable", at_least=1)
    local: float = setting(2.0, "L, a variable's energy at most", above=0)
    n_tables: int = setting(4, "shared by all factors", at_least=1)
    agreement: float = setting(
        0.1, "share of a factor's energy that goes to equal values; the rest is random", at_least=0, at_most=1
    )
    seed: int = setting(0, "another one, other numbers", at_least=0)

    def check(self) -> None:
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
class CompleteGraph(Dataset):
    """Generated: a factor for every pair of n_variables."""

    kind: ClassVar[str] = "pairs"
    n_variables: int = setting(10_000, "variables", at_least=2, at_most=50_000)
