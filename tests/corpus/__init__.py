"""The corpus: real kernels of every kind, with what each is compiled with and for."""
