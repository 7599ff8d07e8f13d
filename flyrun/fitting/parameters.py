"""Further formulas, as `sigma ~ x`: each gives a parameter of the target's distribution its own columns.

A parameter is linear in them on the scale on which it is sampled: log sigma, say. Its columns are read as
those of the target's formula are, from the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flyrun.families import family as families
from flyrun.families.family import Auxiliary, Family
from flyrun.families.options import for_tables
from flyrun.families.prior_densities import Normal, Prior
from flyrun.fitting.bars import Bar
from flyrun.fitting.formula_sides import Formulas
from flyrun.fitting.priors import Typed
from flyrun.fitting.smooths import Smooth
from flyrun.fitting.table_rows import Design
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables import loading, pieces
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout
from flyrun.tables.options import Table

SD_OF_LOG = 1.0  # of the prior of what a log changes by, per sd of a column


def refuse_unknown(
    formulas: Formulas, family: Family, levels: int, target: np.ndarray, of_trials: bool
) -> None:
    """Raise ConfigError for a formula of what is no parameter of the family of a target of so many levels.

    target: (n,), of some rows, as it stands; of_trials: whether these are successes.
    """
    known = _explained(family, levels)
    for name in formulas:
        if name in known:
            continue
        close = did_you_mean(name, known)
        others = [] if close else _taking(name, target, of_trials)
        mends = [f"there are {listing(known)}"] if known else []
        mends += [f"choose --model {listing(others, 'or')} for it"] if others else []
        mends += [] if known else ["leave the formula out"]
        fault = f"{family.name} has no parameter of this name{close}"
        raise ConfigError(f"formula of {name}: {fault}; {', or '.join(mends)}")


def _explained(family: Family, levels: int) -> list[str]:
    """The parameters that a formula may explain, where a target has so many levels."""
    # cutpoints stand in for the intercept, and their columns are the target's
    return [number.name for number in family.auxiliary(levels, 1.0)] if family.intercept else []


def _taking(name: str, target: np.ndarray, of_trials: bool) -> list[str]:
    """The models that have a parameter of this name, and take a target (n,)."""
    # standardised numbers come back in about
    y = np.where(np.abs(target - np.rint(target)) < 1e-9, np.rint(target), target)
    taking = []
    for other in map(families.family, for_tables()):
        domain = other.domain
        if name in _explained(other, 0) and not domain.classes and domain.holds(y).all():
            taking += [other.name] if domain.of_trials == of_trials else []
    return taking


def complete(table: Table, formulas: Formulas, groups: Sequence[Bar | Smooth]) -> Table:
    """The table of the target's formula, of the rows alone that have a value in all formulas' columns, and in
    those of groups and smooths.
    """
    if not (formulas or groups) or table.missing != "drop":
        return table
    from flyrun.tables import formula  # late: pandas

    known = pieces.names(Path(str(table.path)).expanduser(), table)
    rights = [options["formula"] for options in formulas.values()]
    rights += [] if table.formula is None else [table.formula]
    columns = [column for right in rights for column in formula.read(right, known).columns]
    columns += [name for bar in groups for name in (*bar.columns, *bar.slopes) if name in known]
    for options in formulas.values():
        columns += [options[role] for role in ("offset", "exposure") if role in options]
    return replace(table, complete=tuple(dict.fromkeys([*columns, *table.beside.values()])))


def load(table: Table, formulas: Formulas, dataset: Dataset) -> dict[str, Dataset]:
    """What explains each parameter, of the rows of a table whose dataset is known.

    Errors: as of `loading.load`.
    """
    plain = replace(table, offset=None, exposure=None, ones=1.0)
    datasets = {}
    for name, options in formulas.items():
        part = datasets[name] = loading.load(replace(plain, **options))
        if not np.array_equal(part.target, dataset.target):
            raise DataError(
                f"formula of {name}: its rows are not those of the target's; leave the file as it is"
            )
    return datasets


def described(layout: Layout, datasets: dict[str, Dataset]) -> Layout:
    """The layout of the target's formula with those of the others. ConfigError: of two minds on a column."""
    part = {name: Layout.from_dict(dataset.info["layout"]) for name, dataset in datasets.items()}
    kinds = {column.name: column.levels for column in layout.columns}
    for name, its in part.items():
        for column in its.columns:
            if kinds.setdefault(column.name, column.levels) != column.levels:
                raise of_two_minds(name, column.name)
    return replace(layout, parameters=part)


def of_two_minds(name: str, column: str) -> ConfigError:
    """Of a column that formulas, one of them of this parameter, take for different things."""
    return ConfigError(
        f"formula of {name}: {column} is a category in one formula and a number in another; "
        f"write C({column}) in both, or in none"
    )


class Further(NamedTuple):
    """Of each auxiliary number what it is linear in, and the priors of its columns' coefficients, all but the
    intercept; nothing where no number has columns."""

    designs: tuple[Design | None, ...] = ()
    slopes: tuple[tuple[Prior, ...], ...] = ()


NONE = Further()


def designs_of(
    family: Family, dataset: Dataset, datasets: Mapping[str, Dataset], layout: Layout
) -> tuple[Design | None, ...]:
    """What explains auxiliary numbers, as of Further. dataset: of the target; datasets: as of `load`."""
    sd = layout.target.sd  # by which a table divides what is added to the target's predictor
    weights, designs = dataset.precision_weights, list[Design | None]()
    for number in family.auxiliary(dataset.n_classes, 1.0):
        part, further = datasets.get(number.name), np.zeros(())
        if weights is not None and family.precise is not None and number.name == family.precise[0]:
            further = family.by_weights(weights)
        elif part is None:
            designs.append(None)
            continue
        offset = 0.0 if part is None or part.offset is None else part.offset * sd
        features = np.ones((len(dataset.target), 1)) if part is None else np.asarray(part.features)
        designs.append(Design(features, offset + further))
    return () if designs.count(None) == len(designs) else tuple(designs)


def refuse_weights(table: Table, family: Family) -> None:
    """Raise ConfigError for precision weights of a family whose averages are no such."""
    if table.precision_weights is None:
        return
    if family.known and family.known.inner.precise:
        name = family.known.inner.precise[0]
        raise ConfigError(
            f"{table.say('precision_weights')}: divides {name}, which is constant; leave one of these out"
        )
    if family.precise is None:
        others = (name for name in for_tables() if families.family(name).precise is not None)
        raise ConfigError(
            f"{table.say('precision_weights')}: {family.name} has no variance that it divides; choose "
            f"--model {listing(others, 'or')} for it, or name how many rows each row stands for with "
            f"{table.say('weights')}"
        )


def slopes_of(
    auxiliary: Sequence[Auxiliary],
    layout: Layout,
    scale: float,
    typed: Mapping[str, Mapping[int, Typed]],
) -> tuple[tuple[Prior, ...], ...]:
    """The priors of the coefficients of auxiliary numbers' columns, as of Further.

    scale: of such a prior, per sd of the column, of what is no log. typed: those that are chosen, by name and
    place, per unit of their columns.
    """
    slopes = []
    for number in auxiliary if layout.parameters else ():
        usual, part = (
            Normal(0.0, SD_OF_LOG if number.scale == "log" else scale),
            layout.parameters.get(number.name),
        )
        columns = [column for column in part.features for _ in column.encoded] if part else []
        chosen = typed.get(number.name, {})
        slopes.append(
            tuple(
                chosen[d].prior.scaled(column.sd) if d in chosen else usual
                for d, column in enumerate(columns)
            )
        )
    return tuple(slopes)
