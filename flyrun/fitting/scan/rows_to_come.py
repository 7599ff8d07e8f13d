"""How many of a scan's rows come to the command for a draw, and for how many draws there is room."""

import math
from typing import NamedTuple

from flyrun.fitting.scan import mappers

_NOISE = 0.2  # wanted variance of log weights
# Rows a draw for each unit of κ: a weight turns negative where r is so many sizes below 0. With 5, 10, 12
# and 16 these are 0.23, 0.04, 0.02 and 0.005 % of all weight at κ 0.18 (of 10⁷ rows), and fall with κ.
_PER_KAPPA, _OF_KAPPA, _MOST_PER_KAPPA = 12.0, 0.2, 30.0
_MOST_BYTES, _LEAST_BYTES = 1 << 30, 1 << 24  # of rows that travel, and of a level's among many
LEAST_DRAWS = 1_000  # for which so many may travel: fewer tell no tail


class RowsToCome(NamedTuple):
    """each: Λ of a draw for each unit of size; a_draw: rows; most: draws whose rows fit; bytes_each: of a
    row; rows: of the table; remedy: where no rows fit.
    """

    each: float
    a_draw: float
    most: float
    bytes_each: int
    rows: int
    remedy: str

    def told(self, draws: float) -> str:
        """Rows and MB of so many draws, in words. A row that is drawn many times travels once."""
        rows = self.rows * -math.expm1(-self.a_draw * draws / self.rows)
        return f"about {rows:,.0f} rows ({rows * self.bytes_each / 1e6:.2g} MB) will come here as they stand"


def rows_to_come(kappa: float, rows: int, width: int, share: int) -> RowsToCome:
    """Of so many rows of that width, whose sizes add up to κ; share: tables that share the room."""
    each = max(kappa / _NOISE, min((kappa / _OF_KAPPA) ** (1 / 3) * _PER_KAPPA, _MOST_PER_KAPPA))
    # sizes are the pilot's, and what comes beyond that part of the memory is refused
    memory, size = 0.8 * mappers.memory() / mappers.OF_MEMORY, 4 * (width + 3)
    part = max(min(_MOST_BYTES, memory) / share, _LEAST_BYTES * (share > 1)) / (rows * size)
    most = math.inf if part >= 1.0 else -rows * math.log1p(-part) / (each * kappa)
    remedy = "use fewer columns with --drop, or more rows"
    if memory < _MOST_BYTES:
        remedy = "use fewer columns with --drop, more rows, or a machine of more memory"
    return RowsToCome(each, each * kappa, most, size, rows, remedy)
