"""The order of a category's levels as it is typed: `--order pain=none,mild,moderate`."""

import contextlib
import math
import re
from collections.abc import Collection, Iterable, Sequence

from flyrun.ground.errors import DataError
from flyrun.ground.schema import closest, did_you_mean
from flyrun.tables.options import Table, listed

_MOST_SHOWN = 100


def are_numbers(levels: Collection[str]) -> bool:
    """Whether levels have the order of numbers."""
    with contextlib.suppress(ValueError):
        return all(math.isfinite(float(level)) for level in levels)
    return False


def typed_order(levels: Sequence[str], name: str, options: Table) -> str:
    """How an order of levels is typed, of those that begin with numbers by these."""
    numbers = {level: match[0] for level in levels if (match := re.match(r"\d+", level))}
    if len(numbers) == len(levels):
        levels = sorted(levels, key=lambda level: int(numbers[level]))
    return options.say("order", f"{name}={','.join(map(listed, levels))}")


def refuse_unfitted(options: Table, fitted: Iterable[str]) -> None:
    """DataError for an order that is typed of a column that is not among those fitted."""
    for entry in options.order:
        if not any(entry.startswith(f"{name}=") for name in fitted):
            close = did_you_mean(entry.partition("=")[0], fitted)
            raise DataError(f"{options.say('order')}: {entry}: no such column is fitted{close}; leave it out")


def not_in_order(levels: set[str], name: str, options: Table) -> str:
    """What is wrong with the order that is typed for levels, and what helps; nothing where they are in it."""
    order = [*options.order_of(name)]
    unused, other = [level for level in order if level not in levels], sorted(levels - {*order})
    if not other:
        return ""
    fault = f"holds {other[0]!r}, which {options.say('order')} does not name"
    if len(levels) > _MOST_SHOWN:
        return f"{fault}, nor {len(levels) - len(order) - 1:,} more; leave {options.say('order')} out"
    for level in other:
        if (close := closest(level, unused)) is not None:
            order[order.index(close)] = level
            unused.remove(close)
        else:
            order.append(level)
    typed = options.say("order", f"{name}={','.join(map(listed, order))}")
    return f"{fault}; add it at its place, as in {typed}"
