"""Programs beside the package: run from a checkout, never shipped."""
