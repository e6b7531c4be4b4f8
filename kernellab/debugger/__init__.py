"""A kernel in Python's own debugger: on its source lines, with its tiles as NumPy arrays."""
