"""flyrun prove: whether a sampler, a likelihood or another choice makes what it says it makes."""

import argparse

from flyrun.cli.verb import Verb, whole
from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import Arm  # noqa: F401  (that it is imported registers the choices)
from flyrun.experiments.config.catalogue import options
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS, build, did_you_mean, listing

GROUPS = ("sampler", "model", "prior", "bound", "brightness", "acceptance")


def run(given: argparse.Namespace) -> int:
    """Try a choice on small posteriors; 1 where a trial fails."""
    from flyrun.experiments.config.overrides import read  # late
    from flyrun.ground.page.render import screen  # late, as below: Hydra, models and samplers

    group, name = _choice(given.name)
    settings = {}
    for entry in read(given.settings):
        if entry.group != group:
            raise ConfigError(f"prove {name}: {entry.text} is no key of {group}={name}; drop it")
        settings[entry.key.partition(".")[2]] = entry.value
    choice = build(group, {"name": name, **settings})
    from flyrun.experiments.prove.prove import prove  # late: what is wrong with the words is said at once

    console = screen()
    passed = prove(choice, given.iterations, lambda text: console.print(text, soft_wrap=True, markup=False))
    return int(not passed)


def _choice(word: str) -> tuple[str, str]:
    """(group, name) of NAME or GROUP=NAME."""
    group, _, name = word.rpartition("=")
    groups = [group for group in ([group] if group else GROUPS) if name in SCHEMAS.get(group, {})]
    if not groups:
        known = [choice for each in GROUPS for choice in SCHEMAS[each]]
        close = did_you_mean(name, known)
        raise ConfigError(f"prove {word}: no choice that is proven has this name{close}; see `flyrun list`")
    if len(groups) > 1:
        which = listing((f"`flyrun prove {group}={name}`" for group in groups), "or")
        raise ConfigError(f"prove {name}: is several; say {which}")
    plugins.refuse_taken(groups[0], name)
    return groups[0], name


VERB = Verb(
    "prove",
    "test whether a sampler, a likelihood or another choice does what it says",
    run,
    about="""Tries a sampler, a likelihood, a prior, a bound, an update of brightness or a rule of acceptance
    on small posteriors of two coordinates: steps that
    must be the same wherever they are cut, moments against quadrature, queries against an independent count,
    exact draws that must stay exact, and for a likelihood its slopes and bounds. Each trial also runs on the
    posterior at another temperature, where it must fail.

    The outcome is kept. Tables say `exact: yes` of another package's choice once its class says `exact =
    True` and its proof has passed with its present sources and settings; until then they say unknown.""",
    notes="Exit code 0; 1 where a trial fails.",
    examples=("flyrun prove random_walk", "flyrun prove hmc sampler.n_steps=7"),
    settings=lambda word: word.startswith(tuple(f"{group}." for group in GROUPS)),
)
VERB.takes(
    "name",
    metavar="NAME",
    type=str,
    offers=lambda _: [name for group in GROUPS for name in options(group)],
    help="a sampler, model, prior, bound, brightness or acceptance; GROUP=NAME where several have the name",
)
VERB.takes_settings("its settings, as in sampler.step=0.5: the proof holds for these")
VERB.takes(
    "--iterations", metavar="N", type=whole(100), default=10_000, help="iterations of each of 24 chains"
)
