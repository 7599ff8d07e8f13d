"""flyrun plan: which exact method will be cheapest on a posterior, before any runs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from flyrun.cli.verb import Verb
from flyrun.cli.verbs.fit import columns
from flyrun.experiments.config.catalogue import options
from flyrun.families.options import for_tables
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, typed_choices

if TYPE_CHECKING:
    from flyrun.experiments.config.arm import Arm
    from flyrun.experiments.models.problem import Problem

DRAWS = 1_000


def run(given: argparse.Namespace) -> int:
    """Print a line for every method, cheapest draw first."""
    overrides = [*_dataset(given.data, given.target), *given.settings]
    arm, problem = _bound(overrides, {word.partition("=")[0] for word in given.settings})
    from flyrun.experiments.plan.expected import expected  # late: numba

    rows = expected(arm, problem)
    size, several = len(problem.features.rows), len(problem.coordinates)
    print(f"{given.data}: {size:,} rows, {several} coefficients, {arm.model.name}, {arm.prior.name} prior\n")
    head = ("", "candidates", "acceptance", "queries/draw", f"{DRAWS:,} draws", "set-up")
    print(_line(head))
    for method in rows:
        cells = (
            method.name,
            "all" if method.candidates is None else f"{method.candidates:,.3g}",
            "-" if method.acceptance is None else f"{method.acceptance:.2f}",
            f"{method.queries:,.3g}" if method.queries < 100 else f"{method.queries:,.0f}",
            f"{method.whole(DRAWS):,.0f}",
            f"{method.setup:,}",
        )
        print(_line(cells))
    print(f"\nthe first with: {rows[0].overrides}")
    print(
        "a Zig-Zag's candidates are those of a unit of time; queries are likelihoods evaluated, an estimate"
    )
    return 0


def _line(cells: tuple[str, ...]) -> str:
    return f" {cells[0]:<30}" + "".join(f"{cell:>14}" for cell in cells[1:])


def _dataset(name: str, target: str | None) -> list[str]:
    if name in options("dataset"):
        return [f"dataset={name}"]
    if not Path(name).expanduser().exists():
        close = did_you_mean(name, options("dataset"))
        raise ConfigError(f"plan {name}: no such dataset{close} and no such file; see `flyrun list dataset`")
    if target is None:
        raise ConfigError(f"plan {name}: name the column to explain with --target COLUMN")
    return ["dataset=table", f"dataset.path={name}", f"dataset.target={target}"]


def _bound(overrides: list[str], typed: set[str]) -> "tuple[Arm, Problem]":
    """The arm and problem of these words; without a model the one that the data are for."""
    from flyrun.experiments.config.compose import compose_job  # late
    from flyrun.experiments.models.problem import bind  # late
    from flyrun.ground import paths  # late, as the next two: Hydra takes a third of a second, numba more

    more = ["sampler=laplace", *([] if "prior" in typed else ["prior=gaussian"])]
    if "model" not in typed:
        from flyrun.experiments.data import load  # late: where no model was named

        guess = compose_job([*overrides, "model=logistic", *more]).arms[0].dataset
        overrides = [*overrides, f"model={for_tables(load(guess).task)[0]}"]
    arm = compose_job([*overrides, *more]).arms[0]
    if not arm.model.orders:
        fitting = typed_choices("model", lambda cls: bool(getattr(cls, "orders", ())))
        raise ConfigError(f"model={arm.model.name}: there is nothing to plan; choose {fitting}")
    return arm, bind(arm, paths.cache_dir("setup"), needs_map=True)


VERB = Verb(
    "plan",
    "estimate what exact methods that read few data will cost, before any runs",
    run,
    about="""Estimates what exact methods that read few data will cost on a posterior, before any of them
    runs, from the data's leverages at the mode: data drawn for a test of acceptance, acceptance,
    likelihood queries for an effective draw and, set-up included, for 1,000. It lists the cheapest draw
    first and says how to choose it. It finds the mode and makes at most three further passes over the
    data.""",
    examples=("flyrun plan mnist_7v9", "flyrun plan tall dataset.n_data=1e6 prior.scale=10"),
    settings=lambda word: not word.startswith("--") and "=" in word,
)
VERB.takes(
    "data", metavar="DATA", offers=lambda _: options("dataset"), help="a dataset, or the file of a table"
)
VERB.takes(
    "--target",
    metavar="COLUMN",
    offers=lambda arguments: columns(arguments[0]),
    help="column of the file to explain; required with a file",
)
VERB.takes_settings("model, prior and their settings, as for a run: prior.scale=10, model=student_t")
