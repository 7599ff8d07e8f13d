"""Datasets: one loader a file, and the registry that finds, verifies, fetches and builds."""
