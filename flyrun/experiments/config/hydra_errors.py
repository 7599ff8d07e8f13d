"""Errors of Hydra, OmegaConf and YAML, said in one line each."""

from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from flyrun.experiments.config import plugins
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, listing


@contextmanager
def one_line() -> Iterator[None]:
    """Raise what Hydra, OmegaConf and YAML complain about as ConfigError."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        options = sorted(error.options or ())
        if group and options:
            close = did_you_mean(option, options)
            why = (
                "".join(f"; {complaint}" for complaint in plugins.COMPLAINTS) if group == "experiment" else ""
            )
            return f"{group}={option}: no such {group}; choose from {listing(options)}{close}{why}"
        return f"{error.missing_cfg_file}: no such configuration file; see `flyrun list`"
    if isinstance(error, OverrideParseException):
        return f"{error.override}: cannot be read as key=value"
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{mark.name}, line {mark.line + 1}: is not valid YAML ({error.problem}); correct that line"
    cause = error.__cause__
    if isinstance(cause, YAMLError):
        return _sentence(cause)
    texts = [_plain(error), _plain(cause) if isinstance(cause, OmegaConfBaseException) else ""]
    return ": ".join(filter(None, texts)) or type(error).__name__


def _plain(error: Exception) -> str:
    """An error's text without OmegaConf's notes on types; the key it is about goes first."""
    lines = [line.strip() for line in str(error).splitlines()]
    where = [line.removeprefix("full_key:").strip() for line in lines if line.startswith("full_key:")]
    text = [line for line in lines if line and not line.startswith(("full_key:", "object_type="))]
    return ": ".join([*filter(None, where), " ".join(text)])
