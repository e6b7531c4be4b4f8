"""The corpus: real kernels of every kind that the lab has to handle,
with what each is compiled with and for.
"""
