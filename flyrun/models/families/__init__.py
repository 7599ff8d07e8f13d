"""Families of regression models, one a file: what they say is told in flyrun/models/family.py."""
