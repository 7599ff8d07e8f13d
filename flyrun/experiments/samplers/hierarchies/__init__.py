"""Models of global and local variables: what fits the global ones, each local one given them."""
