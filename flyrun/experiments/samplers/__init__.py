"""Sampling algorithms, one a file, the paper named on top."""

import flyrun.experiments.config.arm  # noqa: F401  plug-ins are registered before any of them imports these files
