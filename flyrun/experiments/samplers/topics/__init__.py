"""Topic models: what learns the topics of latent Dirichlet allocation."""
