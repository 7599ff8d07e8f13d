"""A sweep written as axes: each arm at each point of each axis, one axis at a time, in arms of their own.

    arms: { gibbs: [sampler=gibbs], min: [sampler=min_gibbs], "": [sampler=mgpmh] }
    sweep:
      degree: { 2500: [dataset.degree=2500], 25000: [dataset.degree=25000] }
      total: { points: { 64: [dataset.n_variables=64] }, except: { min_64: [protocol.iterations=100] } }
      edges: { arms: [gibbs], points: [dataset=complete_graph, model=edge_tables] }

gives gibbs, min, gibbs_degree_2500, min_degree_2500, degree_2500, …, gibbs_edges: arm, axis and point joined.
The arm "" stands in sweeps alone, as does what an experiment without arms runs. An axis with a list for its
points has one, without a name; `arms` are those that it takes, `except` adds to single ones, <arm>_<point>.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, listing, show

_LONG = ("points", "arms", "except")


@dataclass(frozen=True)
class Swept:
    """Where an arm comes from: the arm it varies, along which axis, at which point (None: its only one)."""

    arm: str
    axis: str
    point: float | str | None


@dataclass(frozen=True)
class Axis:
    """One axis, checked: the arms it takes, {point: overrides} and {arm_point: further overrides}."""

    name: str
    arms: tuple[str, ...]
    points: dict[Any, list[Any]]
    exceptions: dict[str, list[Any]]

    def expanded(self) -> Iterator[tuple[str, Swept, list[Any]]]:
        """(name, origin, overrides besides its arm's own) of each arm along the axis, point by point."""
        for point, edits in self.points.items():
            for arm in self.arms:
                further = self.exceptions.get(_joined(arm, _word(point)), [])
                yield _joined(arm, self.name, _word(point)), Swept(arm, self.name, point), [*edits, *further]


def axes(sweep: object, arms: Iterable[str]) -> list[Axis]:
    """Read and check the axes of an experiment with these arms. ConfigError names the key that is wrong."""
    if not isinstance(sweep, Mapping):
        raise ConfigError(f"sweep={show(sweep)}: must map each axis to its points; correct the experiment")
    return [_axis(str(name), given, tuple(arms) or ("",)) for name, given in sweep.items()]


def expand(arms: Mapping[str, list[Any]], sweep: object) -> dict[str, tuple[list[Any], Swept | None]]:
    """All arms, those as they stand before those of the axes: name -> (overrides, origin)."""
    arms = arms or ({"": []} if sweep else {})
    all_arms: dict[str, tuple[list[Any], Swept | None]] = {
        name: (overrides, None) for name, overrides in arms.items() if name or not sweep
    }
    for axis in axes(sweep, arms):
        for name, swept, further in axis.expanded():
            if name in all_arms:
                raise ConfigError(f"sweep.{axis.name}: a second arm {name}; rename the axis, point or arm")
            all_arms[name] = [*arms[swept.arm], *further], swept
    return all_arms


def _axis(name: str, given: Any, arms: tuple[str, ...]) -> Axis:
    where = f"sweep.{name}"
    long = isinstance(given, Mapping) and any(key in given for key in _LONG)
    keys = given if long else {"points": given}
    for key in keys:
        if key not in _LONG:
            close = did_you_mean(str(key), _LONG)
            raise ConfigError(f"{where}.{key}: no such key of an axis{close}, only {listing(_LONG)}")
    points, taken, exceptions = keys.get("points"), keys.get("arms", arms), keys.get("except", {})
    points = {None: points} if isinstance(points, list) else points
    if not isinstance(points, Mapping):
        raise ConfigError(f"{where}: must map points to overrides, as in {{2: [dataset.limit=200]}}")
    if not isinstance(taken, (list, tuple)):
        raise ConfigError(f"{where}.arms={show(taken)}: must be a list of arms, such as {show(arms[:2])}")
    if not isinstance(exceptions, Mapping):
        raise ConfigError(f"{where}.except={show(exceptions)}: must map <arm>_<point> to overrides")
    for point in points:
        if isinstance(point, bool) or not isinstance(point, (int, float, str, type(None))):
            raise ConfigError(f"{where}.{show(point)}: a point must be a number or text; quote it")
    for arm in taken:
        _check_named(f"{where}.arms", arm, arms)
    single = [_joined(arm, _word(point)) for point in points for arm in taken]
    for exception in exceptions:
        _check_named(f"{where}.except", exception, single)
    for what, lists in ((where, points), (f"{where}.except", exceptions)):
        for key, overrides in lists.items():
            if not isinstance(overrides, list):
                raise ConfigError(
                    f"{what}.{show(key)}: must be a list of overrides, such as [sampler.step=1]"
                )
    return Axis(name, tuple(taken), dict(points), dict(exceptions))


def _check_named(key: str, name: Any, known: Iterable[str]) -> None:
    if name not in known:
        close = did_you_mean(str(name), known)
        raise ConfigError(f"{key}: {show(name)} names nothing there{close}; correct or drop it")


def _joined(*parts: object) -> str:
    return "_".join(str(part) for part in parts if part != "")


def _word(point: float | str | None) -> str:
    """A point in an arm's name: 2500, 0.5, and 1e4 for what YAML reads as 10000.0."""
    if not isinstance(point, float) or not math.isfinite(point):
        return "" if point is None else str(point)
    if point == 0 or 1e-4 <= abs(point) < 1e4:
        return f"{point:g}"
    digits, power = f"{point:e}".split("e")
    return f"{float(digits):g}e{int(power)}"
