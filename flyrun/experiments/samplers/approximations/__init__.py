"""Approximations to the posterior by a density, and the weighted draws that one buys."""
