"""Estimates and standard errors by statsmodels' GLM: python stats_models.py FILE OUT."""

import json
import sys
from pathlib import Path

import pandas as pd
import statsmodels.api as sm

file, out = map(Path, sys.argv[1:])
table = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
model = sm.GLM(table["y"], sm.add_constant(table.drop(columns="y")), family=sm.families.Binomial())
found = model.fit()
out.write_text(json.dumps({"mean": found.params.tolist(), "sd": found.bse.tolist()}))
