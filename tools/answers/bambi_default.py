"""A posterior by bambi on PyMC, all at its defaults: python bambi_default.py FILE OUT."""

import json
import sys
from pathlib import Path

import arviz_stats
import bambi
import pandas as pd

file, out = map(Path, sys.argv[1:])
table = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
features = [name for name in table.columns if name != "y"]
model = bambi.Model(f"y ~ {' + '.join(features)}", table, family="bernoulli")
found = model.fit(progressbar=False).posterior
names = ["Intercept", *features]
answer = {
    "mean": [float(found[name].mean()) for name in names],
    "sd": [float(found[name].std()) for name in names],
    "ess": min(float(arviz_stats.ess(found[name].values, sample_dims=None)) for name in names),
}
out.write_text(json.dumps(answer))
