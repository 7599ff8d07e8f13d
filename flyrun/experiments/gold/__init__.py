"""Posteriors whose moments are known to a stated error; what makes, certifies and reads them."""
