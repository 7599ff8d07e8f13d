"""Taylor surrogates of the likelihood at the MAP, in coordinates where the posterior is nearly N(0, I)."""
