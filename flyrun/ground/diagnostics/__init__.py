"""Effective sample sizes and other diagnostics of stored draws."""
