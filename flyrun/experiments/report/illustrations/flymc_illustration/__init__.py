"""Figures 1 to 3 of Maclaurin and Adams (2014)."""

from flyrun.experiments.report.illustrations.flymc_illustration.figure import FIGURES

__all__ = ["FIGURES"]
