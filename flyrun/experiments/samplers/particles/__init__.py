"""Weighted particles that follow the posterior batch by batch, or tempered on all data."""
