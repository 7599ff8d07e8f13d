"""What exact methods that read few data will cost on a posterior, before any runs."""
