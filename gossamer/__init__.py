"""Gossamer: a fast, polite, crash-proof web crawler."""

__version__ = "0.1.0"
