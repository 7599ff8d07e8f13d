"""flyrun prove: whether a sampler, a likelihood or a prior makes what it says it makes."""

from rich.console import Console

from flyrun.cli.options import number, one_name, take
from flyrun.config.arm import Arm  # noqa: F401  (that it is imported registers the choices)
from flyrun.config.overrides import read
from flyrun.config.schema import SCHEMAS, build, did_you_mean, listing
from flyrun.errors import ConfigError

GROUPS = ("sampler", "model", "prior")


def run(words: list[str]) -> int:
    """Try a choice on small posteriors; 1 where a trial fails."""
    plain, given = take("prove", words, ("iterations",), plain_too=lambda word: word.startswith(GROUPS))
    group, name = _choice(one_name("prove", [word for word in plain if "." not in word], "random_walk"))
    settings = {}
    for entry in read([word for word in plain if "." in word]):
        if entry.group != group:
            raise ConfigError(f"prove {name}: {entry.text} is no key of {group}={name}; drop it")
        settings[entry.key.partition(".")[2]] = entry.value
    choice = build(group, {"name": name, **settings})
    from flyrun.prove.prove import ITERATIONS, prove  # late: models and samplers

    asked = given.get("iterations", str(ITERATIONS))
    whole = "a whole number at least 100"
    iterations = int(number("iterations", asked, lambda n: n >= 100 and n == int(n), whole))
    console = Console(highlight=False)
    return int(not prove(choice, iterations, lambda text: console.print(text, soft_wrap=True, markup=False)))


def _choice(word: str) -> tuple[str, str]:
    """(group, name) of NAME or GROUP=NAME."""
    group, _, name = word.rpartition("=")
    groups = [one for one in ([group] if group else GROUPS) if name in SCHEMAS[one]]
    if not groups:
        known = [one for each in GROUPS for one in SCHEMAS[each]]
        close = did_you_mean(name, known)
        raise ConfigError(f"prove {word}: no sampler, model or prior has this name{close}; see `flyrun list`")
    if len(groups) > 1:
        which = listing((f"`flyrun prove {one}={name}`" for one in groups), "or")
        raise ConfigError(f"prove {name}: is several; say {which}")
    return groups[0], name
