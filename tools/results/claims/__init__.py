"""What the works claim, a YAML file a page's table, and what published arms say of it."""
