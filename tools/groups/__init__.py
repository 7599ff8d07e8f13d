"""What fits with groups take: seconds, effective draws and the quadrature's error."""
