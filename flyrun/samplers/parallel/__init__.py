"""Methods for several workers."""
