"""The contract of a method, whatever its family: all that the runner knows of one.

A family is a package whose module `method` has prepare(arm, folder) -> Method. A *step* is an iteration, a
sweep, a minibatch, an EP pass, a time slice: what `protocol.iterations` counts.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.ground import children, schema
from flyrun.ground.errors import ConfigError, FlyrunError, factoring

State = dict[str, np.ndarray]
"""What a checkpoint holds: arrays by name, the random generator's among them."""
Records = dict[str, np.ndarray]
"""By step: `queries`, and where they differ from these `visits` (rows read) and `span` (queries on the
longest path), all (n,); `theta`, the kept draws, (n // thin, ...); whatever else a family tells, (n, ...)."""


@dataclass(frozen=True)
class Facts:
    """What is known of an arm once it is set up.

    update: what the method is called.  exact: whether its answers follow the posterior, but for their
    number; None where nobody knows.  coordinates: names of the components of θ.  setup_*: what it cost
    before the first step, the queries of every fit and bound included; visits, span: None for as many.
    tuned: settings learnt or chosen.  more: what this family tells besides.
    """

    update: str
    exact: bool | None = True
    coordinates: tuple[str, ...] = ()
    n_data: int | None = None
    n_params: int | None = None
    setup_queries: int = 0
    setup_visits: int | None = None
    setup_span: int | None = None
    setup_s: float = 0.0
    tuned: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def setup_costs(self) -> tuple[float, float, float, float]:
        """Queries, visits, span and seconds of the set-up."""
        visits = self.setup_queries if self.setup_visits is None else self.setup_visits
        span = self.setup_queries if self.setup_span is None else self.setup_span
        return self.setup_queries, visits, span, self.setup_s

    def plain(self) -> dict[str, Any]:
        """One flat dictionary, for JSON; what is not known is left out, but whether it is exact stays."""
        settings = {key: value for key, value in asdict(self).items() if key not in ("tuned", "more")}
        known = {key: value for key, value in settings.items() if value is not None or key == "exact"}
        return known | dict(self.more)


class Method(Protocol):
    """One arm, ready to run from any seed. Derive from it: what has a body here may be left as it is."""

    answers: Literal["draws", "weighted", "density"] = "draws"
    unit: str = "iteration"  # what a step is called
    #: what is shown of the means of a step's records, while it runs and at its end
    shown: tuple[str, ...] = ("accepted {accepted:.2f}", "{queries} queries/iter")

    @property
    def parts(self) -> tuple[Any, ...]:
        """What is set up before any step, as nested tuples of arrays and numbers, for digests."""
        return ()

    def warm_up(self) -> float:
        """Compile what the steps need; seconds that it took."""
        return 0.0

    @abstractmethod
    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The first state of a seed. needed: the finished cells of the arms that the options ask for."""
        ...

    @abstractmethod
    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps from `state`, which stays as it is: the same bits wherever they are cut."""
        ...

    def at(self, theta: np.ndarray, tuned: State, seed: int) -> State | None:
        """A state that stands at θ, (P,), tuned as another is, with random numbers of its own; None where the
        method has no such states. With it `flyrun prove` tests that exact draws stay exact.
        """
        return None

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """E f as it would be handed in now, by estimand; of draws the runner takes them from `of_draws`."""
        return {}

    def of_draws(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """f(θ) of draws (k, ...), by estimand, (k, ...): what estimates are the means of."""
        return {"mean": theta, "square": theta**2} if theta.dtype.kind == "f" else {}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """At the end: `theta`, `log_weight` and, if some are negative, `sign`; or a density's parameters."""
        return {}

    def trace(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Log densities at stored draws, (G,) each. After the run, not charged."""
        return {}

    def notes(self) -> list[str]:
        """Lines that a person wants to see before sampling."""
        return []

    @abstractmethod
    def facts(self, state: State | None = None) -> Facts:
        """What is known; with the last state, what was tuned besides."""
        ...


def agreed(method: Method, records: Any, n: int, kept: int) -> Records:
    """What `advance(state, n)` gave besides the state, as its contract has it; theta in double precision.

    kept: of theta's rows. FlyrunError, one line, where it lacks queries or has what it may not.
    """
    if not isinstance(records, Mapping):
        raise FlyrunError(f"{_named(method)}: advance gave no dictionary of arrays by name beside the state")
    arrays = {str(name): np.asarray(values) for name, values in records.items()}
    for name, values in arrays.items():
        wanted = kept if name == "theta" else n
        if values.dtype.kind not in "biuf" or values.shape[:1] != (wanted,):
            what = f"are {values.dtype} of shape {values.shape}"
            raise FlyrunError(
                f"{_named(method)}: {name} {what}; of {n:,} steps it must be numbers, {wanted:,} rows"
            )
    if "queries" not in arrays:
        raise FlyrunError(f"{_named(method)}: queries are missing; of {n:,} steps {n:,} numbers must be told")
    for name in ("queries", "visits", "span"):
        if name in arrays and not (np.isfinite(arrays[name]) & (arrays[name] >= 0)).all():
            raise FlyrunError(f"{_named(method)}: {name} must be numbers of at least 0, of every step")
    if "theta" in arrays and arrays["theta"].dtype.kind == "f":
        arrays["theta"] = arrays["theta"].astype(np.float64, copy=False)
    return arrays


def _named(method: Method) -> str:
    sampler = getattr(getattr(method, "arm", None), "sampler", None)
    return type(method).__name__ if sampler is None else f"sampler={sampler.name}"


def first_step(method: Method) -> float:
    """Seconds of a step that is thrown away, and of what is handed in after it: a warm_up of short steps."""
    started = time.perf_counter()
    state, records = method.advance(method.init(0), 1)
    method.estimates(state)
    if "theta" in records:
        method.of_draws(records["theta"])
    return time.perf_counter() - started


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm, made by its family: data loaded, what is needed fitted (or recalled from folder).

    Raises DataError, ConfigError or DensityError, one line each, for what a person can mend.
    """
    if arm.sampler.worker == "jax64":
        children.switch_jax(True)
    double = children.jax64()
    with factoring(getattr(arm.dataset, "standardize", True)):
        method: Method = schema.importer(arm.sampler.path_of_family).prepare(arm, folder)
    if children.jax64() and not double:
        children.switch_jax(False)
        raise ConfigError(
            f"sampler={arm.sampler.name}: switches JAX to double precision for the whole process, where "
            'other samplers run; write worker = "jax64" in its class, which does it in a process of its own'
        )
    return method


def near(arm: Arm, problem: Any, steps: int) -> tuple[Any, State, int]:
    """The method of an arm whose answer is a Gaussian, its state after so many steps of seed 0, and what both
    took of queries, the MAP's not among them: for methods that start from such a Gaussian, whichever it is.
    """
    method = arm.sampler.build(arm, problem)
    state, queries = method.init(0), method.facts().setup_queries - problem.fit.queries
    if steps:
        state, records = method.advance(state, steps)
        queries += int(records["queries"].sum())
    return method, state, queries
