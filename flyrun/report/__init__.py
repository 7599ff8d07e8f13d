"""Tables, figures and pages made from stored cells."""

from flyrun.report.build import ReportResult, build

__all__ = ["ReportResult", "build"]
