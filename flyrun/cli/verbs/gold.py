"""flyrun gold: posteriors whose moments are known to a stated error."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flyrun.cli.verb import Verb, path

if TYPE_CHECKING:
    from flyrun.experiments.gold.store import Gold


def _list(given: argparse.Namespace) -> int:
    from flyrun.experiments.gold import store  # late, as below: numpy takes a tenth of a second

    for name in store.registry():
        gold = store.load(name)
        print(f"{name}: {store.entry(name)['title']}; log Z {gold.facts['log_z']:.3f}; {_floors(gold)}")
    return 0


def _verify(given: argparse.Namespace) -> int:
    from flyrun.experiments.gold import store  # late, as the next: models
    from flyrun.experiments.gold.reference import data_of  # late

    for name in given.names or store.registry():
        gold = store.load(name)
        store.check_data(gold, data_of(gold.facts["settings"]), name)
        print(f"{name}: verified, of the data as they are here, {store.folder() / name}.npz; {_floors(gold)}")
        for check, result in gold.facts["certificate"].items():
            print(f"  {check.replace('_', ' ')}: {result}")
    return 0


def _build(given: argparse.Namespace) -> int:
    from flyrun.experiments.gold.build import build  # late: models and samplers

    return 0 if build(given.name, given.out)[1] else 1


def _floors(gold: "Gold") -> str:
    return f"floors {gold.floors[0]:.1g} (means), {gold.floors[1]:.1g} (variances)"


def names(arguments: list[str]) -> Iterable[str]:
    """The references that there are."""
    from flyrun.experiments.gold import store  # late: numpy takes a tenth of a second

    return store.registry()


VERB = Verb(
    "gold",
    "list, verify or build the posteriors that errors are held against",
    None,
    about="""References: posteriors whose means, variances and quantiles are known to a stated error, to
    which flyrun arena compares methods. `list`, which `flyrun gold` alone means too, lists them; `verify`
    checks their files and shows what certifies them; `build` makes one anew, in minutes, and certifies
    it: two proposals agree, the weights' tail is light, an exact chain of another kind agrees, and a
    planted error of 0.1 sd is found.""",
    notes="Exit code 0; 1, and no file, where a reference is not certified.",
    examples=("flyrun gold", "flyrun gold verify", "flyrun gold build mnist_7v9_sd1"),
)
VERB.action("list", _list, "list")
VERB.action("verify", _verify, "verify").takes(
    "names", metavar="NAME", nargs="*", offers=names, help="references (default: all)"
)
_BUILD = VERB.action("build", _build, "build mnist_7v9_sd1")
_BUILD.takes("name", metavar="NAME", offers=names, help="a reference")
_BUILD.takes(
    "--out",
    metavar="FOLDER",
    type=path,
    help="folder to put it in (default: datasets/gold, whose registry then takes its digest)",
)
