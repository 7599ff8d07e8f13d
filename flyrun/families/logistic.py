"""Two classes, the second being y = 1: the binomial of one trial a row."""

from dataclasses import replace

from flyrun.families import binomial, domains

FAMILY = replace(binomial.FAMILY, name="logistic", words="logistic regression", domain=domains.BINARY)
