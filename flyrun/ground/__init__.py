"""What a fit of a table and experiments both stand on; it knows neither."""
