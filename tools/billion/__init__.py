"""A billion rows: generated shards, one scan of each size, and peers on the same files."""
