"""`python -m gossamer.testweb` does the same as `gossamer testweb`."""

import sys

from gossamer.testweb.command import main

if __name__ == "__main__":
    sys.exit(main())
