"""Estimates and standard errors by glum. MORE, which it is told: Tweedie's power, a negative binomial's
dispersion.
"""

from asked import MODEL, MORE, answer, columns
from glum import GeneralizedLinearRegressor, NegativeBinomialDistribution, TweedieDistribution

family = {"logistic": "binomial", "poisson": "poisson", "gaussian": "normal"}.get(MODEL)
x, y = columns()
power, dispersion = map(float, MORE)
others = {
    "negative_binomial": NegativeBinomialDistribution(dispersion),
    "tweedie": TweedieDistribution(power),
}
found = GeneralizedLinearRegressor(alpha=0.0, family=family or others[MODEL], link="auto")
found.fit(x, y)
known = (
    None if MODEL in ("gaussian", "tweedie") else 1.0
)  # the dispersion that it would else estimate of counts too
errors = found.std_errors(x, y, robust=False, dispersion=known)
answer(mean=[found.intercept_, *found.coef_], sd=[*errors])
