"""The experiments compare Gossamer with the papers that it began from; they are run from a clone and not installed."""
