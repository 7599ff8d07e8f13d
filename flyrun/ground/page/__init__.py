"""Tables, figures and pages, as people read them."""
