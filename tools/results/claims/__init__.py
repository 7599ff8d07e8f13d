"""What the works claim: records of results/reference/claims, and what published arms say of it."""
