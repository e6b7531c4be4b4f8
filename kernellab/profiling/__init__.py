"""What a GPU's profiler measured of a kernel, instruction by instruction."""
