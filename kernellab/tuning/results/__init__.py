"""The results of a sweep: trials, rankings, tables, and the kernels that use them."""
