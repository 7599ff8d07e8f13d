"""Likelihoods, each with its lower bound beside it, and priors."""

import flyrun.config.arm  # noqa: F401  plug-ins are registered before any of them imports these files
