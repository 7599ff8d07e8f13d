"""Families of regression models, one a file: what they say is told in flyrun/families/family.py."""
