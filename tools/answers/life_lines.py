"""Estimates and standard errors of censored times by lifelines."""

from asked import answer, columns
from lifelines import WeibullAFTFitter

x, y = columns()
found = WeibullAFTFitter().fit(x.assign(y=y), "y", "event")
terms = [("lambda_", name) for name in ("Intercept", *x.columns.drop("event"))]
answer(mean=found.params_[terms].tolist(), sd=found.standard_errors_[terms].tolist())
