"""Real tables by families of `flyrun fit`, held against references of another package."""
