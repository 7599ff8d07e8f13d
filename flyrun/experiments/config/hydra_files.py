"""What the files of conf/ say of an experiment and its options, as Hydra reads them."""

from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import cached_property, lru_cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.default_element import GroupDefault
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import ARM_GROUPS
from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import show


class Files:
    """Hydra's compose API for chosen options. search: words of hydra.searchpath, which only Hydra reads."""

    def __init__(self, choices: dict[str, str], search: list[str]) -> None:
        self.choices, self.search = choices, search
        self._options: dict[tuple[str, str], Any] = {}
        self._state = _state()
        self._refuse_doubtful()

    def _refuse_doubtful(self) -> None:
        """Raise ConfigError where the experiment has two options of a group: Hydra takes the first."""
        name, chosen = self.choices.get("experiment"), set[str]()
        option = name and self.file(f"experiment/{name}")
        for line in option.defaults_list if option else ():
            if not isinstance(line, GroupDefault) or not line.is_override():
                continue
            group = str(line.group).lstrip("/")
            if group in chosen:
                doubled = f"chooses its {group} twice; keep one line `override /{group}` of the file"
                raise ConfigError(f"experiment={name}: {doubled}")
            if isinstance(line.value, list):
                raise ConfigError(f"experiment={name}: override /{group}: must name one option, not a list")
            chosen.add(group)

    @cached_property
    def whole(self) -> dict[str, Any]:
        """The configuration with the options that are typed."""
        return plain_values(self._composed(self.choices.items()))

    @cached_property
    def _own(self) -> DictConfig:
        """What the experiment says of groups whatever their options are."""
        rest = ((group, name) for group, name in self.choices.items() if group not in ARM_GROUPS)
        return self._composed(rest, ARM_GROUPS)

    def _composed(self, choices: Iterable[tuple[str, str]], without: Iterable[str] = ()) -> DictConfig:
        chosen = (f"{group}={name}" for group, name in choices)
        overrides = (*self.search, *chosen, *(f"~{group}" for group in without))
        anew = self._state is None or self.search  # of files that the state does not tell of
        return (_compose.__wrapped__ if anew else _compose)(overrides, self._state)

    def file(self, path: str) -> Any:
        """What Hydra reads of a file, or None where that is in a folder that only it searches."""
        return (_read_file.__wrapped__ if self._state is None else _read_file)(path, self._state)

    def _alone(self, group: str, name: str) -> DictConfig | None:
        """An option's settings by its file, or None where that includes others, or is not found."""
        file = self.file(f"{group}/{name}")
        return None if file is None or file.defaults_list or file.header.get("package") else file.config

    def option(self, group: str, name: str) -> dict[str, Any]:
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
            self._options[group, name] = plain_values(option)
        return deepcopy(self._options[group, name])


def hydra() -> AbstractContextManager[None]:
    """Let compose work: inside hydra.main as it is, elsewhere by starting Hydra here."""
    plugins.offer_to_hydra()
    if GlobalHydra.instance().is_initialized():
        return nullcontext()
    return initialize_config_dir(str(conf_dir()), job_name="flyrun", version_base="1.3")


@lru_cache(maxsize=256)
def _compose(overrides: tuple[str, ...], state: Hashable) -> DictConfig:
    """What Hydra composed by these overrides, in a state as below; it is merged, never changed."""
    config = compose("config", [*overrides])
    OmegaConf.set_struct(config, False)
    return config


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
    places = [*conf_dir().rglob("*.yaml"), *plugins.EXPERIMENTS.values()]
    files = ((path, path.stat()) for path in places)
    return frozenset((path, stat.st_mtime_ns, stat.st_size) for path, stat in files), plugins.offered()


def plain_values(config: DictConfig, resolve: bool = False) -> dict[str, Any]:
    """The same as plain dicts and lists; resolve: what stands for another key is its value."""
    return OmegaConf.to_container(config, resolve=resolve)  # type: ignore[return-value]
