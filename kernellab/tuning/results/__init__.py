"""What a sweep gives: trials, rankings, tables, and the kernels that use them."""
