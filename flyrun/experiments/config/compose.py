"""From words to a Job: each arm composed from the experiment, its own list and what is typed.

Order, later wins: the option's YAML, the experiment, what a choice suggests, the arm's list, what is typed,
what is typed for this arm alone. A typed value reaches every arm that has the key. Where protocol=smoke is
typed the experiment's list `check` stands before what is typed: it makes it small. The lengths in it, and
smoke's where it names none, are the most that the experiment and its arms have: none grows by them. So does
the list `full`, of the lengths to publish, where protocol=full is typed, and its lengths are as it says.
"""

from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from flyrun.experiments.config import job_keys, plugins
from flyrun.experiments.config.arm import ARM_GROUPS, Arm, Job
from flyrun.experiments.config.axes import expand
from flyrun.experiments.config.hydra_errors import one_line
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
    with one_line(), _hydra():
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
    """Hydra's compose API with what was typed; remembers which typed values found an arm."""

    def __init__(self, typed: list[Entry], config_dirs: Sequence[str | Path]) -> None:
        self.choices, self.values = split(entry for entry in typed if not entry.is_hydra)
        self.search = [entry.text for entry in typed if entry.key == "hydra.searchpath"]
        if config_dirs:
            folders = ",".join(f"'{Path(folder).resolve()}'" for folder in config_dirs)
            self.search = [f"hydra.searchpath=[{folders}]"]
        self.used: set[str] = set()
        self.limits: dict[str, int] = {}
        self._options: dict[tuple[str, str], Any] = {}
        self._state = _state()

    def compose(self, choices: dict[str, str]) -> dict[str, Any]:
        """The configuration of an arm with these options of groups, without what belongs to all arms."""
        config = {key: deepcopy(values) for key, values in self._whole.items() if key not in _OF_ALL_ARMS}
        for group, name in choices.items():
            if self.choices.get(group) != name:
                config[group] = self._option(group, name)
        return config

    @cached_property
    def _whole(self) -> dict[str, Any]:
        """The configuration with the options that are typed."""
        merged = self._by_files()
        return _plain(self._composed(self.choices.items()) if merged is None else merged)

    def _by_files(self) -> DictConfig | None:
        """The same by the files alone, a third of the time that Hydra takes; None where it reads more."""
        root = self._file("config")
        options = {
            row.group: row.value for row in root.defaults_list if not (row.is_self() or row.is_override())
        }
        if self.search or self._experiment is None:
            return None
        included, others = self._experiment
        if not included.keys() | self.choices.keys() <= options.keys():
            return None
        options |= included | self.choices | {"experiment": None}
        files = {group: self._alone(group, name) for group, name in options.items() if name is not None}
        if None in files.values():
            return None
        start = {key: value for key, value in root.config.items() if key != "hydra"}
        try:
            return OmegaConf.merge(start, files, others)  # type: ignore[return-value]
        except OmegaConfBaseException:
            return None  # Hydra tells in which file

    @cached_property
    def _experiment(self) -> tuple[dict[str, str], DictConfig] | None:
        """The options that the experiment chooses, and what else it sets; None where it says still more."""
        if "experiment" not in self.choices:
            return {}, DictConfig({})
        option = self._file(f"experiment/{self.choices['experiment']}")
        if option is None or option.header.get("package") != "_global_" or "hydra" in option.config:
            return None
        included = [line for line in option.defaults_list if not line.is_self()]
        if len(option.defaults_list) > len(included) + 1:
            return None  # Hydra refuses it
        if not all(line.is_override() and line.package is None and line.group[0] == "/" for line in included):
            return None
        chosen: dict[str, str] = {}
        for line in included:
            group, file = line.group.lstrip("/"), f"experiment={self.choices['experiment']}"
            if group in chosen:
                raise ConfigError(
                    f"{file}: chooses its {group} twice; keep one line `override /{group}` of the file"
                )
            if isinstance(line.value, list):
                raise ConfigError(f"{file}: override /{group}: must name one option, not a list")
            chosen[group] = line.value
        return chosen, option.config

    @cached_property
    def _own(self) -> DictConfig:
        """What the experiment says of groups whatever their options are."""
        if self._experiment is not None:
            return self._experiment[1]
        rest = ((group, name) for group, name in self.choices.items() if group not in ARM_GROUPS)
        return self._composed(rest, ARM_GROUPS)

    def _composed(self, choices: Iterable[tuple[str, str]], without: Iterable[str] = ()) -> DictConfig:
        chosen = (f"{group}={name}" for group, name in choices)
        config = compose("config", [*self.search, *chosen, *(f"~{group}" for group in without)])
        OmegaConf.set_struct(config, False)
        return config

    def _file(self, path: str) -> Any:
        """What Hydra reads of a file, or None where that is in a folder that only it searches."""
        return (_read_file.__wrapped__ if self._state is None else _read_file)(path, self._state)

    def _alone(self, group: str, name: str) -> DictConfig | None:
        """An option's settings by its file, or None where that includes others, or is not found."""
        file = self._file(f"{group}/{name}")
        return None if file is None or file.defaults_list or file.header.get("package") else file.config

    def _option(self, group: str, name: str) -> dict[str, Any]:
        """A group's option under what the experiment says of the group.

        By its file alone, a tenth of the time that Hydra takes for all, where nothing else bears on it.
        """
        if (group, name) not in self._options:
            file = self._alone(group, name)
            if file is None:
                option = self._composed((self.choices | {group: name}).items())[group]
            else:
                more = self._own.get(group) or {}
                if not isinstance(more, dict | DictConfig):
                    raise ConfigError(
                        f"{group}={show(more)}: must name one option; see `flyrun list {group}`"
                    )
                option = OmegaConf.merge(file, more)
            self._options[group, name] = _plain(option)
        return deepcopy(self._options[group, name])

    def base(self) -> dict[str, Any]:
        """What belongs to the whole job, as a plain dict, and the arms' lists."""
        config = deepcopy(self._whole)
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
        known = [str(key) for key in self._file("config").config if key != "hydra"]
        known += [
            line.group
            for line in self._file("config").defaults_list
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
                config[group] = self._option(group, option)
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


def _hydra() -> AbstractContextManager[None]:
    """Let compose work: inside hydra.main as it is, elsewhere by starting Hydra here."""
    plugins.offer_to_hydra()
    if GlobalHydra.instance().is_initialized():
        return nullcontext()
    return initialize_config_dir(str(conf_dir()), job_name="flyrun", version_base="1.3")


@lru_cache(maxsize=256)
def _read_file(path: str, state: Hashable) -> Any:
    """What Hydra read of a file in a state of all that it may be read from; it is merged, never changed."""
    loader: Any = GlobalHydra.instance().config_loader()
    return loader.repository.load_config(path)


def _state() -> Hashable:
    """What flyrun's own files and other packages' options are now; None where Hydra reads other files too."""
    loader: Any = GlobalHydra.instance().config_loader()
    folders = [source.path for source in loader.get_sources() if source.scheme() == "file"]
    if folders != [str(conf_dir())]:
        return None
    files = ((path, path.stat()) for path in conf_dir().rglob("*.yaml"))
    return frozenset((path, stat.st_mtime_ns, stat.st_size) for path, stat in files), plugins.offered()


def _plain(config: DictConfig, resolve: bool = False) -> dict[str, Any]:
    return OmegaConf.to_container(config, resolve=resolve)  # type: ignore[return-value]


def _resolved(config: dict[str, Any]) -> dict[str, Any]:
    """What stands for another key is its value."""
    return _plain(OmegaConf.create(config), resolve=True) if "${" in repr(config) else config


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
