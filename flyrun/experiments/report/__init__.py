"""Tables, figures and pages made from stored cells; build.py makes the whole of a run's."""
