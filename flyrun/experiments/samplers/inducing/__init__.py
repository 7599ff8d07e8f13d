"""Gaussian processes through inducing inputs: particle mirror descent, its rivals, the exact process."""
