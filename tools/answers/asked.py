"""What a tool's script is given and hands back: python SCRIPT FILE OUT MODEL [MORE]."""

import json
import sys
from pathlib import Path

import pandas as pd

FILE, OUT = map(Path, sys.argv[1:3])
MODEL, *MORE = sys.argv[3:]


def columns() -> tuple[pd.DataFrame, pd.Series]:
    """The features, of times with the column `event`, and the target."""
    table = pd.read_parquet(FILE) if FILE.suffix == ".parquet" else pd.read_csv(FILE)
    return table.drop(columns="y"), table["y"]


def answer(**found: list[float] | float) -> None:
    """Write what was found: mean and sd, lists with the intercept first; ess, of draws."""
    OUT.write_text(json.dumps(found), "utf-8")
