"""flyrun data: the data files."""

from flyrun.cli import listing as lists
from flyrun.cli.options import one_name, take
from flyrun.config.schema import did_you_mean, listing
from flyrun.data import registry
from flyrun.errors import ConfigError

ACTIONS = ("list", "info", "verify", "build")


def run(words: list[str]) -> int:
    """List, describe, verify or build data files."""
    action = words[0] if words else "list"
    if action not in ACTIONS:
        close = did_you_mean(action, ACTIONS)
        raise ConfigError(f"data {action}: no such command{close}; there are {listing(ACTIONS)}")
    plain, given = take(f"data {action}", words[1:], ("out",) if action == "build" else ())
    if action == "list":
        if plain:
            raise ConfigError(f"{plain[0]}: `flyrun data list` takes nothing more")
        print(lists.data_text())
    elif action == "info":
        print(lists.info_text(one_name("data info", plain, "mnist_7v9"), (), ("dataset",)))
    elif action == "verify":
        for name in plain or registry.names():
            print(f"{name}: {registry.verify(name)}")
    else:
        registry.build(one_name("data build", plain, "mnist_7v9"), out=given.get("out"), echo=print)
    return 0
