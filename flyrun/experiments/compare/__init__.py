"""Runs, tables and commits side by side."""

#: probability of finding any difference where there is none
LEVEL = 0.05
#: a difference that does not matter, as a share of A's value
MARGIN = 0.05
VERDICTS = ("better", "worse", "same", "identical", "undecided", "not compared")
