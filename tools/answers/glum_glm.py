"""Estimates and standard errors by glum. MORE: the negative binomial's dispersion, which it is told."""

from asked import MODEL, MORE, answer, columns
from glum import GeneralizedLinearRegressor, NegativeBinomialDistribution

family = {"logistic": "binomial", "poisson": "poisson", "gaussian": "normal"}.get(MODEL)
x, y = columns()
found = GeneralizedLinearRegressor(alpha=0.0, family=family or NegativeBinomialDistribution(float(MORE[0])))
found.fit(x, y)
known = None if MODEL == "gaussian" else 1.0  # the dispersion that it would else estimate of counts too
errors = found.std_errors(x, y, robust=False, dispersion=known)
answer(mean=[found.intercept_, *found.coef_], sd=[*errors])
