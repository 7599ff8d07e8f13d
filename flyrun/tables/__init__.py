"""Tables of your own, read: CSV, Parquet, formulas, categories, the rows that a model takes."""
