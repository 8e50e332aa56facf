"""`python -m gossamer` is the command `gossamer`."""

from gossamer.cli.app import command

command()
