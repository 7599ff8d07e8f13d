"""Choices of model besides regressions: likelihoods of toys, factors of a graph, hierarchies."""

from typing import Any, ClassVar

from flyrun.families.options import Likelihood, Model
from flyrun.ground.schema import SCALE, option, setting


class GraphModel(Model):
    """Factors of discrete variables, whose arms need no prior. `kind`: what the dataset has to bring."""

    home: ClassVar[str] = "flyrun.experiments.models.graphs"
    kind: ClassVar[str] = "weights"
    needs: ClassVar[tuple[str, ...]] = ()


@option("model", "mixture")
class Mixture(Likelihood):
    """Two normals that share a parameter: x_n ~ ½N(η1, scale²) + ½N(η1 + η2, scale²), η = Θx_n.

    Its posterior has two modes; it has no bounds.
    """

    task: ClassVar[str] = "regression"
    bounds: ClassVar[bool] = False
    labelled: ClassVar[bool] = True
    scale: float = setting(2.5, "standard deviation of both normals", **SCALE)

    def unfit(self, arm: Any) -> str:
        if arm.dataset.name == "mixture":
            return ""
        return f"model=mixture: is for dataset=mixture alone, not dataset={arm.dataset.name}; choose that one"


@option("model", "clutter")
class Clutter(Likelihood):
    """A mean in clutter: y_n ~ (1 - share)·N(η, 1) + share·N(0, variance), η = θᵀx_n."""

    paper: ClassVar[str] = "Minka 2001"
    suggests: ClassVar[tuple[str, ...]] = ("prior=gaussian", "prior.scale=10")
    task: ClassVar[str] = "regression"
    labelled: ClassVar[bool] = True
    share: float = setting(0.5, "of the clutter", at_least=1e-12, at_most=0.999)
    variance: float = setting(10.0, "of the clutter", **SCALE)


@option("model", "normal")
class Normal(Likelihood):
    """Mean and log sd of numbers that are taken for normal: x_n ~ N(mu, exp(tau)²)."""

    task: ClassVar[str] = "regression"
    bounds: ClassVar[bool] = False
    one_mode: ClassVar[bool] = True
    orders: ClassVar[tuple[int, ...]] = (0, 1, 2)
    by_leverages: ClassVar[bool] = False

    def unfit(self, arm: Any) -> str:
        if arm.dataset.name in ("gaussian_toy", "mixture"):
            return ""
        return f"model=normal: is not for dataset={arm.dataset.name}; choose dataset=gaussian_toy"


@option("model", "ising")
class Ising(GraphModel):
    """Two values: factors beta·A_ij (s_i s_j + 1), s = ±1."""

    beta: float = setting(1.0, "inverse temperature", above=0)


@option("model", "potts")
class Potts(GraphModel):
    """n_values values: factors beta·A_ij where two variables agree."""

    beta: float = setting(4.6, "inverse temperature", above=0)
    n_values: int = setting(10, "values that a variable takes", at_least=1, at_most=10_000)


@option("model", "gaussian_field")
class GaussianField(GraphModel):
    """The normal distribution of the dataset's precision and potential, a variable at a time."""

    kind: ClassVar[str] = "precision"


@option("model", "factor_graph")
class FactorGraph(GraphModel):
    """Factors as the tables of the dataset say."""

    kind: ClassVar[str] = "tables"


@option("model", "edge_tables")
class EdgeTables(GraphModel):
    """A table of its own for every edge, worked out at each look: α where values agree, 1 − α by chance."""

    kind: ClassVar[str] = "pairs"
    n_values: int = setting(10, "values of a variable", at_least=1, at_most=10_000)
    local: float = setting(1.0, "L, a variable's energy at most", above=0)
    agreement: float = setting(
        0.5, "share of a factor's energy that goes to equal values; the rest is random", at_least=0, at_most=1
    )
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("model", "gaussian_process")
class GaussianProcess(Model):
    """A function with an RBF kernel of fixed length and noise, by how well it predicts test rows."""

    paper: ClassVar[str] = "Rasmussen and Williams 2006"
    home: ClassVar[str] = "flyrun.experiments.models"
    kind: ClassVar[str] = "function"
    reads: ClassVar[str] = "rows"
    needs: ClassVar[tuple[str, ...]] = ()
    task: ClassVar[str] = "regression"
    length: float = setting(
        1.0, "of the kernel, in medians of the distance between rows (of the first 1,000)", **SCALE
    )
    noise: float = setting(0.1, "its variance, as a share of the target's", **SCALE)
    test_rows: int = setting(4_000, "predict no more than the first so many", at_least=1)


@option("model", "lda")
class Lda(Model):
    """Latent Dirichlet allocation: n_topics, Dirichlet(alpha) shares in documents, Dirichlet(beta) topics."""

    paper: ClassVar[str] = "Blei, Ng and Jordan 2003"
    home: ClassVar[str] = "flyrun.experiments.models"
    kind: ClassVar[str] = "documents"
    needs: ClassVar[tuple[str, ...]] = ()
    n_topics: int = setting(20, "topics", at_least=1)
    alpha: float = setting(0.1, "of the Dirichlet of a document's topics", above=0)
    beta: float = setting(0.01, "of the Dirichlet of a topic's words", above=0)


#: of a hierarchy's sds and of a Dirichlet: squares and their sums keep their digits
_SIZE: dict[str, Any] = {"at_least": 1e-6, "at_most": 1e6}


class Hierarchical(Model):
    """Global and local variables, of numbers in rows."""

    home: ClassVar[str] = "flyrun.experiments.models"
    kind: ClassVar[str] = "hierarchy"
    reads: ClassVar[str] = "rows"
    needs: ClassVar[tuple[str, ...]] = ()


@option("model", "gaussian_mixture")
class GaussianMixture(Hierarchical):
    """K round Gaussians with weights, of the features: labels are local, weights and means global."""

    n_components: int = setting(10, "K", at_least=1)
    concentration: float = setting(1.0, "of the Dirichlet of the weights", **_SIZE)
    scale: float = setting(1.0, "standard deviation of every component, given", **_SIZE)
    spread: float = setting(10.0, "standard deviation of the components' means about 0", **_SIZE)


@option("model", "normal_means")
class NormalMeans(Hierarchical):
    """Normal means about a mean, y_n ~ N(z_n, noise²), z_n ~ N(theta, between²).

    z is local, theta global.
    """

    noise: float = setting(0.8, "standard deviation of y about z", **_SIZE)
    between: float = setting(0.6, "standard deviation of z about theta", **_SIZE)
    spread: float = setting(10.0, "standard deviation of theta about 0", **_SIZE)


@option("model", "poisson_means")
class PoissonMeans(Hierarchical):
    """Counts about a mean rate, y_n ~ Poisson(exp z_n), z_n ~ N(theta, between²).

    z is local and not conjugate, theta global.
    """

    between: float = setting(0.6, "standard deviation of z about theta", **_SIZE)
    spread: float = setting(10.0, "standard deviation of theta about 0", **_SIZE)
