"""`make results`: what results/measured says, as tables of README and docs, and as pages."""
