"""A point estimate by scikit-learn, as its manual has one write it."""

import numpy as np
from asked import MODEL, answer, columns
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

ways = {
    "logistic": LogisticRegression(),
    "poisson": PoissonRegressor(alpha=0.0),  # by default as sure of 0 as of all rows together
    "gaussian": LinearRegression(),
}
found = ways[MODEL].fit(*columns())
answer(mean=[*np.ravel(found.intercept_), *np.ravel(found.coef_)])
