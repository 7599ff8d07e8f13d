"""flyrun data: the data files."""

import argparse

from flyrun.cli import listing
from flyrun.cli.verb import Verb
from flyrun.experiments.config.catalogue import options


def _list(given: argparse.Namespace) -> int:
    print(listing.data_text())
    return 0


def _info(given: argparse.Namespace) -> int:
    print(listing.info_text(given.name, (), ("dataset",)))
    return 0


def _verify(given: argparse.Namespace) -> int:
    from flyrun.experiments.data import registry  # late, as below: numpy takes a tenth of a second

    for name in given.names or registry.names():
        print(f"{name}: {registry.verify(name)}")
    return 0


def _build(given: argparse.Namespace) -> int:
    from flyrun.experiments.data import registry  # late

    registry.build(given.name, out=given.out, echo=print)
    return 0


VERB = Verb(
    "data",
    "list, describe, verify or build data files",
    None,
    about="""The data files. `list`, which `flyrun data` alone means too, says which there are and whether
    they are as registered; `info` where one comes from, its licence and sha256; `verify` whether files
    are unaltered; `build` makes one anew from its public sources, which may download them.""",
    examples=("flyrun data", "flyrun data info mnist_7v9", "flyrun data verify"),
)


def _takes_name(verb: Verb, dest: str = "name", nargs: str | None = None, what: str = "a dataset") -> None:
    offers = lambda _: options("dataset")  # noqa: E731
    verb.takes(dest, metavar="NAME", nargs=nargs, offers=offers, help=what)


VERB.action("list", _list, "list")
_takes_name(VERB.action("info", _info, "info mnist_7v9"))
_takes_name(VERB.action("verify", _verify, "verify"), "names", "*", "datasets (default: all)")
_BUILD = VERB.action("build", _build, "build mnist_7v9")
_takes_name(_BUILD)
_BUILD.takes("--out", metavar="PATH", help="folder or file to put it in (default: where flyrun looks for it)")
