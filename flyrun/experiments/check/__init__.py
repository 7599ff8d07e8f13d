"""`flyrun check`: short chains of every arm against stored ones, so that no number changes unnoticed."""
