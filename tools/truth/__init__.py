"""Families held against posteriors of a second implementation: generated tables, small, hard and long."""
