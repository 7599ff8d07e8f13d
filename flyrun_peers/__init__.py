"""Other libraries' samplers as arms: NumPyro's and nutpie's NUTS, BlackJAX's MCLMC (extra `peers`).

They enter by the entry point `flyrun.samplers`, as any other package's do, serve every model, are metered as
flyrun's own (a gradient of all data: N queries) and stand in every table. All run in coordinates in which the
posterior's curvature at the MAP is the identity (metric=hessian), the metric that flyrun's own arms get.
"""

from importlib.util import find_spec
from typing import Any, ClassVar, Literal

from flyrun.extend import Sampler, option, setting


class Peer(Sampler):
    """A sampler of another library that reads all data for every gradient."""

    auxiliary: ClassVar[bool] = True
    library: ClassVar[str]
    exact: ClassVar[bool] = True

    def unfit(self, arm: Any) -> str:
        """As in the base class, or where the library is not installed."""
        if find_spec(self.library) is None:
            extra = "pip install 'flyrun[peers]'"
            return f"sampler={self.name}: {self.library} is not installed; type `{extra}`"
        return super().unfit(arm)


@option("sampler", "nuts_numpyro")
class NutsNumpyro(Peer):
    """NumPyro's NUTS, which adapts its step and mass during burn-in; needs the extra `peers`."""

    paper: ClassVar[str] = "Hoffman and Gelman 2014; Phan, Pradhan and Jankowiak 2019"
    library: ClassVar[str] = "numpyro"
    family: ClassVar[str] = "flyrun_peers.nuts_numpyro"
    metric: Literal["hessian", "identity"] = setting(
        "hessian", "where its mass begins: at the MAP's curvature"
    )
    dense: bool = setting(False, "adapt a dense mass")
    target_accept: float = setting(0.8, "mean acceptance", above=0, at_most=0.99)


@option("sampler", "nuts_nutpie")
class NutsNutpie(Peer):
    """nutpie's NUTS, which adapts its step and mass during burn-in; needs the extra `peers`.

    It draws a chain in one go: of a longer chain the first draws are made again, and are the same.
    """

    paper: ClassVar[str] = "Hoffman and Gelman 2014; Seyboldt, Carlson and Carpenter 2026"
    library: ClassVar[str] = "nutpie"
    family: ClassVar[str] = "flyrun_peers.nuts_nutpie"
    metric: Literal["hessian", "identity"] = setting(
        "hessian", "where its mass begins: at the MAP's curvature"
    )
    target_accept: float = setting(0.8, "mean acceptance", above=0, at_most=0.99)
    low_rank: bool = setting(False, "adapt a mass of low rank beside its diagonal")


@option("sampler", "pathfinder_blackjax")
class PathfinderBlackjax(Peer):
    """BlackJAX's multi-path Pathfinder, corrected by importance weights; needs the extra `peers`."""

    paper: ClassVar[str] = "Zhang, Carpenter, Gelman and Vehtari 2022"
    library: ClassVar[str] = "blackjax"
    family: ClassVar[str] = "flyrun_peers.pathfinder_blackjax"
    paths: int = setting(4, "runs of L-BFGS, from draws of the prior", at_least=1)
    steps: int = setting(100, "of L-BFGS, at most", at_least=1)
    elbo_draws: int = setting(25, "that each evidence lower bound along a path takes", at_least=1)


@option("sampler", "mclmc_blackjax")
class MclmcBlackjax(Peer):
    """BlackJAX's microcanonical Langevin Monte Carlo, tuned by its own search; needs the extra `peers`."""

    paper: ClassVar[str] = "Robnik, De Luca, Silverstein and Seljak 2023"
    library: ClassVar[str] = "blackjax"
    family: ClassVar[str] = "flyrun_peers.mclmc_blackjax"
    metric: Literal["hessian", "identity"] = setting(
        "hessian", "coordinates: whitened by the MAP's curvature"
    )
    adjusted: bool = setting(False, "accept by Metropolis; without, steps leave a bias")
    energy_variance: float = setting(
        5e-4, "of an unadjusted step, per coordinate: what its bias goes by", above=0
    )
    target_accept: float = setting(0.9, "mean acceptance, where adjusted", above=0, at_most=0.99)
    tuning: int = setting(5000, "steps of the search for step and length", at_least=10)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether its draws follow the posterior."""
        return self.adjusted
