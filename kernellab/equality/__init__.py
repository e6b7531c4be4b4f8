"""Whether two kernels, or a kernel and a torch function, compute the same for all inputs: both run
with residues in place of floats, so that rounding and the order of a sum change nothing.
"""
