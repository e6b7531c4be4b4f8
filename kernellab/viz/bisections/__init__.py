"""The pass that changes a result."""
