"""Likelihoods, with lower bounds beside those that have them, and priors."""

import flyrun.experiments.config.arm  # noqa: F401  plug-ins are registered before any of them imports these files
