"""Methods on data: what is measured, against what it promises and what it costs."""
