"""This package simulates crawls of link graphs: which pages come first, and when, before bandwidth is spent."""
