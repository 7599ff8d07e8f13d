"""The time to an answer on one file: a point estimate, standard errors or a posterior."""
