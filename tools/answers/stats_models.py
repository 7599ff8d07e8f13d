"""Estimates and standard errors by statsmodels."""

import statsmodels.api as sm
from asked import MODEL, answer, columns

features, y = columns()
x = sm.add_constant(features)
model = {
    "logistic": lambda: sm.GLM(y, x, family=sm.families.Binomial()),
    "poisson": lambda: sm.GLM(y, x, family=sm.families.Poisson()),
    "negative_binomial": lambda: sm.NegativeBinomial(y, x),
    "gaussian": lambda: sm.OLS(y, x),
}[MODEL]()
found = model.fit()
size = x.shape[1]  # the dispersion is last
answer(mean=found.params[:size].tolist(), sd=found.bse[:size].tolist())
