"""Chains of their own on subsets of the data."""
