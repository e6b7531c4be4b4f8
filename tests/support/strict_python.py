"""A Python in which every warning is an error."""

STRICT = (
    "-W", "error", "-X", "dev",
    "-W", "ignore:During parsing environment variable:ImportWarning",
)  # fmt: skip
"""Its options. Not an error: NumPy's warning of a variable that hides vector instructions that the
machine does not have."""
