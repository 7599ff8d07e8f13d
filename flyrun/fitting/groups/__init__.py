"""Effects of groups of rows, integrated out of the posterior and drawn afterwards."""
