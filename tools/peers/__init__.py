"""NumPyro, BlackJAX and ours on identical posteriors: python -m tools.peers."""
