"""Claims of the papers that can be worked out: `python -m tools.theorems`."""
