"""Lower bounds of the likelihoods, an option a file: build(config, setup, expects) -> bound and E L̃_n, (N,).

No bound is None: the target is then the posterior itself. E L̃_n may be empty where nobody `expects` it.
"""
