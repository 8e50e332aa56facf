"""`python -m gossamer` is the command `gossamer`."""

import sys

from gossamer.cli.app import main

sys.exit(main())
