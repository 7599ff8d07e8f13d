"""Cells: running, storing, resuming and distributing them."""
