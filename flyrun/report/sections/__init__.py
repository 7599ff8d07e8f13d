"""The parts that reports are made of, one a file; flyrun/report/build.py lists them."""
