"""Five kernels at real sizes, their references, and what `kernellab demo` makes of them."""
