"""Shared settings: seeds are fixed, and the first call of compiled code may take its time."""

from hypothesis import settings

settings.register_profile("flyrun", deadline=None, derandomize=True)
settings.load_profile("flyrun")
