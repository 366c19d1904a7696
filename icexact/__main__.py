"""`python -m icexact`."""

import sys

from icexact.cli import main

if __name__ == "__main__":
    sys.exit(main())
