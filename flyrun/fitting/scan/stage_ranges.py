"""Which groups of row groups each stage of a scan reads."""

import math
from typing import NamedTuple

_FOR_CENTRES = (0.0025, 0.01, 0.05)  # of the row groups by the end of each first stage, looked at again
_GROWTH = 1.5  # of what is known, by each other stage


class Stage(NamedTuple):
    """Groups of row groups, from and to. told: the share of the table that is known before; again: whether it
    is for a centre alone, and comes again as the last.
    """

    begun: int
    end: int
    told: float
    again: bool = False


def stages_of(groups: int, seen: float) -> list[Stage]:
    """Of a first scan of so many groups; seen: share of rows that a pilot stands for."""
    stages, begun, known = list[Stage](), 0, min(seen, 1.0)
    for share in _FOR_CENTRES:
        end = max(int(share * groups), 1)
        if _FOR_CENTRES[-1] * groups >= 1.0 and end > max(begun, 2.0 * seen * groups):
            stages.append(Stage(begun, end, known, True))
            begun, known = end, end / groups
    again, many = begun, max(int(math.log(1.0 / known, _GROWTH)), 1)
    for k in range(1, many + 1):
        if (end := math.ceil(groups * known ** (1.0 - k / many))) > begun:
            stages.append(Stage(begun, end, max(known, begun / groups)))
            begun = end
    return [*stages, Stage(0, again, 1.0)] if again else stages
