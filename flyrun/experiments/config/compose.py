"""From words to a Job: each arm composed from the experiment, its own list and what is typed.

Order, later wins: the option's YAML, the experiment, what a choice suggests, the arm's list, what is typed,
what is typed for this arm alone. A typed value reaches every arm that has the key. Where protocol=smoke is
typed the experiment's list `check` stands before what is typed: it makes it small. The lengths in it, and
smoke's where it names none, are the most that the experiment and its arms have: none grows by them. So does
the list `full`, of the lengths to publish, where protocol=full is typed, and its lengths are as it says.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from flyrun.experiments.config import job_keys, plugins
from flyrun.experiments.config.arm import ARM_GROUPS, Arm, Job
from flyrun.experiments.config.axes import expand
from flyrun.experiments.config.hydra_errors import one_line
from flyrun.experiments.config.hydra_files import Files, hydra, plain_values
from flyrun.experiments.config.overrides import Entry, read, split, suggest
from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import build, did_you_mean, keys, listing, schema, show

_LISTS = {"smoke": "check", "full": "full"}  # of the experiment, that belong to a protocol
_OF_ALL_ARMS = ("arms", "sweep", *_LISTS.values())
_LENGTHS = ("protocol.seeds", "protocol.iterations", "protocol.burn_in", "protocol.thin")


def compose_job(overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> Job:
    """Compose and check all that `flyrun overrides...` runs.

    config_dirs: further folders with options, after flyrun's own (inside hydra.main, --config-dir does it).
    Raises ConfigError, one line, for anything unknown, unsuitable or missing.
    """
    typed = entries = read(overrides)
    with one_line(), hydra():
        composer = _Composer([entry for entry in entries if entry.arm is None], config_dirs)
        base = composer.base()
        listed = _LISTS.get(composer.choices.get("protocol", ""))
        if listed and (listed_entries := read(own_list(base, listed))):
            limits = [e for e in listed_entries if listed == "check" and e.arm is None and e.key in _LENGTHS]
            entries = [e for e in listed_entries if e not in limits] + typed
            composer = _Composer([entry for entry in entries if entry.arm is None], config_dirs)
            composer.limits = {entry.key: entry.value for entry in limits}
            composer.used = {entry.text for entry in listed_entries}
            base = composer.base()
        arms, only, experiment = base["arms"], base["only"], composer.choices.get("experiment")
        for entry in entries:
            if entry.arm is not None and entry.arm not in arms:
                raise ConfigError(
                    f"{entry.text}: no such arm; {job_keys.choices(entry.arm, arms, experiment)}"
                )
        wanted = job_keys.selected(arms, only, experiment) if arms else {"": ([], None)}
        chosen = {
            name: composer.arm(name, overrides, [entry for entry in entries if entry.arm == name])
            for name, (overrides, _) in wanted.items()
        }
        composer.check_all_used()
    name = experiment if base["name"] is None else base["name"]
    if not arms:
        arm = job_keys.arm_name(chosen[""])
        if only is not None and arm not in job_keys.names(only):
            raise ConfigError(f"only={show(only)}: the arm that runs is {arm}; drop only")
        chosen, wanted = {arm: chosen[""]}, {arm: wanted[""]}
        name = f"{chosen[arm]['sampler'].name}-{arm}" if base["name"] is None else name
    name = job_keys.check_job(base, name)
    return Job(
        name=name,
        experiment=experiment,
        title=_title(
            base["title"] or name,
            listed,
            [e for e in entries if experiment and (e.arm is None or e.arm in wanted)],
            typed,
        ),
        arms=tuple(
            Arm(experiment=experiment or name, name=arm, swept=wanted[arm][1], **groups)
            for arm, groups in chosen.items()
        ),
        executor=build("executor", base.get("executor")),
        results_dir=Path(base["results_dir"]).expanduser(),
        reference=job_keys.reference(base["reference"], experiment),
        run_overrides=[entry.text for entry in typed if entry.key != "fresh"],
        reference_name=base["reference"],
        figures=job_keys.figures(base["figures"]),
        drawn=job_keys.drawn(base, arms),
        arena=bool(base["arena"]),
        held_out=bool(base["held_out"]),
        quadrature=bool(base["quadrature"]),
        bounded=bool(base["bounded"]),
        **{key: base[key] for key in ("paper", "fresh", "description")},
    )


def own_list(base: dict[str, Any], key: str) -> list[str]:
    """The words that an experiment has under `check` or `full`. Raises ConfigError where that is no list."""
    overrides = base.get(key) or []
    if not isinstance(overrides, list):
        raise ConfigError(f"{key}: must be a list of overrides; correct the experiment's file")
    return list(map(str, overrides))


class _Composer:
    """Arms of the files and of what was typed; remembers which typed values found an arm."""

    def __init__(self, typed: list[Entry], config_dirs: Sequence[str | Path]) -> None:
        self.choices, self.values = split(entry for entry in typed if not entry.is_hydra)
        search = [entry.text for entry in typed if entry.key == "hydra.searchpath"]
        if config_dirs:
            folders = ",".join(f"'{Path(folder).resolve()}'" for folder in config_dirs)
            search = [f"hydra.searchpath=[{folders}]"]
        self.files = Files(self.choices, search)
        self.used: set[str] = set()
        self.limits: dict[str, int] = {}

    def compose(self, choices: dict[str, str]) -> dict[str, Any]:
        """The configuration of an arm with these options of groups, without what belongs to all arms."""
        config = {
            key: deepcopy(values) for key, values in self.files.whole.items() if key not in _OF_ALL_ARMS
        }
        for group, name in choices.items():
            if self.choices.get(group) != name:
                config[group] = self.files.option(group, name)
        return config

    def base(self) -> dict[str, Any]:
        """What belongs to the whole job, as a plain dict, and the arms' lists."""
        config = deepcopy(self.files.whole)
        for entry in self.values:
            if entry.group in ARM_GROUPS:
                continue
            if entry.group == "executor":
                _check_key(entry.key, config, entry.text)
            self.used.add(entry.text)
            _update(config, [entry])
        plain = _resolved(config)
        self._refuse_unknown(plain)
        arms = plain["arms"]
        if not isinstance(arms, dict) or not all(isinstance(overrides, list) for overrides in arms.values()):
            raise ConfigError(
                "arms: must map each arm's name to a list of overrides; correct the experiment's file"
            )
        plain["arms"] = expand(arms, plain["sweep"])
        return plain

    def _refuse_unknown(self, config: dict[str, Any]) -> None:
        """Raise ConfigError for a key at the top of an experiment's file that there is not."""
        known = [str(key) for key in self.files.file("config").config if key != "hydra"]
        known += [
            line.group
            for line in self.files.file("config").defaults_list
            if not (line.is_self() or line.is_override())
        ]
        for key in config.keys() - {*known, *ARM_GROUPS, "hydra"}:
            where = f"experiment={self.choices.get('experiment')}"
            raise ConfigError(
                f"{where}: {key} is no key{did_you_mean(str(key), known)}; correct the experiment's file"
            )

    def arm(self, name: str, overrides: list[str], alone: list[Entry]) -> dict[str, Any]:
        """Make the checked choices of one arm: group -> dataclass or None."""
        own_choices, own_values = split(self._read(name, overrides))
        alone_choices, alone_values = split(alone)
        choices = own_choices | self.choices | alone_choices
        suggested: list[Entry] = []
        config = self.compose(choices)
        while new := {e.key: e.value for e in reversed(_open_choices(config))}:
            suggested += [e for e in _suggestions(config) if not e.is_choice and e.group in new]
            choices = new | choices
            for group, option in new.items():
                config[group] = self.files.option(group, option)
        replaced = {g for g in own_choices if choices[g] != own_choices[g]}
        own_values = [e for e in own_values if e.group not in replaced or _has(e.key, config)]
        typed = [e for e in self.values if e.group in ARM_GROUPS and _has(e.key, config)]
        self.used |= {entry.text for entry in typed}
        for entry in [*suggested, *own_values, *typed, *alone_values]:
            _check_key(entry.key, config, entry.text)
        _update(config, [*suggested, *own_values])
        if _LISTS.get(choices.get("protocol", "")) == "check":
            _shorten(config, self.limits)
        _update(config, [*typed, *alone_values])
        plain = _resolved(config)
        for group in ARM_GROUPS:
            if isinstance(choice := plain.get(group), dict):  # `build` refuses another value
                plugins.refuse_taken(group, choice.get("name"))
        return {g: None if plain.get(g) is None else build(g, plain[g]) for g in ARM_GROUPS}

    @staticmethod
    def _read(name: str, overrides: list[str]) -> list[Entry]:
        entries = _read_words(tuple(map(str, overrides)))
        for entry in entries:
            if entry.group not in ARM_GROUPS or entry.arm is not None:
                raise ConfigError(
                    f"arms.{name}: {entry.text} is no key of an arm; start with {listing(ARM_GROUPS, 'or')}"
                )
        return entries

    def check_all_used(self) -> None:
        """Raise ConfigError for a typed value that no arm has a place for."""
        for entry in self.values:
            if entry.text not in self.used:
                raise ConfigError(f"{entry.key}: no arm that runs has this key{suggest(entry.key)}; drop it")


def _resolved(config: dict[str, Any]) -> dict[str, Any]:
    """What stands for another key is its value."""
    return plain_values(OmegaConf.create(config), resolve=True) if "${" in repr(config) else config


def _update(config: dict[str, Any], entries: Iterable[Entry]) -> None:
    for entry in entries:
        *path, last = entry.key.split(".")
        within = config
        for key in path:
            within[key] = within = inner if isinstance(inner := within.get(key), dict) else {}
        within[last] = deepcopy(entry.value)


def _shorten(config: dict[str, Any], limits: dict[str, int]) -> None:
    """Make an arm's chains as few and as short as limits, else protocol=smoke, say; never more or longer."""
    smoke: Any = OmegaConf.load(conf_dir() / "protocol/smoke.yaml")
    protocol = config["protocol"]
    for key in _LENGTHS if isinstance(protocol, dict) else ():
        length = key.removeprefix("protocol.")
        value, most = protocol.get(length), limits.get(key, smoke[length])
        if isinstance(value, list):
            protocol[length] = value[:most]
        elif isinstance(value, int | float):
            protocol[length] = min(value, most)
    # what is neither, or no protocol, is refused with the other settings


def _title(title: str, listed: str | None, entries: Iterable[Entry], typed: Sequence[Entry]) -> str:
    """A title, with what was said of the data where these are not the experiment's own, and by whom."""
    last = {(e.arm, e.key): e for e in entries if e.group == "dataset"}  # of a key the last counts
    cut = "data cut by protocol=smoke" if listed == "check" else "other data"
    notes: dict[str, dict[str, None]] = {}
    for entry in last.values():
        how = "other data" if entry in typed else cut
        notes.setdefault(how, {})[f"{entry.key}={show(entry.value)}"] = None
    sources = "; ".join(f"{how}: {listing(cuts)}" for how, cuts in notes.items())
    return f"{title} ({sources})" if sources else title


def _suggestions(config: dict[str, Any]) -> list[Entry]:
    """What the chosen options say should go with them."""
    chosen = [group for group in ARM_GROUPS if isinstance(config.get(group), dict)]
    return [
        e for group in chosen for e in _read_words(tuple(schema(group, config[group].get("name")).suggests))
    ]


_read_words = lru_cache(maxsize=1024)(read)  # the same words for many arms, composed more than once


def _open_choices(config: dict[str, Any]) -> list[Entry]:
    """Those that choose for a group for which nobody has."""
    return [entry for entry in _suggestions(config) if entry.is_choice and config.get(entry.key) is None]


def _has(key: str, config: dict[str, Any]) -> bool:
    group, _, field = key.partition(".")
    return field in _keys(group, config)


def _keys(group: str, config: dict[str, Any]) -> list[str]:
    """Keys of the option chosen in a group; none where none is."""
    chosen = config.get(group)
    return keys(schema(group, chosen.get("name"))) if isinstance(chosen, dict) else []


def _check_key(key: str, config: dict[str, Any], text: str) -> None:
    """Raise ConfigError where the chosen option has no such key."""
    group, _, field = key.partition(".")
    known = _keys(group, config)
    if not known:
        raise ConfigError(f"{text}: no {group} is chosen; add {group}=NAME, see `flyrun list {group}`")
    if field not in known:
        name = config[group].get("name")
        raise ConfigError(f"{text}: {group}={name} has no key {field}, only {listing(known)}{suggest(key)}")
