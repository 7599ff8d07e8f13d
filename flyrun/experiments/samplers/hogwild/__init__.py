"""Gibbs sampling of many variables at once: Hogwild, which is biased, and chromatic, which is exact."""
