"""A family some of whose auxiliary numbers are known: one of the others alone, over an inner family.

Its predictors are the inner one's without the numbers that are known, which are put in their places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from flyrun.families.family import Derivatives, Family, Known
from flyrun.families.prior_densities import shortest
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.special import Numbers
from flyrun.ground.schema import quoted


def known(family: Family, values: Mapping[str, float], sd: float = 1.0) -> Family:
    """The family with these auxiliary numbers known, as people read them, of targets that are divided by sd.

    It is called as `family` reads it: tweedie(power=1.5). ConfigError for a value that a number cannot have.
    """
    names = [number.name for number in family.auxiliary(0, 1.0)]
    values = {name: values[name] for name in names if name in values}
    kept = [k for k, name in enumerate(names) if name not in values]
    sampled = _sampled(family, names, values, sd)
    read_of_all = family.read(sampled)

    def filled(a: Sequence[Numbers]) -> list[Numbers]:
        rest = iter(a)
        return [next(rest) if k in kept else value for k, value in enumerate(sampled)]

    def linear(p: Sequence[Numbers]) -> int:
        return len(p) - len(kept)

    def whole(p: Sequence[Numbers]) -> list[Numbers]:
        return [*p[: linear(p)], *filled(p[linear(p) :])]

    def of_kept(derivatives: Derivatives, linear: int = 0) -> Derivatives:
        slopes, curvatures = derivatives
        which = [*range(linear), *(linear + k for k in kept)]
        return tuple(slopes[j] for j in which), tuple(tuple(curvatures[j][k] for k in which) for j in which)

    def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
        value = family.log_density(y, trials, whole(p))
        return value if kept else value + family.alone(y, trials, filled([]))  # what is apart is of y alone

    def second_order(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Derivatives]:
        value, both = family.to_second_order(y, trials, whole(p))
        value = value if kept else value + family.alone(y, trials, filled([]))
        return value, of_kept(both, linear(p))

    def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
        p = family.start(y, trials, offset, weights)
        return np.delete(p, [k - len(names) for k in range(len(names)) if k not in kept])

    typed = {name: shortest(value) for name, value in values.items()}
    alone, survival, mean = family.alone_derivatives, family.log_survival, family.mean
    of_survival = family.log_survival_derivatives
    its = replace(
        family,
        name=f"{family.name}({', '.join(f'{name}={value}' for name, value in typed.items())})",
        words=f"{family.words}, {', '.join(f'{name} = {value}' for name, value in typed.items())},",
        known=Known(family, values, sampled),
        log_density=log_density,
        derivatives=lambda y, trials, p: of_kept(family.derivatives(y, trials, whole(p)), linear(p)),
        second_order=second_order,
        slopes_into=None,
        start=start,
        draw=lambda rng, trials, p: family.draw(rng, trials, whole(p)),
        auxiliary=lambda levels, sd: tuple(family.auxiliary(levels, sd)[k] for k in kept),
        alone=lambda y, trials, a: family.alone(y, trials, filled(a)) if kept else 0.0,
        alone_derivatives=(lambda y, trials, a: of_kept(alone(y, trials, filled(a))))
        if alone and kept
        else None,
        read=lambda a: family.read(_with(sampled, kept, a))[..., kept],
        unread=lambda read: family.unread(_with(read_of_all, kept, read))[..., kept],
        mean=mean and (lambda trials, p: mean(trials, whole(p))),
        log_survival=survival and (lambda y, p: survival(y, whole(p))),
        log_survival_derivatives=of_survival and (lambda y, p: of_kept(of_survival(y, whole(p)), linear(p))),
        one_mode=family.one_mode or (family.grouped and not kept),
        by_sums=False,
    )
    return replace(its, precise=None) if family.precise and family.precise[0] in values else its


def _sampled(family: Family, names: list[str], values: Mapping[str, float], sd: float) -> np.ndarray:
    """All auxiliary numbers as they are sampled, (A,), 0 those that are not known."""
    a = np.zeros(len(names))
    with np.errstate(all="ignore"):
        low, usual, high = (family.read(a + value) for value in (-np.inf, 0.0, np.inf))
        read = np.array([values.get(name, usual[k]) for k, name in enumerate(names)])
        read[0] /= sd if family.of_noise else 1.0
        sampled = family.unread(read)
    for k, name in enumerate(names):
        if not (low[k] < read[k] < high[k] and np.isfinite(sampled[k])):
            between = f"above {low[k]:g}" if np.isinf(high[k]) else f"between {low[k]:g} and {high[k]:g}"
            typed, other = (quoted(f"{name}: constant({value:g})") for value in (values[name], usual[k]))
            raise ConfigError(f"--prior {typed}: {name} is {between}; write a number there, as {other}")
    return sampled


def _with(of_all: np.ndarray, kept: list[int], values: np.ndarray) -> np.ndarray:
    """(..., A) of all numbers, (A,), with these, (..., K), in place of those that are kept."""
    whole = np.broadcast_to(of_all, (*values.shape[:-1], len(of_all))).copy()
    whole[..., kept] = values
    return whole
