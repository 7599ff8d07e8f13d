"""Estimates and standard errors by statsmodels. MORE: Tweedie's power, which it is told."""

import statsmodels.api as sm
from asked import MODEL, MORE, answer, columns

features, y = columns()
x = sm.add_constant(features)
model = {
    "logistic": lambda: sm.GLM(y, x, family=sm.families.Binomial()),
    "poisson": lambda: sm.GLM(y, x, family=sm.families.Poisson()),
    "negative_binomial": lambda: sm.NegativeBinomial(y, x),
    "gaussian": lambda: sm.OLS(y, x),
    "zero_inflated_poisson": lambda: sm.ZeroInflatedPoisson(y, x),
    "tweedie": lambda: sm.GLM(y, x, family=sm.families.Tweedie(sm.families.links.Log(), float(MORE[0]))),
}[MODEL]()
found = model.fit()
first = 1 if MODEL == "zero_inflated_poisson" else 0  # the log odds of a zero come first, a dispersion last
its = slice(first, first + x.shape[1])
answer(mean=found.params[its].tolist(), sd=found.bse[its].tolist())
