"""`python -m flyrun`."""

import sys

from flyrun.cli import main

if __name__ == "__main__":
    sys.exit(main())
