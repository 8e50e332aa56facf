"""`python -m experiments NAME ...` runs an experiment; `gossamer lab NAME ...` does the same."""

import sys

from gossamer.cli.app import main

sys.exit(main(["lab", *sys.argv[1:]]))
