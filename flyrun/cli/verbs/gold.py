"""flyrun gold: posteriors whose moments are known to a stated error."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flyrun.cli.listing import own_folders
from flyrun.cli.verb import Verb, path, whole
from flyrun.ground.errors import ConfigError, DataError

if TYPE_CHECKING:
    from flyrun.experiments.gold.store import Gold


def _list(given: argparse.Namespace) -> int:
    from flyrun.experiments.gold import store  # late, as below: numpy takes a tenth of a second

    beside = store.own_folder(given.results_dir)
    for name in store.names(beside):
        gold = store.load(name, beside)
        title = store.title(name) if name in store.registry() else f"of your own, {beside / name}.npz"
        print(f"{name}: {title}; log Z {gold.facts['log_z']:.3f}; {_floors(gold)}")
    return 0


def _verify(given: argparse.Namespace) -> int:
    from flyrun.experiments.gold import store  # late, as the next: models
    from flyrun.experiments.gold.reference import data_of  # late

    beside = store.own_folder(given.results_dir)
    for name in given.names or store.names(beside):
        gold, registered = store.load(name, beside), name in store.registry()
        store.check_data(gold, data_of(gold.facts["settings"]), name)
        if not registered and gold.facts["made_of"] != store.made_of(gold.facts["settings"]):
            again = f"`{gold.facts['command']}` makes it anew"
            raise DataError(f"reference {name}: its file or package is not as it was; {again}")
        place = (store.folder() if registered else beside) / f"{name}.npz"
        print(f"{name}: verified, of the data as they are here, {place}; {_floors(gold)}")
        for check, result in gold.facts["certificate"].items():
            print(f"  {check.replace('_', ' ')}: {result}")
    return 0


def _build(given: argparse.Namespace) -> int:
    from flyrun.experiments.gold import store  # late, as the next: models and samplers
    from flyrun.experiments.gold.build import build, build_own  # late

    if not given.settings:
        if given.name is None:
            _BUILD.misses("NAME")
        return 0 if build(given.name, given.out)[1] else 1
    if given.name is not None:
        raise ConfigError(
            f"gold build {given.name}: is a reference's name, and {given.settings[0]} chooses a posterior; "
            "drop one of them"
        )
    beside = given.out or store.own_folder(given.results_dir)
    how = {"draws": given.draws, "iterations": given.iterations, "by": given.by}
    folders = own_folders(given.config_dir)
    return 0 if build_own(given.settings, folders, beside, given.called, **how) else 1


def _floors(gold: "Gold") -> str:
    return f"floors {gold.floors[0]:.1g} (means), {gold.floors[1]:.1g} (variances)"


def names(arguments: list[str]) -> Iterable[str]:
    """The references that there are, those of a person's own in the usual folder too."""
    from flyrun.experiments.gold import store  # late: numpy takes a tenth of a second

    return store.names(store.own_folder("results"))


VERB = Verb(
    "gold",
    "list, verify or build the posteriors that errors are held against",
    None,
    about="""References: posteriors whose means, variances and quantiles are known to a stated error, to
    which flyrun arena compares methods. `list`, which `flyrun gold` alone means too, lists them; `verify`
    checks their files and shows what certifies them; `build` makes one anew, in minutes, and certifies
    it: two proposals agree, the weights' tail is light, an exact chain of another kind agrees, and a
    planted error of 0.1 sd is found.

    `build experiment=NAME`, or the words of any run, makes one of your own posterior by the same rules: of
    your YAML (--config-dir), your package's data, likelihood and prior. It is kept in gold/ beside the runs
    of results_dir, whose reports are held against it.""",
    notes="Exit code 0; 1, and no file, where a reference is not certified.",
    examples=(
        "flyrun gold",
        "flyrun gold verify",
        "flyrun gold build mnist_7v9_sd1",
        "flyrun gold build experiment=mine --config-dir conf",
        "flyrun gold build dataset=toy_2d model=probit prior.scale=3 name=mine",
    ),
)
_LIST = VERB.action("list", _list, "list")
_VERIFY = VERB.action("verify", _verify, "verify")
_VERIFY.takes("names", metavar="NAME", nargs="*", offers=names, help="references (default: all)")
_BUILD = VERB.action("build", _build, "build mnist_7v9_sd1")
_BUILD.settings = lambda word: "=" in word and not word.startswith("-")
_BUILD.takes("name", metavar="NAME", nargs="?", offers=names, help="a reference of flyrun's")
_BUILD.takes_settings("experiment=NAME or other words of a run: the posterior of your own")
_BUILD.takes(
    "--out",
    metavar="FOLDER",
    type=path,
    help="folder to put it in (default: datasets/gold, whose registry then takes its digest; of your own "
    "posterior gold/ beside the runs)",
)
_BUILD.takes_own_options()
_BUILD.takes(
    "--name",
    dest="called",
    metavar="NAME",
    help="name of the reference of your own (default: the experiment's)",
)
_BUILD.takes("--draws", metavar="N", type=whole(1000), help="of importance sampling (default: as it needs)")
_BUILD.takes("--iterations", metavar="N", type=whole(1000), help="of the exact chain (default: as it needs)")
_BUILD.takes("--by", choices=("importance", "grid"), default="importance", help="grid: of two coordinates")
for _action in (_LIST, _VERIFY, _BUILD):
    _action.takes_results_dir()
