"""How far answers are from the posterior: what they are held against, and errors in its units."""
