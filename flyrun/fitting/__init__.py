"""`flyrun fit FILE --target COLUMN`: a person's own table to a posterior, run until the chains agree."""
