"""`flyrun fit FILE --target COLUMN`: the exact posterior of a table, by weighted draws, or else by chains."""
