"""The IR explorer: a compilation, two of them, or one that failed."""
