"""All that a package of one's own may import of flyrun; docs/extending.md documents each name.

Names are loaded where they are used, so that importing this module costs nothing. What is here keeps its
meaning within a contract's first number; its second number grows with what is added. A package may state the
contract that it was written for, as FLYRUN_CONTRACT = "1.0" in the module of its entry point. CHANGELOG.md
says what a contract changes.
"""

import difflib
import re
import sys
import warnings
from collections.abc import Callable, MutableSequence
from importlib import import_module
from types import ModuleType
from typing import Any

from flyrun.ground.errors import FlyrunError

CONTRACT = "1.0"

#: module -> what it gives; new=old where the name there is another
_HOMES = {
    # settings, and what options of each group derive from
    "flyrun.ground.schema": "option setting",
    "flyrun.experiments.config.sampler": "Sampler ThetaUpdate",
    "flyrun.experiments.config.sampler.chain": "Proposer RandomWalk Hmc",
    "flyrun.tables.dataset_options": "Rows",
    "flyrun.families.options": "Likelihood FamilyModel WithAuxiliary",
    "flyrun.families.one_function": "RowLikelihood",
    "flyrun.experiments.config.prior": "Prior",
    "flyrun.experiments.config.acceptance": "Acceptance",
    "flyrun.experiments.config.brightness": "Brightness NoBrightness",
    "flyrun.experiments.config.bound": "Bound NoBound",
    # contracts
    "flyrun.experiments.samplers.method": "Facts Method",
    "flyrun.experiments.samplers.on_data": "OnData",
    "flyrun.experiments.samplers.stepwise": "Stepwise",
    "flyrun.experiments.samplers.jax_stepwise": "JaxStepwise",
    "flyrun.experiments.models.metered": "Posterior",
    "flyrun.tables.dataset": "Dataset",
    "flyrun.families.domains": "Domain",
    "flyrun.families.family": "Auxiliary Family LogGamma",
    "flyrun.ground.errors": "ConfigError DataError",
    # a problem of rows
    "flyrun.experiments.models.problem": "bind log_densities posterior_curvature",
    "flyrun.experiments.models.passes": "derivatives=look",
    "flyrun.experiments.models.features": "Linear",
    # generics of a likelihood and its bound, and of a prior
    "flyrun.experiments.models.likelihood": "bent log_bound log_likelihood",
    "flyrun.experiments.models.logistic": (
        "jaakkola_jordan=tight_at logistic_pseudo_likelihood=expected_pseudo_likelihood"
    ),
    "flyrun.experiments.models.base_density": "Penalty add_gaussian draw_base log_base",
    "flyrun.experiments.models.laplace_prior": "laplace=prior laplace_times_bounds=pseudo_prior",
    # generics of an update of θ, and the target that it sees; all but `keep` are metered
    "flyrun.experiments.samplers.chain.update": "StepSize adapt step_size tune update",
    "flyrun.experiments.samplers.chain.acceptance.rule": "decide metropolis settle",
    "flyrun.experiments.samplers.chain.targets.target": "data_gradient keep kept_log_data log_data",
    "flyrun.experiments.samplers.chain.metric": "Reference",
    # generics of an update of brightness, and a bound's setting up
    "flyrun.experiments.samplers.chain.brightness.base": "resample",
    "flyrun.experiments.samplers.chain.brightness.partition": "is_bright",
    "flyrun.experiments.samplers.chain.targets.firefly": "brighten darken query",
    "flyrun.experiments.samplers.chain.setup": "Setup",
    # numbers, states and random numbers
    "flyrun.ground.numerics.compiled": "copy_into implements jit",
    "flyrun.ground.numerics.special": "choose sigmoid softplus",
    "flyrun.ground.numerics.state": "generator generator_state seeded unsaved",
    "flyrun.ground.numerics.streams": "Stream normals stream",
    # trials of a choice
    "flyrun.experiments.prove.prove": "prove",
    # a part of a report
    "flyrun.experiments.report.section": "Section",
    "flyrun.ground.page.metrics": "Metric",
    "flyrun.experiments.report.draws": "Draws",
}

#: where the last version had what lies in these folders and files today, the first that fits counts
_BEFORE = {
    "flyrun.ground.schema": "flyrun.config.schema",
    "flyrun.ground.page": "flyrun.report",
    "flyrun.ground": "flyrun",
    "flyrun.tables.dataset_options": "flyrun.config.dataset",
    "flyrun.tables": "flyrun.data",
    "flyrun.families.options": "flyrun.config.model",
    "flyrun.families": "flyrun.models",
    "flyrun.experiments": "flyrun",
}
#: module -> what else the last version's packages took from it, as old=name here; all is served for one
#: version more
_MOVED = {
    "flyrun.compiled": "copy_into implements",
    "flyrun.config.firefly": "NoBound NoBrightness",
    "flyrun.config.sampler": "Hmc RandomWalk",
    "flyrun.config.schema": "ranged=setting",
    "flyrun.models.base": "Penalty add_gaussian draw_base log_base",
    "flyrun.samplers.state": "unsaved",
    "flyrun.samplers.target": "keep kept_log_data log_data",
    "flyrun.samplers.update": "StepSize adapt step_size tune update",
    "flyrun.schema": "option ranged=setting",
}


def _read(table: dict[str, str]) -> dict[tuple[str, str], str]:
    """(module, name before =) -> name after it."""
    pairs = ((module, word.partition("=")) for module, words in table.items() for word in words.split())
    return {(module, name): other or name for module, (name, _, other) in pairs}


def _before(module: str) -> str:
    """Where the last version had a module."""
    folder = next(folder for folder in _BEFORE if module.startswith(folder))
    return _BEFORE[folder] + module.removeprefix(folder)


_PLACES = {name: (module, there) for (module, name), there in _read(_HOMES).items()}
_OLD = {(_before(module), there): name for name, (module, there) in _PLACES.items()} | _read(_MOVED)
_RENAMED = {name: new for (_, name), new in _read(_MOVED).items() if name not in _PLACES}
__all__ = ["CONTRACT", "FlyrunError", *sorted(_PLACES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """A name of this module, loaded where it is used; one that has another name today, with a warning."""
    if name in _RENAMED:
        return _moved(__name__, name, _RENAMED[name])
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _PLACES[name]
    return getattr(import_module(module), there)


def __dir__() -> list[str]:
    """What may be imported."""
    return __all__


def homes_of(dotted: str) -> list[str]:
    """The modules, for digests, in which a name of this module or one that has moved lies, written with its
    module; those of all names where it is "*", and none of others.
    """
    module, _, name = dotted.rpartition(".")
    if (module, name) == (__name__, "*"):
        return [*_HOMES]
    new = _RENAMED.get(name, name) if module == __name__ else _OLD.get((module, name))
    return [_PLACES[new][0]] if new in _PLACES else []


def loaded(load: Callable[[], Any]) -> Any:
    """What a package's load() gives, which is tried again with names that have moved where it lacks them.

    Raises ContractError where it lacks others of flyrun's.
    """
    served = set[tuple[str, str]]()
    while True:
        try:
            return load()
        except ImportError as error:
            module, name = lacks = _lacks(error)
            if lacks in served:
                raise
            served.add(lacks)
            if lacks in _OLD:
                setattr(sys.modules[module], name, _moved(module, name, _OLD[lacks]))
            elif not name and any(f"{old}.".startswith(f"{module}.") for old, _ in _OLD):
                sys.modules[module] = _Vanished(module)
            elif module.partition(".")[0] == "flyrun":
                raise ContractError(_advice(module, name)) from error
            else:
                raise


class ContractError(FlyrunError):
    """A package imports what this contract does not have; what to change, in a line."""


class _Vanished(ModuleType):
    """A module or folder of the last version's, which has only what has moved from it."""

    __path__: MutableSequence[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if (self.__name__, name) not in _OLD:
            raise AttributeError(name)
        return _moved(self.__name__, name, _OLD[self.__name__, name])


def _lacks(error: ImportError) -> tuple[str, str]:
    """The module, and the name in it, that an import lacks; no name where the module itself is missing."""
    if found := re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error)):
        return found[2], found[1]
    return error.name or "", ""


def _moved(module: str, name: str, new: str) -> Any:
    warnings.warn(
        f"{module}.{name} has moved, and the next version does not know it: write `from flyrun.extend import "
        f"{new}`",
        DeprecationWarning,
        stacklevel=4,
    )
    return __getattr__(new)


def _advice(module: str, name: str) -> str:
    """What to change where a package imports what is not there."""
    what = f"{name} from {module}" if name else module
    close = [name] if name in _PLACES else difflib.get_close_matches(name, __all__, 1)
    known = "docs/extending.md lists what flyrun.extend has"
    here = f"write `from flyrun.extend import {close[0]}`" if close else known
    return f"imports {what}, which contract {CONTRACT} does not have; {here}"


def unmet(stated: object) -> str:
    """Why a package that states this contract cannot be used; "" where it can."""
    if stated is None:
        return ""
    if not re.fullmatch(r"\d+\.\d+", str(stated)):
        return f"states FLYRUN_CONTRACT = {stated!r}; write two numbers, as in {CONTRACT!r}"
    theirs, ours = (tuple(map(int, str(one).split("."))) for one in (stated, CONTRACT))
    if theirs > ours:
        return f"is written for contract {stated}, and this flyrun has {CONTRACT}; install a newer flyrun"
    return ""
