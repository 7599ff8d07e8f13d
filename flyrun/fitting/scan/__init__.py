"""One scan of many Parquet files: sums of second order, and few rows that correct them exactly."""
