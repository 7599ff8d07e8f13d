"""Sampling algorithms, one a file, the paper named on top."""
