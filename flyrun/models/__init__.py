"""Likelihoods, each with its lower bound beside it, and priors."""
