"""Other people's kernels, compiled in a confined process and judged outside of it."""
