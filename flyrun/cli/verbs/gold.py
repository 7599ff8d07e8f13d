"""flyrun gold: posteriors whose moments are known to a stated error."""

from pathlib import Path

from flyrun.cli.options import one_name, take
from flyrun.config.schema import did_you_mean, listing
from flyrun.errors import ConfigError
from flyrun.gold import store

ACTIONS = ("list", "build", "verify")


def run(words: list[str]) -> int:
    """List references, verify their files, or make one anew and certify it (1 where it is not certified)."""
    action = words[0] if words else "list"
    if action not in ACTIONS:
        close = did_you_mean(action, ACTIONS)
        raise ConfigError(f"gold {action}: no such command{close}; there are {listing(ACTIONS)}")
    plain, given = take(f"gold {action}", words[1:], ("out",) if action == "build" else ())
    if action == "build":
        from flyrun.gold.build import build  # late: models and samplers

        name = one_name("gold build", plain, "mnist_7v9_sd1")
        out = Path(given["out"]).expanduser() if "out" in given else None
        return 0 if build(name, out)[1] else 1
    if action == "list" and plain:
        raise ConfigError(f"{plain[0]}: `flyrun gold list` takes nothing more")
    for name in plain or store.registry():
        entry, gold = store.entry(name), store.load(name)
        floors = f"floors {gold.floors[0]:.1g} (means), {gold.floors[1]:.1g} (variances)"
        if action == "list":
            print(f"{name}: {entry['title']}; log Z {gold.facts['log_z']:.3f}; {floors}")
        else:
            from flyrun.gold.reference import data_of  # late: models

            store.check_data(gold, data_of(gold.facts["settings"]), name)
            print(f"{name}: verified, of the data as they are here, {store.folder() / name}.npz; {floors}")
            for check, said in gold.facts["certificate"].items():
                print(f"  {check.replace('_', ' ')}: {said}")
    return 0
