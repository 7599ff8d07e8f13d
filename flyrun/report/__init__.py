"""Tables, figures and pages made from stored cells."""
