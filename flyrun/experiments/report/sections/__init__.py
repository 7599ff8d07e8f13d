"""The parts that reports are made of: a file here is one, by its `SECTION`."""
