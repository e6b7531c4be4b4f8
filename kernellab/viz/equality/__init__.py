"""Whether two computations are the same, and whether every pass keeps a kernel."""
