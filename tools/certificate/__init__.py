"""What speaks for weighted draws of small tables, and what they are worth by number of rows."""
