"""The version of Gossamer stands here and in pyproject.toml; a test compares the two."""

__version__ = "0.1.0"
